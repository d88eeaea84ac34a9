"""Suggests the right name for a mistyped one: `om.sparsmax` says "did you mean sparsemax?"."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Makes the error for a name that a module does not have, with those that look like it."""
    message = f"module {module!r} has no attribute {name!r}"
    public = [] if name.startswith("_") else [each for each in known if not each.startswith("_")]
    near = [each for each in sorted(set(public)) if _likeness(name, each)[0] > 0.7]
    near.sort(key=lambda each: _likeness(name, each), reverse=True)
    if near:
        message += f"; did you mean {' or '.join(near[:3])}?"
    return AttributeError(message)


_ROOMS = ("attention", "structures", "losses", "operators", "models", "integrations", "smoothmax", "estimators")


def no_public_name(name: str, known: Iterable[str]) -> AttributeError:
    """Makes the error for a name that `omegamax` does not have: it names the room that has it, or similar names."""
    for room in _ROOMS:
        try:
            names = vars(import_module(f"omegamax.{room}"))
        except ImportError:  # its extra is not installed
            continue
        if name in names:
            return AttributeError(f"module 'omegamax' has no attribute {name!r}; it is omegamax.{room}.{name}")
    return no_attribute("omegamax", name, known)


def _likeness(name: str, other: str) -> tuple[float, float]:
    """Computes how alike two names are, first without regard to upper and lower case."""
    pairs = ((name.lower(), other.lower()), (name, other))
    without, exact = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return without, exact


def install(module: str) -> None:
    """Lets a module that is being imported suggest names.

    A `__getattr__` written in the module would make type checkers accept every name; they do not see this one.
    """
    namespace = vars(sys.modules[module])

    def suggest(name: str) -> Any:
        raise no_attribute(module, name, namespace)

    namespace["__getattr__"] = suggest
