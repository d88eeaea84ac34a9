"""Where a command writes. Paths are checked before any work is done, and nothing is replaced without --overwrite."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.data.files import refuse_links, write_file, write_user_file
from omegamax.errors import os_error_text

_PICTURES = (".png", ".pdf", ".svg")


def make_writable(directory: Path) -> None:
    """Makes a directory, and raises CommandError if it cannot be written to."""
    probe = directory / f".omegamax-{secrets.token_hex(4)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)  # a new name, and never through a link
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"cannot write to {directory} ({os_error_text(error)}); choose another directory with --out"
        ) from error


def save_picture(figure: Any, path: Path, *, chosen: bool = False) -> None:
    """Draws a figure into a file, whole or not at all; the ending of its name chooses the format.

    A link is followed if the user has `chosen` this very name, and refused otherwise.
    """
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower())
    write = write_user_file if chosen else write_file
    write(path, content.getvalue())


def check_pictures(paths: Sequence[Path], *, overwrite: bool) -> None:
    """Raises CommandError unless all files can be written and their endings are formats of pictures."""
    for path in paths:
        if path.suffix.lower() not in _PICTURES:
            raise CommandError(f"{path} must end in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}; change --out")
    check_absent(paths, overwrite=overwrite, chosen=len(paths) == 1)  # if there are several, we number them


def check_absent(paths: Sequence[Path], *, overwrite: bool, chosen: bool = True) -> None:
    """Raises CommandError unless all files can be written: their directory exists, and they do not or may be replaced.

    Links are refused unless the user has `chosen` these very names.
    """
    if not chosen:
        refuse_links(paths)
    for path in paths:
        if path.is_dir():
            raise CommandError(f"{path} is a directory; give the name of a file with --out")
        if path.exists() and not path.is_file():  # a device or a pipe, which a file would replace
            raise CommandError(f"{path} is not a file; give the name of one with --out")
        if not path.parent.is_dir():
            raise CommandError(f"{path.parent} is not a directory; make it, or choose another place with --out")
        if not os.access(path.parent, os.W_OK):
            raise CommandError(f"cannot write to {path.parent} (permission denied); choose another place with --out")
    there = [path for path in paths if path.exists()]
    if there and not overwrite:
        raise CommandError(f"{there[0]} exists; say --overwrite to replace it, or choose another place with --out")
