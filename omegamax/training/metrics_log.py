"""The lines of metrics.jsonl, read back and checked: a file that came from elsewhere may hold anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omegamax.data.files import read_regular
from omegamax.data.printable import quoted
from omegamax.errors import RunDirectoryError, reason

METRICS = "metrics.jsonl"
_MAX_BYTES = 1 << 28


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The records of a run directory, in order: those of steps and those of epochs."""
    file = Path(run) / METRICS
    try:
        lines = read_regular(file, _MAX_BYTES).decode().splitlines()
        return [_checked(json.loads(line)) for line in lines]
    except OSError as error:
        raise RunDirectoryError(f"cannot read {file} ({reason(error)}); give a directory of omegamax train") from error
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{file} is damaged ({error}); train the run again") from error


def _checked(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or record.get("event") not in ("step", "epoch"):
        raise ValueError(f"a line must be a record of a step or an epoch, got {quoted(record)}")
    numbers = {name: record.get(name) for name in ("loss", "items_per_second")}
    if record["event"] == "epoch":
        metrics = record.get("metrics")
        if not isinstance(metrics, dict):
            raise ValueError(f"metrics of an epoch must be numbers by name, got {quoted(metrics)}")
        numbers |= metrics
    for name, value in numbers.items():
        if value is not None:
            check_finite(name, value)
    return record


def check_finite(name: str, value: Any) -> float:
    """Returns a number from a JSON file as a float; ValueError if it is none, not finite, or too large for a float."""
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{quoted(name)} must be a finite number, got {quoted(value)}")
    return float(value)
