"""Sparse and structured attention and differentiable dynamic programming."""

import typing as _typing

__version__ = "0.1.0"


def _is_the_command() -> bool:
    """Whether this process is `omegamax ...` or `python -m omegamax ...`."""
    import sys
    from pathlib import Path

    module = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
    return module[:1] == ["omegamax"] or Path(sys.argv[0]).stem == "omegamax"


def _public() -> dict[str, _typing.Any]:
    """All public names; from then on they are found here."""
    from omegamax import public

    names = {name: thing for name, thing in vars(public).items() if not name.startswith("_")}
    globals().update(names)
    return names


if not _typing.TYPE_CHECKING:  # with it, type checkers would accept every name

    def __getattr__(name: str) -> _typing.Any:
        """Rooms and public names where they were not loaded at import."""
        if name == "__all__":
            return list(_public())
        if name.startswith("_"):
            raise AttributeError(f"module 'omegamax' has no attribute {name!r}")
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec(f"omegamax.{name}") is not None:
            return import_module(f"omegamax.{name}")
        names = _public()
        if name in names:
            return names[name]
        raise _missing(name, names)


def _missing(name: str, names: _typing.Iterable[str]) -> AttributeError:
    """The error for a name that is not here: where it is, or what it might have been."""
    from importlib import import_module
    from pathlib import Path
    from pkgutil import iter_modules

    from omegamax.spelling import no_attribute

    for room in ("models", "integrations", "attention", "operators", "structures", "losses"):
        if name in vars(import_module(f"omegamax.{room}")):
            return AttributeError(f"module 'omegamax' has no attribute {name!r}; it is omegamax.{room}.{name}")
    return no_attribute(
        "omegamax", name, [*names, *(module.name for module in iter_modules([str(Path(__file__).parent)]))]
    )


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    _public()
    return sorted(globals())


# PyTorch takes two seconds to load. A program that imports omegamax wants it, and wants our operators on rows, which
# are registered with it; structures, losses and layers come when one of them is named. The command line wants to answer
# --help first.
if _typing.TYPE_CHECKING:
    from omegamax import attention as attention
    from omegamax import inference as inference
    from omegamax import losses as losses
    from omegamax import models as models
    from omegamax import operators as operators
    from omegamax import plots as plots
    from omegamax import recipes as recipes
    from omegamax import registry as registry
    from omegamax import structures as structures
    from omegamax.public import *  # noqa: F403
elif not _is_the_command():
    from omegamax.rows import *  # noqa: F403
