"""How it is computed: rows in, rows out. Every kernel has a PyTorch reference and, where it pays, a native twin."""
