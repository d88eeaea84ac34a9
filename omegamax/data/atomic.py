"""Files and directories that are there whole or not at all, whenever the power goes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from omegamax.data.files import refuse_link

_UNFINISHED = ".unfinished-"  # a name that starts so may be deleted by whoever holds the run's lock


def write_file(path: Path, content: bytes) -> None:
    """Puts a file in place by one rename; the old one is there until then. Refuses to replace a link."""
    refuse_link(path)
    _put(path, path, content)


def write_chosen_file(path: Path, content: bytes) -> None:
    """Like `write_file`, for a path that the user named: of a link, the file that it leads to is replaced."""
    _put(path.resolve(), path, content)


def _put(place: Path, path: Path, content: bytes) -> None:
    unfinished = place.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")
    try:
        _write(unfinished, content)
        unfinished.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
    sync_directory(place.parent)


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Puts a directory of files in place by one rename. It must not exist."""
    unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")
    try:
        unfinished.mkdir()
        for name, content in files.items():
            _write(unfinished / name, content)
        sync_directory(unfinished)
        unfinished.rename(path)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_directory(path.parent)


def remove_directory(path: Path) -> None:
    """Takes a directory away by one rename, then deletes it: a half-deleted one never has its name."""
    unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")
    path.rename(unfinished)
    shutil.rmtree(unfinished, ignore_errors=True)


def sweep(directory: Path) -> None:
    """Deletes what earlier processes left unfinished."""
    for path in directory.glob(f"{_UNFINISHED}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Whether an earlier process left it so."""
    return path.name.startswith(_UNFINISHED)


def sync_directory(path: Path) -> None:
    """Makes renames inside a directory last; a system that cannot do this does not need it."""
    with contextlib.suppress(PermissionError):  # Windows opens no directories
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_file(file: IO[Any]) -> None:
    """Makes what was written to a file last."""
    file.flush()
    os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:  # never through a link that somebody put there
        file.write(content)
        sync_file(file)
