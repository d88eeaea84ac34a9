"""Every theorem, figure, table and stated number of the five sources, each beside what this library computes.

The tables of claims (`*_claims.py`, gathered in `catalogue.py`) load no PyTorch; the modules that compute are named by
their claims and loaded when a claim is run. `omegamax reproduce` and docs/claims.md are two views of the catalogue.
"""
