"""Files of time series: `.ts` of the UCR and UEA archives, CSV and TSV, NPY and NPZ, and Parquet.

    read_time_series("GunPoint_TRAIN.ts")           a TimeSeriesFile: series, labels, name
    write_time_series("out.ts", series, labels)     the same, the other way round

A series is an array (length, channels) of finite float64 numbers; series of one file have the same channels and any
lengths. Text files may be compressed (.gz, .xz). Missing numbers at the end of a series make it shorter, since many
files pad with them; in the middle they are an error, or are filled in by `missing="interpolate"`. Every error is one
sentence with the file and, for text, the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omegamax.data.files import write_user_file
from omegamax.data.printable import short_repr

PLACES_OF_LABELS = ("first", "last", "none")
WAYS_TO_FILL = ("error", "interpolate")
_TEXTS = (".ts", ".csv", ".tsv", ".txt")
_ARRAYS = (".npy", ".npz", ".parquet")
_PACKED = (".gz", ".xz")


class TimeSeriesFile(NamedTuple):
    """The series of a file, their labels, and a name for them."""

    series: list[np.ndarray]  # each (length, channels), float64
    labels: list[str] | None  # one for each series; None where the file has none
    name: str


def read_time_series(
    path: str | Path, *, label: str = "first", missing: str = "error", channels: str = "last"
) -> TimeSeriesFile:
    """Reads a file of time series; its ending says the format.

    Arguments:
        path: .ts, .csv, .tsv or .txt, also with .gz or .xz; .npy, .npz or .parquet
        label: where the label of a line of CSV or TSV stands: "first", as in the UCR archive, "last" or "none"
        missing: what happens to missing numbers in the middle of a series: "error" or "interpolate"
        channels: whether the channels of an array with three axes are its "last" axis or its second, "first"
    """
    path = Path(path)
    _check_choice("label", label, PLACES_OF_LABELS)
    _check_choice("missing", missing, WAYS_TO_FILL)
    _check_choice("channels", channels, ("last", "first"))
    ending = format_of(path)
    found: TimeSeriesFile
    if ending == ".ts":
        from omegamax.data.ts_files import read_ts

        found = read_ts(path, missing)
    elif ending in _TEXTS:
        from omegamax.data.series_tables import read_table

        found = read_table(path, label, missing)
    else:
        from omegamax.data.series_arrays import read_arrays

        found = read_arrays(path, missing, channels)
    if not found.series:
        raise ValueError(f"{path}: expected at least one series, got none; add series to the file")
    return found


def write_time_series(
    path: str | Path,
    series: Sequence[Any],
    labels: Sequence[Any] | None = None,
    *,
    name: str = "series",
) -> None:
    """Writes series (length, channels) or (length,), whole or not at all; the ending of the path says the format.

    Numbers are written so that reading gives the same float64 numbers. CSV and TSV have one line for each series if it
    has one channel, and one line for each time otherwise.

    Arguments:
        path: .ts, .csv, .tsv, .npz, .npy (no labels) or .parquet
        series: a sequence of arrays, or an array (n, length, channels)
        labels: one for each series, or None
        name: the name of the problem in a .ts file
    """
    path = Path(path)
    ending = format_of(path)
    arrays = [_as_series(path, number, one) for number, one in enumerate(series)]
    words = None if labels is None else [str(each) for each in labels]
    if not arrays or (words is not None and len(words) != len(arrays)):
        raise ValueError(
            f"write_time_series: expected at least one series and one label for each, got {len(arrays)} series and "
            f"{'no' if words is None else len(words)} labels; give as many of both, or labels=None"
        )
    if len({one.shape[1] for one in arrays}) > 1:
        raise ValueError(
            f"write_time_series: all series must have the same channels, got {sorted({o.shape[1] for o in arrays})}; "
            "write them to files of their own"
        )
    if path.suffix in _PACKED:
        raise ValueError(f"{path}: compressed files are read but not written; leave out {path.suffix}")
    content = TimeSeriesFile(arrays, words, name)
    if ending == ".ts":
        from omegamax.data.ts_files import ts_text

        write_user_file(path, ts_text(content).encode())
    elif ending in _TEXTS:
        from omegamax.data.series_tables import table_text

        write_user_file(path, table_text(path, content, "," if ending == ".csv" else "\t").encode())
    else:
        from omegamax.data.series_arrays import array_bytes

        write_user_file(path, array_bytes(path, content))


def format_of(path: Path) -> str:
    """Returns the ending that says the format, without that of a compression; raises ValueError for others."""
    ending = Path(path.stem).suffix.lower() if path.suffix in _PACKED else path.suffix.lower()
    if ending not in _TEXTS and (ending not in _ARRAYS or path.suffix in _PACKED):
        raise ValueError(
            f"{path}: expected a file that ends in {', '.join(_TEXTS)} (also .gz, .xz) or {', '.join(_ARRAYS)}, got "
            f"{short_repr(path.suffix)}; rename or convert it"
        )
    return ending


def finished(where: str, values: np.ndarray, missing: str) -> np.ndarray:
    """Returns a series (length, channels) without missing numbers at its end; checks or fills those in the middle."""
    if np.isinf(values).any():
        raise ValueError(f"{where}: expected finite numbers, got inf; correct or remove the series")
    absent = np.isnan(values)
    if not absent.any():
        if not values.size:
            raise ValueError(f"{where}: expected at least one number, got an empty series; remove it")
        return values
    known = np.flatnonzero(~absent.all(axis=1))
    if not known.size:
        raise ValueError(f"{where}: expected numbers, got an empty series, all of it missing; remove it")
    values, absent = values[: known[-1] + 1], absent[: known[-1] + 1]
    if not absent.any():
        return values
    time, channel = (int(place[0]) for place in np.nonzero(absent))
    if missing == "error":
        ends = [0 if column.all() else int(np.flatnonzero(~column)[-1]) + 1 for column in absent.T]
        if len(set(ends)) > 1 and not any(column[:end].any() for column, end in zip(absent.T, ends)):
            problem = f"channels of unequal lengths, {', '.join(map(str, ends))}"
        else:
            problem = f"a missing number at time {time + 1} of {len(values)} in channel {channel + 1}"
        raise ValueError(
            f"{where}: expected numbers from the beginning to the end, got {problem}; fill it in, or say "
            'missing="interpolate"'
        )
    if absent.all(axis=0).any():
        empty = int(np.flatnonzero(absent.all(axis=0))[0]) + 1
        raise ValueError(f"{where}: expected numbers in every channel, got none in channel {empty}; remove the series")
    times = np.arange(len(values))
    filled = values.copy()
    for column, gone in zip(filled.T, absent.T):
        column[gone] = np.interp(times[gone], times[~gone], column[~gone])
    return filled


def _as_series(path: Path, number: int, one: Any) -> np.ndarray:
    values = np.asarray(one.detach().cpu() if hasattr(one, "detach") else one, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise ValueError(
            f"write_time_series: a series must be (length,) or (length, channels), got {values.shape} for series "
            f"{number}; reshape it"
        )
    return finished(f"{path}, series {number}", values, "error")


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(
            f"read_time_series: {name} must be one of {', '.join(map(repr, choices))}, got {short_repr(value)}; "
            f"the default is {choices[0]!r}"
        )
