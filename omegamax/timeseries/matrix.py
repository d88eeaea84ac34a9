"""Matrices of distances between time series, in blocks: in memory, condensed, or in a file.

A block is computed by compiled kernels on all threads of PyTorch, or, with `n_jobs`, in processes of joblib. What is
stored beside the matrix is one block for each process.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.extras import how_to_install
from omegamax.timeseries.distances import make_distance
from omegamax.timeseries.matrix_file import MatrixFile
from omegamax.timeseries.measures import Distance
from omegamax.timeseries.series import SeriesBatch, as_series, in_one_type
from omegamax.timeseries.windows import Window

_CELLS = 2e9  # of all grids of a block
_SECONDS = 5.0  # between notes of what is done
_TYPES = {"float32": torch.float32, "float64": torch.float64}


class Block(NamedTuple):
    """Rows begin_x to end_x and columns begin_y to end_y of a matrix."""

    begin_x: int
    end_x: int
    begin_y: int
    end_y: int
    triangle: bool  # whether it lies on the diagonal of a symmetric matrix


def cdist(
    x: Any,
    y: Any = None,
    *,
    distance: str | Distance = "dtw",
    window: Window = None,
    gamma: float = 1.0,
    convention: str = "squared",
    channels: str = "last",
    dtype: str | None = None,
    condensed: bool = False,
    out: Any = None,
    overwrite: bool = False,
    n_jobs: int | None = None,
    block: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Any:
    """Computes the distances (n, p) between all series of x and all series of y, or of x.

    The result is a NumPy array, or a tensor if x is one. With `out` it is a file, mapped into memory; if the process is
    killed, the same call continues where it was. Nothing is differentiated: for gradients use `omegamax.soft_dtw`.

    Arguments:
        x: n series; see `as_series`
        y: p series, or None for those of x: then half of the pairs are computed
        distance: a name of `DISTANCES`, or a distance
        window: None, a number of steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        convention: "squared" or "root", for DTW
        channels: "last" for (n, length, channels), "first" for (n, channels, length)
        dtype: "float32" or "float64", to compute and store in; that of the series if None
        condensed: whether to return only the pairs i < j, row by row, as `scipy.spatial.distance.squareform` reads
            them; needs y=None
        out: the name of a .npy file
        overwrite: whether to begin again if `out` exists
        n_jobs: processes of joblib; None uses the threads of PyTorch
        block: the number of series on each side of a block
        progress: whether to show a bar
        options: others of the distance

    >>> cdist([[0.0, 1.0], [0.0, 2.0]])
    array([[0., 1.],
           [1., 0.]])
    """
    measure = make_distance("cdist", distance, window=window, gamma=gamma, convention=convention, **options)
    one, other, measure = prepared("cdist", x, y, measure, channels, dtype)
    symmetric = y is None
    if condensed and not symmetric:
        raise ValueError("cdist: condensed must be False for two lists of series, got True; leave y out")
    n, p = len(one), len(other)
    shape = (n * (n - 1) // 2,) if condensed else (n, p)
    plan = blocks(n, p, symmetric, block or block_size(one, other))
    kind = np.dtype(str(one.values.dtype).removeprefix("torch."))
    if out is None:
        _check_memory(shape, kind)
        matrix, file = np.empty(shape, dtype=kind), None
    else:
        key = _key(one, other if not symmetric else None, measure, condensed, plan)
        file = MatrixFile(out, shape=shape, dtype=kind, key=key, n_blocks=len(plan), overwrite=overwrite)
        matrix = file.matrix
    todo = [number for number in range(len(plan)) if file is None or not file.is_done(number)]
    saved, unsaved = time.monotonic(), []
    with _bar(progress, plan, todo) as advance:
        for number, found in zip(todo, _computed(measure, one, other, [plan[b] for b in todo], n_jobs)):
            _write(matrix, plan[number], found.numpy(), n, symmetric, condensed)
            advance(number)
            unsaved.append(number)
            if file is not None and time.monotonic() - saved > _SECONDS:
                file.save(unsaved)
                saved, unsaved = time.monotonic(), []
    if file is not None:
        return file.finish()
    return torch.from_numpy(matrix) if one.from_torch else matrix


def prepared(
    who: str, x: Any, y: Any, measure: Distance, channels: str, dtype: str | None
) -> tuple[SeriesBatch, SeriesBatch, Distance]:
    """Reads both sides in one type, and places the window of the distance."""
    one = as_series(who, x, channels=channels)
    other = one if y is None else as_series(who, y, channels=channels, name="y")
    one, other = in_one_type(who, one, other)
    if dtype is not None:
        if dtype not in _TYPES:
            raise ValueError(f'{who}: dtype must be "float32" or "float64", got {dtype!r}; choose one')
        one, other = one.to(_TYPES[dtype]), other.to(_TYPES[dtype])
    return one, other, measure.placed(max(one.values.shape[1], other.values.shape[1]))


def block_size(one: SeriesBatch, other: SeriesBatch) -> int:
    """Returns how many series each side of a block has: a block takes about a second."""
    cells = max(1, one.values.shape[1] * other.values.shape[1] * one.values.shape[2])
    size = int((_CELLS / cells) ** 0.5)
    return min(1024, max(8, size // 64 * 64 if size >= 64 else size))


def blocks(n: int, p: int, symmetric: bool, size: int) -> list[Block]:
    """Cuts a matrix into blocks; of a symmetric one those on and above the diagonal."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"cdist: block must be a positive int, got {size!r}; leave it out")
    return [
        Block(i, min(i + size, n), j, min(j + size, p), symmetric and i == j)
        for i in range(0, n, size)
        for j in range(i if symmetric else 0, p, size)
    ]


