"""Time series in CSV and TSV, in two forms.

    1,0.2,0.3,0.1                   wide: one line for each series, its label first, as in the UCR archive
    series,time,x,y,label           long: a header, then one line for each time; `time` and `label` may be left out
    a,0,0.2,1.5,walking

Cells are separated by commas, tabs, semicolons or blanks: the first of these that the first line has. A file is long if
a cell of its first line is `series`, `id` or `case`. Lines of one series stand together, in the order of time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omegamax.data.printable import short_repr
from omegamax.data.text_files import numbered_lines
from omegamax.data.time_series_files import TimeSeriesFile, finished
from omegamax.data.ts_files import numbers

KEYS = ("series", "id", "case")  # names of the column that says to which series a line belongs
TIMES = ("time", "t", "timepoint")
LABELS = ("label", "class", "target")

Line = tuple[str, list[str]]  # where it stands, and its cells


def read_table(path: Path, label: str, missing: str) -> TimeSeriesFile:
    """Reads a CSV or TSV file; `label` and `missing` are as in `read_time_series`."""
    lines: list[Line] = []
    separator = None
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        if separator is None:
            separator = next((each for each in (",", "\t", ";") if each in line), " ")
        cells = re.split(r"\s+", line.strip()) if separator == " " else line.rstrip("\r\n").split(separator)
        lines.append((f"{path}, line {number}", [cell.strip() for cell in cells]))
    if not lines:
        raise ValueError(f"{path}: expected lines of numbers, got an empty file; check the path")
    header = [cell.lower() for cell in lines[0][1]]
    if any(cell in KEYS for cell in header):
        return _read_long(path, header, lines[1:], missing)
    return _read_wide(path, lines, label, missing)


def _read_wide(path: Path, lines: Sequence[Line], label: str, missing: str) -> TimeSeriesFile:
    series, labels = [], []
    for where, cells in lines:
        if label == "first":
            word, cells = cells[0], cells[1:]
        elif label == "last":
            word, cells = cells[-1], cells[:-1]
        else:
            word = ""
        if label != "none" and not word:
            raise ValueError(f'{where}: expected a label, got an empty cell; write it, or say label="none"')
        labels.append(word)
        series.append(finished(where, numbers(where, cells)[:, None], missing))
    return TimeSeriesFile(series, None if label == "none" else labels, path.name.split(".")[0])


def _read_long(path: Path, header: list[str], lines: Sequence[Line], missing: str) -> TimeSeriesFile:
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: expected columns of different names, got {', '.join(header)}; rename one")
    key, time, label = (
        next((n for n, cell in enumerate(header) if cell in names), None) for names in (KEYS, TIMES, LABELS)
    )
    channels = [n for n in range(len(header)) if n not in (key, time, label)]
    if not channels:
        raise ValueError(f"{path}: expected a column for each channel, got {', '.join(header)}; add the numbers")
    assert key is not None
    groups: dict[str, list[Line]] = {}
    last = None
    for where, cells in lines:
        if len(cells) != len(header):
            raise ValueError(
                f"{where}: expected {len(header)} columns ({', '.join(header)}), got {len(cells)}; correct the line"
            )
        if cells[key] != last and cells[key] in groups:
            raise ValueError(
                f"{where}: expected the lines of a series together, got {short_repr(cells[key])} again; sort the file"
            )
        last = cells[key]
        groups.setdefault(last, []).append((where, cells))
    series, labels = [], []
    for rows in groups.values():
        values = np.stack([numbers(where, [cells[n] for n in channels]) for where, cells in rows])
        if time is not None:
            _check_times(rows, time)
        if label is not None:
            labels.append(_label_of(rows, label))
        series.append(finished(f"{rows[0][0]} to {len(rows)} lines on", values, missing))
    return TimeSeriesFile(series, labels if label is not None else None, path.name.split(".")[0])


def _check_times(rows: Sequence[Line], column: int) -> None:
    times = [float(numbers(where, [cells[column]])[0]) for where, cells in rows]
    for (where, _), before, after in zip(rows[1:], times, times[1:]):
        if not after > before:
            raise ValueError(f"{where}: expected times that increase, got {after:g} after {before:g}; sort the file")


def _label_of(rows: Sequence[Line], column: int) -> str:
    word = rows[0][1][column]
    for where, cells in rows:
        if not cells[column] or cells[column] != word:
            raise ValueError(
                f"{where}: expected one label for the whole series, {short_repr(word)}, got "
                f"{short_repr(cells[column])}; correct the line"
            )
    return word


def table_text(path: Path, content: TimeSeriesFile, separator: str) -> str:
    """Writes series as a table: wide if they have one channel and labels, else long."""
    for label in content.labels or ():
        if not label.strip() or any(letter in label for letter in f"{separator}\n\r"):
            raise ValueError(
                f"{path}: a label must be one cell of the table, got {short_repr(label)}; change it, or write .npz"
            )
    if content.series[0].shape[1] == 1 and content.labels is not None:
        lines = [
            separator.join([label, *map(repr, one[:, 0].tolist())])
            for label, one in zip(content.labels, content.series)
        ]
        return "\n".join(lines) + "\n"
    channels = [f"x{n}" for n in range(1, content.series[0].shape[1] + 1)]
    lines = [separator.join(["series", "time", *channels, *(["label"] if content.labels is not None else [])])]
    for number, one in enumerate(content.series):
        last = [] if content.labels is None else [content.labels[number]]
        lines += [
            separator.join([str(number), str(time), *map(repr, row), *last]) for time, row in enumerate(one.tolist())
        ]
    return "\n".join(lines) + "\n"
