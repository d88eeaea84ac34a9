"""The errors of training runs, their files and their data. Each message is one sentence that a command can print."""

from __future__ import annotations


class RecipeError(Exception):
    """A run cannot start or continue. Nothing that was complete before is lost."""


class RunDirectoryError(RecipeError):
    """The output directory is taken, is in use, belongs to something else, or cannot be written."""


class CheckpointError(RecipeError):
    """A checkpoint is missing, is damaged, or belongs to another task or model."""


class DataError(RecipeError):
    """A file, a line of it, or a setting is not what the task needs."""


class DeviceError(RecipeError):
    """The device that the settings name does not exist here."""


class DivergedError(RecipeError):
    """The loss or its gradient is infinite or not a number."""


class WorkerError(RecipeError):
    """One of several processes died."""


def os_error_text(error: OSError) -> str:
    """Returns what the operating system says about an error, to be put into a sentence."""
    text = error.strerror or type(error).__name__
    return text[:1].lower() + text[1:]
