"""Whole networks as plain modules: what a recipe trains."""
