"""How it is chosen: solvers that know a problem only through its functions."""
