"""Bugs that users of other packages reported in public, each run: what the installed package gives, and what we give.

`cases.py` is the table; it loads no PyTorch. `omegamax reproduce upstream` and docs/upstream.md are two views of it.
"""
