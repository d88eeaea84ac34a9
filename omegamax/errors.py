"""What can go wrong in a run, each said in one sentence that a command can print as it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from omegamax.extras import how_to_install


class RecipeError(Exception):
    """A run cannot start or go on; nothing that was complete before is lost."""


class RunDirectoryError(RecipeError):
    """The output directory is taken, in use, not a run's, or cannot be written."""


class CheckpointError(RecipeError):
    """A checkpoint is missing, damaged, or of something else."""


class DataError(RecipeError):
    """A file, a line of it, or a setting cannot be what the task needs."""


class DeviceError(RecipeError):
    """The device that was asked for is not there."""


class DivergedError(RecipeError):
    """The loss or its gradient is no longer a number."""


class WorkerError(RecipeError):
    """One of several processes died."""


def need(package: str) -> Any:
    """Imports a package of the extra `nlp`, or says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"training needs {name}; {how_to_install('nlp')}") from error


def reason(error: OSError) -> str:
    """An operating system's complaint, in words."""
    said = error.strerror or type(error).__name__
    return said[:1].lower() + said[1:]
