"""Subsets and budgets: the best selection, and sums over all of them."""
