"""Attention that depends on where it looked before: a state goes from one query to the next."""
