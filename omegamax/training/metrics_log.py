"""metrics.jsonl: one JSON object per line, about steps or about an epoch; and the same numbers as TensorBoard curves.

A file that is read may come from elsewhere and hold anything, so every number is checked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegamax.data.files import open_regular_file, read_regular_file, sync_file, write_file
from omegamax.data.printable import short_repr
from omegamax.errors import RunDirectoryError, os_error_text

METRICS = "metrics.jsonl"
_MAX_BYTES = 1 << 28


class MetricsLog:
    """A metrics.jsonl that is open for writing. `n_lines` says how many lines it had when it was opened."""

    def __init__(self, path: Path, n_lines: int) -> None:
        """Opens the file and cuts it to its first `n_lines` lines: those after them followed the checkpoint."""
        file = os.fdopen(open_regular_file(path, os.O_RDWR | os.O_CREAT), "r+b")
        lines = file.read().splitlines(keepends=True)
        kept = [line for line in lines[:n_lines] if line.endswith(b"\n")]
        if os.fstat(file.fileno()).st_nlink > 1:  # a copy made by hard links keeps its lines
            file.close()
            write_file(path, b"".join(kept))
            file = os.fdopen(open_regular_file(path, os.O_RDWR), "r+b")
        elif len(lines) != len(kept):
            os.ftruncate(file.fileno(), sum(map(len, kept)))
        file.seek(0, os.SEEK_END)
        self._file = file
        self.n_lines = len(kept)

    def write(self, record: Mapping[str, Any]) -> None:
        self._file.write((json.dumps(record, allow_nan=False) + "\n").encode())
        self._file.flush()

    def sync(self) -> None:
        """Waits until all lines are on the disk."""
        sync_file(self._file)

    def close(self) -> None:
        self._file.close()


class TensorBoardCurves:
    """Writes every number of metrics.jsonl for TensorBoard if that is installed, and otherwise does nothing."""

    def __init__(self, directory: Path, *, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._writer: Any = None
        else:  # a resumed run hides the points that were written after its checkpoint
            self._writer = SummaryWriter(str(directory), purge_step=step + 1 if step else None)

    def write(self, record: Mapping[str, Any]) -> None:
        """Writes the numbers of one line."""
        if self._writer is None:
            return
        group = "train" if record["event"] == "step" else "epoch"
        numbers = {f"{group}/{name}": value for name, value in record.items()}
        numbers |= {f"dev/{name}": value for name, value in record.get("metrics", {}).items()}
        for name, value in numbers.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not name.endswith("/step"):
                self._writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Writes the points that are still in memory."""
        if self._writer is not None:
            self._writer.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Reads the records of a run directory, about steps and about epochs, in order."""
    file = Path(run) / METRICS
    try:
        lines = read_regular_file(file, _MAX_BYTES).decode().splitlines()
        return [_check_record(json.loads(line)) for line in lines]
    except OSError as error:
        raise RunDirectoryError(
            f"cannot read {file} ({os_error_text(error)}); give a directory of omegamax train"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{file} is damaged ({error}); train the run again") from error


def _check_record(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or record.get("event") not in ("step", "epoch"):
        raise ValueError(f"a line must be a record of a step or an epoch, got {short_repr(record)}")
    numbers = {name: record.get(name) for name in ("loss", "items_per_second")}
    if record["event"] == "epoch":
        metrics = record.get("metrics")
        if not isinstance(metrics, dict):
            raise ValueError(f"metrics of an epoch must be numbers by name, got {short_repr(metrics)}")
        numbers |= metrics
    for name, value in numbers.items():
        if value is not None:
            check_finite(name, value)
    return record


def check_finite(name: str, value: Any) -> float:
    """Returns a number from a JSON file as a float; ValueError if it is none, not finite, or too large for a float."""
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{short_repr(name)} must be a finite number, got {short_repr(value)}")
    return float(value)
