"""The page of `omegamax explore`: what Python puts into it, and the server that answers it."""
