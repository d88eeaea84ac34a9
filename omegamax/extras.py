"""Says how the optional parts of the package are installed. Loads nothing, so that any module may import it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def how_to_install(extra: str) -> str:
    """Returns the commands that install an extra, from a package index and from a clone, as the end of a message."""
    return f'install it with pip install "omegamax[{extra}]", or in a clone of omegamax with pip install ".[{extra}]"'


def import_for_training(package: str) -> Any:
    """Imports a package of the extra `nlp`; if it is not installed, the error says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"training needs {name}; {how_to_install('nlp')}") from error
