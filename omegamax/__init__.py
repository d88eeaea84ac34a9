"""Sparse and structured attention and differentiable dynamic programming.

The public names are listed in `__init__.pyi`, which type checkers and editors read. Each is imported when it is first
used: PyTorch takes two seconds to load, and the command line prints its help without it.
"""

from typing import Any as _Any

__version__ = "0.1.0"

_homes: dict[str, str] = {}  # public name: the module that defines it, or "omegamax" for a room


def __getattr__(name: str) -> _Any:
    """Imports a public name, or any module of the package, when it is first used."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'omegamax' has no attribute {name!r}")
    from importlib import import_module
    from importlib.util import find_spec

    homes = _read_homes()
    if name == "__all__":
        return list(homes)
    if name in homes and homes[name] != "omegamax":
        globals()[name] = thing = getattr(import_module(homes[name]), name)
        return thing
    if find_spec(f"omegamax.{name}") is not None:
        return import_module(f"omegamax.{name}")  # importing it makes it an attribute of this module
    from omegamax.spelling import no_public_name

    raise no_public_name(name, homes)


def __dir__() -> list[str]:
    """Lists all public names, imported or not."""
    return sorted({*globals(), *_read_homes()})


def _read_homes() -> dict[str, str]:
    """Reads the import lines of `__init__.pyi`, once."""
    if not _homes:
        import ast
        import pkgutil

        stub = ast.parse(pkgutil.get_data("omegamax", "__init__.pyi") or b"")
        for line in stub.body:
            if isinstance(line, ast.ImportFrom):
                _homes.update({alias.name: line.module or "" for alias in line.names})
    return _homes
