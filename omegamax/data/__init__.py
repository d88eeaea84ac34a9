"""Loaders and makers of data: files or rules to examples."""
