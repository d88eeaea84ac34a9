"""What the explorer shows of models: their attention on given inputs, in a page or from a server on this computer.

The page itself is in `omegamax/explorer`, which knows no model.
"""
