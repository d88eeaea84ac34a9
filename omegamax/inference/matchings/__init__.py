"""Matchings: the best one, and entropic transport."""
