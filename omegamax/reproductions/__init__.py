"""The claims of the five sources: every theorem, figure, table and number, and what this library computes for it.

The tables of claims (`*_claims.py`, gathered in `catalogue.py`) load no PyTorch; the modules that compute are named by
their claims and loaded when a claim is run. `omegamax reproduce` and docs/claims.md are two views of the catalogue.
"""
