"""`python -m omegamax`: the same as the command `omegamax`."""

from omegamax.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
