"""Where a command writes: checked before any work is done, and nothing is replaced unasked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegamax.cli.refusal import Refused


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


def check_absent(paths: Sequence[Path], *, overwrite: bool) -> None:
    """None of the files exists, or all may be replaced."""
    there = [path for path in paths if path.exists()]
    if there and not overwrite:
        raise Refused(f"{there[0]} exists; say --overwrite to replace it, or choose another place with --out")
