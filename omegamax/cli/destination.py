"""Where a command writes: checked before any work is done, and nothing is replaced unasked."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.refusal import Refused

_PICTURES = (".png", ".pdf", ".svg")


def make_writable(directory: Path) -> None:
    """The directory exists afterwards and can be written to."""
    probe = directory / ".omegamax"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Refused(f"cannot write to {directory} ({reason}); choose another directory with --out") from error


def save_picture(figure: Any, path: Path) -> None:
    """Draws a figure into a file, whole or not at all; the ending chooses the format."""
    from omegamax.recipes import atomic

    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower())
    atomic.write_file(path, content.getvalue())


def check_pictures(paths: Sequence[Path], *, overwrite: bool) -> None:
    """The files can be written, and their endings are formats."""
    for path in paths:
        if path.suffix.lower() not in _PICTURES:
            raise Refused(f"{path} must end in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}; change --out")
    check_absent(paths, overwrite=overwrite)


def check_absent(paths: Sequence[Path], *, overwrite: bool) -> None:
    """The files can be written: their directory is there, and none of them exists, or all may be replaced."""
    for path in paths:
        if path.is_dir():
            raise Refused(f"{path} is a directory; give the name of a file with --out")
        if path.exists() and not path.is_file():  # a device or a pipe, whose place a file would take
            raise Refused(f"{path} is not a file; give the name of one with --out")
        if not path.parent.is_dir():
            raise Refused(f"{path.parent} is not a directory; make it, or choose another place with --out")
        if not os.access(path.parent, os.W_OK):
            raise Refused(f"cannot write to {path.parent} (permission denied); choose another place with --out")
    there = [path for path in paths if path.exists()]
    if there and not overwrite:
        raise Refused(f"{there[0]} exists; say --overwrite to replace it, or choose another place with --out")
