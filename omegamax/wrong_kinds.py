"""Words for errors about an object of the wrong kind: what came, and which object was meant.

People write `normalizer="sparsemax"`, `om.sparsemax`, `om.SquaredNorm` or `nn.Softmax(-1)` where an object such as
`om.SquaredNorm()` belongs. Names are for the command line; here an object is taken, and the message says which one.
"""

from __future__ import annotations

import difflib
from typing import Any

from omegamax.operator_table import TABLE

OBJECTS = {facts.function: f"om.{facts.constructor}" for facts in TABLE}


def kind_of(given: Any) -> str:
    """Describes what came in a few words: "the string 'sparsemax'", "the class SquaredNorm", "int"."""
    if isinstance(given, str):
        return f"the string {given[:40]!r}"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = getattr(given, "__name__", None)
    return f"the function {name}" if callable(given) and isinstance(name, str) else type(given).__name__


def instead_of(given: Any, example: str) -> str:
    """Says what to do: "use om.SquaredNorm()" if the name of what came shows it, else "use for example ..."."""
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    near = difflib.get_close_matches(name.lower().replace("_", ""), OBJECTS, 1, 0.85)
    if near:
        return f"use {OBJECTS[near[0]]}"
    return f"use om.{given.__name__}(...)" if _is_ours(given) else f"use for example {example}"


def _is_ours(given: Any) -> bool:
    return isinstance(given, type) and given.__module__.startswith("omegamax.")
