"""Errors of a command: it cannot do what the user asked for, prints one sentence, and exits with code 2."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from omegamax.errors import os_error_text

_NO_MEMORY = (
    "the work must fit into memory, and there is not enough; give a smaller --batch-size, --beam or model, or fewer or "
    "shorter inputs"
)
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")  # PyTorch has no type of its own
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class CommandError(Exception):
    """A mistake of the caller; the message says what is wrong and what to do."""


@contextmanager
def as_command_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of recipes, missing extras, full disks and too little memory into `CommandError`.

    `kinds` names further errors that become one.
    """
    try:
        yield
    except (CommandError, BrokenPipeError):
        raise
    except kinds as error:
        raise CommandError(_sentence(error)) from error
    except ImportError as error:
        if "pip install" in str(error):  # our own message about an extra that is not installed
            raise CommandError(str(error)) from error
        raise
    except OSError as error:
        raise CommandError(_sentence(error)) from error
    except MemoryError as error:
        raise CommandError(_NO_MEMORY) from error
    except Exception as error:
        from omegamax.errors import RecipeError

        if isinstance(error, RecipeError):
            raise CommandError(_sentence(error)) from error
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY):
            raise CommandError(_NO_MEMORY) from error
        raise


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        advice = "make room there" if error.errno in _NO_ROOM else "check the path"
        return f"{where}{os_error_text(error)}; {advice}, or choose another one"
    return " ".join(str(error).split()) or type(error).__name__
