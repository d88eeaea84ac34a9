"""Regular files: written without following links, read up to a limit.

A run directory may come from a stranger. A link in it would make training write outside the directory, a pipe would
make reading wait, and a device would never end. So files inside a run directory are opened by these functions. A path
that the user named is the user's own choice: links to it are followed (see `atomic.write_chosen_file`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from omegamax.errors import RunDirectoryError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none of these
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe does not wait for its other end
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_CHUNK = 1 << 20


def open_inside(path: Path, flags: int) -> int:
    """A descriptor of a file in a run directory, for writing; refuses links and everything but regular files."""
    refuse_link(path)
    try:
        descriptor = os.open(path, flags | _NO_LINK | _NO_WAIT | _PLAIN, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it became a link after we looked
            raise _link(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunDirectoryError(
            f"{path} must be a regular file, got a pipe or a device; delete it, or choose another directory with --out"
        )
    return descriptor


def make_directory(path: Path) -> None:
    """The directory exists afterwards, and is not a link to one elsewhere."""
    refuse_link(path)
    path.mkdir(exist_ok=True)


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuses if any of the paths is a link; paths that do not exist are fine."""
    for path in paths:
        refuse_link(path)


def refuse_link(path: Path) -> None:
    """Refuses a path that is a link, wherever it leads."""
    if path.is_symlink():
        raise _link(path)


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file; OSError if it is a pipe, a device, or larger than `limit` bytes."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT | _PLAIN)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file but a pipe or a device", str(path))
        return _content(descriptor, path, limit, status.st_size)
    finally:
        os.close(descriptor)


def read_any(path: Path, limit: int) -> bytes:
    """The content of a file that the user named, which may be a pipe; OSError if it is larger than `limit` bytes."""
    descriptor = os.open(path, os.O_RDONLY | _PLAIN)
    try:
        return _content(descriptor, path, limit, 0)
    finally:
        os.close(descriptor)


def _content(descriptor: int, path: Path, limit: int, size: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    while size <= limit and length <= limit:
        part = os.read(descriptor, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        length += len(part)
    raise OSError(errno.EINVAL, f"larger than {_readable(limit)}, the most that is read of such a file", str(path))


def _readable(n_bytes: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes} {unit}"
        n_bytes //= 1024
    return f"{n_bytes} GiB"


def _link(path: Path) -> RunDirectoryError:
    try:
        target = f" to {path.readlink()}"
    except OSError:
        target = ""
    return RunDirectoryError(
        f"{path} must not be a link, got one{target}: omegamax would write outside the directory; "
        "delete the link, or choose another directory with --out"
    )
