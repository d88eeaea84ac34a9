"""How the optional parts of the package are installed. Loads nothing, so that any message may ask."""


def how_to_install(extra: str) -> str:
    """The commands that install an extra, from a package index and from a clone: what a message about it ends with."""
    return f'install it with pip install "omegamax[{extra}]", or in a clone of omegamax with pip install ".[{extra}]"'
