"""What users import: the names of `omegamax` itself, and those of its rooms."""

import importlib.util
import inspect

import omegamax as om

ROOMS = ("attention", "estimators", "losses", "models", "operators", "spans", "structures")
NEEDS = {"estimators": "sklearn"}  # a room, and the package without which it is not there


def public_names():
    """Functions and classes by name ("Chain", "attention.DrawAttention"), each once."""
    found = {name: getattr(om, name) for name in om.__all__ if not inspect.ismodule(getattr(om, name))}
    known = set(map(id, found.values()))
    for room in ROOMS:
        if room in NEEDS and importlib.util.find_spec(NEEDS[room]) is None:
            continue
        for name, thing in vars(importlib.import_module(f"omegamax.{room}")).items():
            ours = getattr(thing, "__module__", "").startswith("omegamax.") and not inspect.ismodule(thing)
            if ours and not name.startswith("_") and id(thing) not in known:
                known.add(id(thing))
                found[f"{room}.{name}"] = thing
    return found
