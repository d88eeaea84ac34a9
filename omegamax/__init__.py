"""Sparse and structured attention and differentiable dynamic programming."""

import typing as _typing

__version__ = "0.1.0"


def _is_the_command() -> bool:
    """Whether this process is `omegamax ...` or `python -m omegamax ...`."""
    import sys
    from pathlib import Path

    module = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
    return module[:1] == ["omegamax"] or Path(sys.argv[0]).stem == "omegamax"


def __getattr__(name: str) -> _typing.Any:
    """Rooms and public names where they were not loaded at import."""
    if not name.startswith("_"):
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec(f"omegamax.{name}") is not None:
            return import_module(f"omegamax.{name}")
        public = import_module("omegamax.public")
        if hasattr(public, name):
            return getattr(public, name)
    raise AttributeError(f"module 'omegamax' has no attribute {name!r}")


# PyTorch takes two seconds to load. A program that imports omegamax wants it, and wants our operators registered with
# it; the command line wants to answer --help first.
if _typing.TYPE_CHECKING or not _is_the_command():
    from omegamax.public import *  # noqa: F403
