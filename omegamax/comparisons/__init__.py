"""Comparisons of trained models: the same task under several normalizers, as numbers and as a web page."""
