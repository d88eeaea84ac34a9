"""A run directory has one writer. The lock is the system's own, so it dies with its process, however that dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from omegamax.data.files import open_inside
from omegamax.errors import RunDirectoryError


class Lock:
    """Held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        descriptor = open_inside(path, os.O_RDWR | os.O_CREAT)
        self._file: IO[str] = os.fdopen(descriptor, "r+", encoding="ascii", errors="replace")
        try:
            _seize(self._file)
        except OSError as error:
            holder = self._read()
            self._file.close()
            raise RunDirectoryError(
                f"{path.parent} is in use by process {holder or 'unknown'}; wait for it, or choose another directory"
            ) from error
        holder = self._read()
        if holder and not holder.isdigit():  # not ours, though it has the name
            self._file.close()
            raise RunDirectoryError(
                f"{path} must hold the number of a process, got something else; "
                "delete it, or choose another directory with --out"
            )
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _read(self) -> str:
        self._file.seek(0)
        holder = self._file.read(20).strip()
        self._file.seek(0)
        return holder

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
