"""Sparse and structured attention and differentiable dynamic programming."""

__version__ = "0.1.0"
