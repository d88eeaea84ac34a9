"""Time series in NPY, NPZ and Parquet files.

An NPY file holds (n, length), or (n, length, channels); shorter series end in NaN. An NPZ file holds such an array as
`series` (or as its only array, or as `X`) and, if it likes, `labels` (or `y`). A Parquet file, which needs pyarrow, is
the long table of `series_tables.py`: columns `series`, `time`, one for each channel, and `label`.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from omegamax.data.series_tables import KEYS, LABELS, TIMES
from omegamax.data.time_series_files import TimeSeriesFile, finished

_SERIES, _LABELS = ("series", "X", "x"), ("labels", "y", "label")


def read_arrays(path: Path, missing: str, channels: str) -> TimeSeriesFile:
    """Reads an NPY, NPZ or Parquet file; `missing` and `channels` are as in `read_time_series`."""
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, missing)
    try:
        with path.open("rb") as file:
            loaded: Any = np.load(file, allow_pickle=False)
            arrays = {"series": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded}
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; check the path") from None
    except (ValueError, EOFError, KeyError, SyntaxError) as error:  # pickled objects, half a file, other contents
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{path}: expected arrays of numbers, got something else ({reason}); save it again") from None
    except zipfile.BadZipFile:
        raise ValueError(f"{path}: expected a whole .npz file, got a damaged one; save it again") from None
    array, labels = _named(path, arrays)
    if array.dtype.kind not in "fiub" or array.ndim not in (2, 3):
        raise ValueError(
            f"{path}: expected numbers (n, length) or (n, length, channels), got {array.dtype} of shape {array.shape}; "
            "reshape or convert them"
        )
    whole = array[:, :, None] if array.ndim == 2 else array if channels == "last" else np.swapaxes(array, 1, 2)
    if labels is not None and labels.shape != (len(whole),):
        raise ValueError(
            f"{path}: expected one label for each of {len(whole)} series, got an array {labels.shape}; save it again"
        )
    series = [
        finished(f"{path}, series {number}", np.asarray(one, dtype=np.float64), missing)
        for number, one in enumerate(whole)
    ]
    return TimeSeriesFile(series, None if labels is None else [str(each) for each in labels.tolist()], path.stem)


def _named(path: Path, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
    labels = next((arrays[name] for name in _LABELS if name in arrays), None)
    rest = [name for name in arrays if name not in _LABELS]
    name = next((name for name in _SERIES if name in arrays), rest[0] if len(rest) == 1 else None)
    if name is None:
        raise ValueError(
            f"{path}: expected an array named series, and perhaps labels, got {', '.join(arrays) or 'none'}; save it "
            "again with np.savez(path, series=..., labels=...)"
        )
    return arrays[name], labels


def array_bytes(path: Path, content: TimeSeriesFile) -> bytes:
    """Writes series as an NPY, NPZ or Parquet file; shorter ones end in NaN in the first two."""
    if path.suffix.lower() == ".parquet":
        return _parquet_bytes(content)
    n_channels = content.series[0].shape[1]
    padded = np.full((len(content.series), max(map(len, content.series)), n_channels), np.nan)
    for row, one in zip(padded, content.series):
        row[: len(one)] = one
    file = io.BytesIO()
    if path.suffix.lower() == ".npy":
        if content.labels is not None:
            raise ValueError(f"{path}: an .npy file has no room for labels, got {len(content.labels)}; write .npz")
        np.save(file, padded)
    else:
        arrays = {"series": padded}
        if content.labels is not None:
            arrays["labels"] = np.array(content.labels)
        np.savez(file, **arrays)  # type: ignore[arg-type]  # a mistake of NumPy's stub
    return file.getvalue()


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow; install it with pip install pyarrow, or use .npz") from error
    return pyarrow


def _read_parquet(path: Path, missing: str) -> TimeSeriesFile:
    pyarrow = _pyarrow()
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the path")
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: expected a Parquet file, got something else ({error}); save it again") from None
    names = {name.lower(): name for name in table.column_names}
    key, time, label = (next((names[n] for n in words if n in names), None) for words in (KEYS, TIMES, LABELS))
    channels = [name for name in table.column_names if name not in (key, time, label)]
    if key is None or not channels:
        raise ValueError(
            f"{path}: expected columns series, time, one for each channel, and perhaps label, got "
            f"{', '.join(table.column_names)}; rename them"
        )
    try:
        columns = [table[name].to_numpy().astype(np.float64) for name in channels]
    except (ValueError, TypeError):
        raise ValueError(f"{path}: expected numbers in {', '.join(channels)}, got text; convert them") from None
    keys = table[key].to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.empty(0, dtype=int)
    if len(set(keys[starts].tolist())) < len(starts):
        raise ValueError(f"{path}: expected the rows of a series together, got one in several places; sort the table")
    ends = [*starts[1:].tolist(), len(keys)]
    series, labels = [], []
    words = None if label is None else table[label].to_pylist()
    times = None if time is None else table[time].to_numpy()
    for start, end in zip(starts.tolist(), ends):
        where = f"{path}, series {keys[start]}"
        if times is not None and not (np.diff(times[start:end]) > 0).all():
            raise ValueError(f"{where}: expected times that increase; sort the table")
        if words is not None:
            if len(set(words[start:end])) > 1:
                raise ValueError(f"{where}: expected one label for the whole series, got several; correct the table")
            labels.append(str(words[start]))
        series.append(finished(where, np.stack([column[start:end] for column in columns], 1), missing))
    return TimeSeriesFile(series, labels if words is not None else None, path.stem)


def _parquet_bytes(content: TimeSeriesFile) -> bytes:
    pyarrow = _pyarrow()
    lengths = [len(one) for one in content.series]
    stacked = np.concatenate(content.series)
    columns: dict[str, Any] = {
        "series": np.repeat(np.arange(len(lengths)), lengths),
        "time": np.concatenate([np.arange(n) for n in lengths]),
        **{f"x{n + 1}": stacked[:, n] for n in range(stacked.shape[1])},
    }
    if content.labels is not None:
        columns["label"] = [label for label, n in zip(content.labels, lengths) for _ in range(n)]
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()