def compute_block(measure: Distance, one: SeriesBatch, other: SeriesBatch, block: Block) -> Tensor:
    """Computes one block; one on the diagonal of a symmetric matrix has zeros below it."""
    rows = one.select(slice(block.begin_x, block.end_x))
    columns = other.select(slice(block.begin_y, block.end_y))
    return measure.pairwise(rows, columns, triangle=block.triangle)


def _computed(
    measure: Distance, one: SeriesBatch, other: SeriesBatch, plan: list[Block], n_jobs: int | None
) -> Iterator[Tensor]:
    """Computes blocks one after the other, or in processes."""
    if n_jobs is None:
        for block in plan:
            yield compute_block(measure, one, other, block)
        return
    try:
        import joblib
    except ImportError as error:
        raise ImportError(f"cdist: n_jobs needs joblib; {how_to_install('timeseries')}") from error
    parts = (
        (
            one.select(slice(block.begin_x, block.end_x)),
            other.select(slice(block.begin_y, block.end_y)),
            block.triangle,
        )
        for block in plan
    )
    yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(_in_process)(measure, *part) for part in parts
    )


def _in_process(measure: Distance, rows: SeriesBatch, columns: SeriesBatch, triangle: bool) -> Tensor:
    torch.set_num_threads(1)  # the processes share the cores
    return measure.pairwise(rows, columns, triangle=triangle)


def _write(matrix: np.ndarray, block: Block, found: np.ndarray, n: int, symmetric: bool, condensed: bool) -> None:
    i, i_end, j, j_end, triangle = block
    if condensed:
        for row, numbers in zip(range(i, i_end), found):
            begin = max(j, row + 1)
            if begin < j_end:
                at = row * n - row * (row + 1) // 2 + begin - row - 1
                matrix[at : at + j_end - begin] = numbers[begin - j :]
        return
    if triangle:
        found = found + np.triu(found, 1).T
    matrix[i:i_end, j:j_end] = found
    if symmetric and not triangle:
        matrix[j:j_end, i:i_end] = found.T


def _check_memory(shape: tuple[int, ...], kind: np.dtype) -> None:
    needed, free = int(np.prod(shape, dtype=object)) * kind.itemsize, _free_memory()
    if free is not None and needed > free:
        size = " × ".join(str(side) for side in shape)
        raise ValueError(
            f"cdist: a matrix of {size} {kind} takes {needed / 1e9:.1f} GB, but {free / 1e9:.1f} GB are free; "
            'write it to a file with out="name.npy", or ask for condensed=True, dtype="float32" or nearest'
        )


def _free_memory() -> int | None:
    """Returns the bytes of memory that are free, None where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _key(one: SeriesBatch, other: SeriesBatch | None, measure: Distance, condensed: bool, plan: list[Block]) -> str:
    """Returns a text that changes with the series and with everything that the numbers depend on."""
    digest = hashlib.sha256()
    for batch in (one, other):
        if batch is not None:
            digest.update(str(tuple(batch.values.shape)).encode())
            digest.update(np.ascontiguousarray(batch.values.numpy()).data)
            digest.update(np.ascontiguousarray(batch.lengths.numpy()).data)
    digest.update(repr((measure, str(one.values.dtype), condensed, plan[:1], len(plan))).encode())
    return digest.hexdigest()


@contextmanager
def _bar(shown: bool, plan: list[Block], todo: list[int]) -> Iterator[Any]:
    """Shows a bar of the pairs that are computed; gives a function that takes the number of a block."""
    if not shown:
        yield lambda number: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError(f"cdist: progress needs tqdm; {how_to_install('timeseries')}") from error

    def pairs(number: int) -> int:
        rows, columns = plan[number].end_x - plan[number].begin_x, plan[number].end_y - plan[number].begin_y
        return rows * (rows + 1) // 2 if plan[number].triangle else rows * columns

    total = sum(pairs(number) for number in range(len(plan)))
    done = total - sum(pairs(number) for number in todo)
    with tqdm(total=total, initial=done, unit="pair", unit_scale=True, desc="distances") as bar:
        yield lambda number: bar.update(pairs(number))
