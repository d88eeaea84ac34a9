"""What a user asked for cannot be done: one sentence, exit code 2."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from omegamax.errors import reason

_NO_MEMORY = (
    "the work must fit into memory, and there is not enough; give a smaller --batch-size, --beam or model, or fewer or "
    "shorter inputs"
)
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")  # PyTorch has no type of its own
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class Refused(Exception):  # noqa: N818  (a mistake of the caller, not of the program)
    """The message says what is wrong and what to do."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turns what recipes refuse, missing extras and full disks into `Refused`, and whatever other kinds are named."""
    try:
        yield
    except (Refused, BrokenPipeError):
        raise
    except kinds as error:
        raise Refused(_sentence(error)) from error
    except ImportError as error:
        if "pip install" in str(error):  # an extra that is not installed, said by ourselves
            raise Refused(str(error)) from error
        raise
    except OSError as error:
        raise Refused(_sentence(error)) from error
    except MemoryError as error:
        raise Refused(_NO_MEMORY) from error
    except Exception as error:
        from omegamax.errors import RecipeError

        if isinstance(error, RecipeError):
            raise Refused(_sentence(error)) from error
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY):
            raise Refused(_NO_MEMORY) from error
        raise


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        advice = "make room there" if error.errno in _NO_ROOM else "check the path"
        return f"{where}{reason(error)}; {advice}, or choose another one"
    return " ".join(str(error).split()) or type(error).__name__
