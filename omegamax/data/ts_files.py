"""The `.ts` format of the UCR and UEA archives: lines that begin with # and @, then one series per line after @data.

The channels of a series are separated by colons, its numbers by commas, `?` is a missing number, and the class is the
last part of the line. `@targetLabel true` announces a number in the place of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omegamax.data.printable import short_repr
from omegamax.data.text_files import numbered_lines
from omegamax.data.time_series_files import TimeSeriesFile, finished

_LABELS = ("classlabel", "targetlabel")


def read_ts(path: Path, missing: str) -> TimeSeriesFile:
    """Reads a `.ts` file; `missing` is as in `read_time_series`."""
    header: dict[str, list[str]] = {}
    series: list[np.ndarray] = []
    labels: list[str] = []
    in_data = False
    for number, line in numbered_lines(path):
        line, where = line.strip(), f"{path}, line {number}"
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            name, *values = line[1:].split()
            if name.lower() == "data":
                in_data = True
            elif in_data:
                raise ValueError(f"{where}: expected a series after @data, got @{name}; move it before @data")
            header[name.lower()] = values
            continue
        if not in_data:
            raise ValueError(f"{where}: expected a line that begins with @ or #, got {short_repr(line)}; add @data")
        if _says(header, "timestamps"):
            raise ValueError(
                f"{where}: series with time stamps are not read; write the numbers alone, @timeStamps false"
            )
        one, label = _series(where, line, header, missing)
        if series and one.shape[1] != series[0].shape[1]:
            raise ValueError(
                f"{where}: expected {series[0].shape[1]} channels as in the first series, got {one.shape[1]}; correct "
                "or remove the line"
            )
        series.append(one)
        labels.append(label)
    if not in_data:
        raise ValueError(f"{path}: expected a line @data and series after it, got none; is it a .ts file?")
    title = " ".join(header.get("problemname", [])) or path.name.split(".")[0]
    return TimeSeriesFile(series, labels if _labelled(header) else None, title)


def _series(where: str, line: str, header: dict[str, list[str]], missing: str) -> tuple[np.ndarray, str]:
    parts = line.split(":")
    label = ""
    if _labelled(header):
        label = parts.pop().strip()
        classes = header.get("classlabel", [])[1:]
        if not parts or not label:
            raise ValueError(
                f"{where}: expected a series, a colon and its label, got {short_repr(line)}; add the label"
            )
        if classes and label not in classes:
            raise ValueError(
                f"{where}: expected a class of the header, {', '.join(classes[:10])}, got {short_repr(label)}; correct "
                "the label, or @classLabel"
            )
    channels = [numbers(where, part.split(",")) if part.strip() else np.empty(0) for part in parts]
    lengths = [len(one) for one in channels]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"{where}: expected channels of one length, got {', '.join(map(str, lengths))}; mark missing numbers by ?"
        )
    declared = header.get("dimensions", header.get("dimension", []))
    if declared and declared[0].isdigit() and int(declared[0]) != len(channels):
        raise ValueError(
            f"{where}: expected {declared[0]} channels as @dimensions says, got {len(channels)}; correct the line"
        )
    return finished(where, np.stack(channels, 1), missing), label


def numbers(where: str, cells: Sequence[str]) -> np.ndarray:
    """Returns the numbers of cells; an empty one and `?` are missing, as NaN. Raises ValueError for text."""
    try:
        return np.array([_number(cell) for cell in cells], dtype=np.float64)
    except ValueError:
        place, cell = next((n, cell) for n, cell in enumerate(cells, 1) if not _is_number(cell))
        raise ValueError(
            f"{where}: expected numbers, got {short_repr(cell.strip())} in place {place}; correct it, or write ? for a "
            "missing number"
        ) from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        if cell.strip() in ("", "?", "NA"):
            return float("nan")
        raise


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _says(header: dict[str, list[str]], name: str) -> bool:
    return [word.lower() for word in header.get(name, [])[:1]] == ["true"]


def _labelled(header: dict[str, list[str]]) -> bool:
    return any(_says(header, name) for name in _LABELS)


def ts_text(content: TimeSeriesFile) -> str:
    """Writes series as the text of a `.ts` file."""
    n_channels = content.series[0].shape[1]
    lengths = {len(one) for one in content.series}
    lines = [
        f"@problemName {'_'.join(content.name.split()) or 'series'}",
        "@timeStamps false",
        "@missing false",
        f"@univariate {str(n_channels == 1).lower()}",
        *([f"@dimensions {n_channels}"] if n_channels > 1 else []),
        f"@equalLength {str(len(lengths) == 1).lower()}",
        *([f"@seriesLength {lengths.pop()}"] if len(lengths) == 1 else []),
    ]
    if content.labels is None:
        lines.append("@classLabel false")
    else:
        for label in content.labels:
            if not label or any(letter in label for letter in ":,\n\r\t ") or not label.isprintable():
                raise ValueError(
                    f"write_time_series: a label of a .ts file must be a word without colons and commas, got "
                    f"{short_repr(label)}; change it, or write .csv"
                )
        lines.append(f"@classLabel true {' '.join(dict.fromkeys(content.labels))}")
    lines.append("@data")
    for number, one in enumerate(content.series):
        channels = ":".join(",".join(map(repr, channel.tolist())) for channel in one.T)
        lines.append(channels if content.labels is None else f"{channels}:{content.labels[number]}")
    return "\n".join(lines) + "\n"
