"""Safe files: read up to a limit, written whole or not at all, never written through a link.

A run directory may come from a stranger. A link in it would make training write outside the directory, a pipe would
make reading wait, and a device would never end. So files inside a run directory are opened by the functions of this
module. A path that the user named is the user's own choice, so links to it are followed (`write_user_file`).

A process may be killed at any moment. So a new file gets a name that starts with `.unfinished-`, is written to the disk
and then renamed: a reader of the real name finds the old content or the new one, never a part of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from omegamax.errors import RunDirectoryError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none of these
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe does not wait for its other end
_BINARY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_CHUNK = 1 << 20
_UNFINISHED = ".unfinished-"  # the process that holds the run's lock may delete files whose names start so


# Reading


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Returns the content of a regular file; raises OSError for a pipe, a device, or more than `max_bytes` bytes."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file but a pipe or a device", str(path))
        return _read(descriptor, path, max_bytes, status.st_size)
    finally:
        os.close(descriptor)


def read_user_file(path: Path, max_bytes: int) -> bytes:
    """Returns the content of a file that the user named, which may be a pipe; raises OSError beyond `max_bytes`."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY)
    try:
        return _read(descriptor, path, max_bytes, 0)
    finally:
        os.close(descriptor)


def _read(descriptor: int, path: Path, max_bytes: int, size: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    while size <= max_bytes and length <= max_bytes:
        part = os.read(descriptor, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        length += len(part)
    raise OSError(errno.EINVAL, f"larger than {_with_unit(max_bytes)}, the most that is read of such a file", str(path))


def _with_unit(n_bytes: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes} {unit}"
        n_bytes //= 1024
    return f"{n_bytes} GiB"


# Links


def open_regular_file(path: Path, flags: int) -> int:
    """Opens a file of a run directory for writing and returns its descriptor.

    Refuses links and everything else that is not a regular file.
    """
    refuse_link(path)
    try:
        descriptor = os.open(path, flags | _NO_LINK | _NO_WAIT | _BINARY, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it became a link after the check
            raise _link_error(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunDirectoryError(
            f"{path} must be a regular file, got a pipe or a device; delete it, or choose another directory with --out"
        )
    return descriptor


def make_directory(path: Path) -> None:
    """Makes a directory unless it exists; refuses a link to one elsewhere."""
    refuse_link(path)
    path.mkdir(exist_ok=True)


def refuse_links(paths: Iterable[Path]) -> None:
    """Raises RunDirectoryError if any of the paths is a link; paths that do not exist are fine."""
    for path in paths:
        refuse_link(path)


def refuse_link(path: Path) -> None:
    """Raises RunDirectoryError if the path is a link, wherever it leads."""
    if path.is_symlink():
        raise _link_error(path)


def _link_error(path: Path) -> RunDirectoryError:
    try:
        target = f" to {path.readlink()}"
    except OSError:
        target = ""
    return RunDirectoryError(
        f"{path} must not be a link, got one{target}: omegamax would write outside the directory; "
        "delete the link, or choose another directory with --out"
    )


# Writing


def write_file(path: Path, content: bytes) -> None:
    """Writes a file in one rename, so that the old one is there until then; refuses to replace a link."""
    refuse_link(path)
    _replace(path, path, content)


def write_user_file(path: Path, content: bytes) -> None:
    """Writes a file that the user named; if the path is a link, the file that it leads to is replaced."""
    _replace(path.resolve(), path, content)


def _replace(target: Path, path: Path, content: bytes) -> None:
    unfinished = _unfinished_beside(target)
    try:
        _write(unfinished, content)
        unfinished.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
    _sync_directory(target.parent)


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes a directory of files in one rename. The directory must not exist."""
    unfinished = _unfinished_beside(path)
    try:
        unfinished.mkdir()
        for name, content in files.items():
            _write(unfinished / name, content)
        _sync_directory(unfinished)
        unfinished.rename(path)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    _sync_directory(path.parent)


def remove_directory(path: Path) -> None:
    """Renames a directory and then deletes it, so that its name never belongs to a half-deleted one."""
    unfinished = _unfinished_beside(path)
    path.rename(unfinished)
    shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(directory: Path) -> None:
    """Deletes the unfinished files and directories that earlier processes left."""
    for path in directory.glob(f"{_UNFINISHED}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Returns whether an earlier process was killed before it had written this file or directory."""
    return path.name.startswith(_UNFINISHED)


def sync_file(file: IO[Any]) -> None:
    """Waits until everything written to a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def _unfinished_beside(path: Path) -> Path:
    return path.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:  # never through a link that somebody put there
        file.write(content)
        sync_file(file)


def _sync_directory(path: Path) -> None:
    """Waits until renames inside a directory are on the disk; a system that cannot do this does not need it."""
    with contextlib.suppress(PermissionError):  # Windows opens no directories
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Locking


class FileLock:
    """Holds the lock of a run directory from construction to `release`, so that a directory has one writer.

    The lock is the operating system's, so it ends with the process that holds it, however that process ends.
    """

    def __init__(self, path: Path) -> None:
        descriptor = open_regular_file(path, os.O_RDWR | os.O_CREAT)
        self._file: IO[str] = os.fdopen(descriptor, "r+", encoding="ascii", errors="replace")
        try:
            _lock(self._file)
        except OSError as error:
            holder = self._read_holder()
            self._file.close()
            raise RunDirectoryError(
                f"{path.parent} is in use by process {holder or 'unknown'}; wait for it, or choose another directory"
            ) from error
        holder = self._read_holder()
        if holder and not holder.isdigit():  # a user's file that happens to have this name
            self._file.close()
            raise RunDirectoryError(
                f"{path} must hold the number of a process, got something else; "
                "delete it, or choose another directory with --out"
            )
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _read_holder(self) -> str:
        self._file.seek(0)
        holder = self._file.read(20).strip()
        self._file.seek(0)
        return holder

    def release(self) -> None:
        """Releases the lock. The file stays: if it were deleted, two processes could lock two files of one name."""
        self._file.close()


def _lock(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(1 << 30)  # a byte far beyond the content
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        file.seek(0)
    else:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
