"""`python -m omegamax`: the same as the command `omegamax`."""

from omegamax.cli import command

if __name__ == "__main__":
    command()
