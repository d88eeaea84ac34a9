"""Slow, obvious solvers in numpy and scipy. Nothing here imports the library."""
