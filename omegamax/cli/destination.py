"""Where a command writes: checked before any work is done, and nothing is replaced unasked."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.refusal import Refused
from omegamax.errors import reason

_PICTURES = (".png", ".pdf", ".svg")


def make_writable(directory: Path) -> None:
    """The directory exists afterwards and can be written to."""
    probe = directory / f".omegamax-{secrets.token_hex(4)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)  # a name of nobody else, and never through a link
        probe.unlink()
    except OSError as error:
        raise Refused(f"cannot write to {directory} ({reason(error)}); choose another directory with --out") from error


def save_picture(figure: Any, path: Path, *, chosen: bool = False) -> None:
    """Draws a figure into a file, whole or not at all; the ending chooses the format.

    `chosen` says that the user named this very file: then a link is followed, else it is refused.
    """
    from omegamax.data import atomic

    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower())
    write = atomic.write_chosen_file if chosen else atomic.write_file
    write(path, content.getvalue())


def check_pictures(paths: Sequence[Path], *, overwrite: bool) -> None:
    """The files can be written, and their endings are formats."""
    for path in paths:
        if path.suffix.lower() not in _PICTURES:
            raise Refused(f"{path} must end in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}; change --out")
    check_absent(paths, overwrite=overwrite, chosen=len(paths) == 1)  # several are numbered by us


def check_absent(paths: Sequence[Path], *, overwrite: bool, chosen: bool = True) -> None:
    """The files can be written: their directory is there, and none of them exists, or all may be replaced.

    Links are refused unless the user has `chosen` these very names.
    """
    if not chosen:
        from omegamax.data.files import refuse_links

        refuse_links(paths)
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
