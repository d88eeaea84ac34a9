"""A run directory has one writer. The lock is the system's own, so it dies with its process, however that dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from omegamax.recipes.failures import RunDirectoryError


class Lock:
    """Held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a+", encoding="ascii")
        try:
            _seize(self._file)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read(20).strip()
            self._file.close()
            raise RunDirectoryError(
                f"{path.parent} is in use by process {holder or 'unknown'}; wait for it, or choose another directory"
            ) from error
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Lets others write; the file stays, since deleting it would let two processes lock two files of one name."""
        self._file.close()


def _seize(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(1 << 30)  # a byte that nobody reads
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        file.seek(0)
    else:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
