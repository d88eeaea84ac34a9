"""Matrices of distances as Dask arrays: blocks that any scheduler of Dask computes, on one machine or many."""

from __future__ import annotations

from typing import Any

import numpy as np

from omegamax.extras import how_to_install
from omegamax.timeseries.distances import make_distance
from omegamax.timeseries.matrix import Block, block_size, compute_block, prepared
from omegamax.timeseries.measures import Distance
from omegamax.timeseries.series import SeriesBatch
from omegamax.timeseries.windows import Window


def dask_cdist(
    x: Any,
    y: Any = None,
    *,
    distance: str | Distance = "dtw",
    window: Window = None,
    gamma: float = 1.0,
    convention: str = "squared",
    channels: str = "last",
    dtype: str | None = None,
    block: int | None = None,
    **options: Any,
) -> Any:
    """Makes a Dask array (n, p) of the distances between all series of x and of y, or of x; nothing is computed yet.

    A block on one side of the diagonal of a symmetric matrix is computed once, and turned for the other side. Each task
    holds only the series of its block.

    Arguments:
        x: n series; see `as_series`
        y: p series, or None for those of x
        distance: a name of `DISTANCES`, or a distance
        window: None, a number of steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        convention: "squared" or "root", for DTW
        channels: "last" for (n, length, channels), "first" for (n, channels, length)
        dtype: "float32" or "float64", to compute and store in; that of the series if None
        block: the number of series on each side of a block
        options: others of the distance
    """
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise ImportError(f"dask_cdist: it needs dask; {how_to_install('dask')}") from error
    measure = make_distance("dask_cdist", distance, window=window, gamma=gamma, convention=convention, **options)
    one, other, measure = prepared("dask_cdist", x, y, measure, channels, dtype)
    symmetric, size = y is None, block or block_size(one, other)
    kind = np.dtype(str(one.values.dtype).removeprefix("torch."))
    if not len(one) or not len(other):
        return da.zeros((len(one), len(other)), dtype=kind)
    rows = [one.select(slice(i, i + size)) for i in range(0, len(one), size)]
    columns = rows if symmetric else [other.select(slice(j, j + size)) for j in range(0, len(other), size)]
    held = [dask.delayed(part) for part in rows]
    held_columns = held if symmetric else [dask.delayed(part) for part in columns]
    found: dict[tuple[int, int], Any] = {}
    for i, part in enumerate(rows):
        for j, others in enumerate(columns):
            if symmetric and j < i:
                found[i, j] = found[j, i].T
                continue
            task = dask.delayed(_block)(measure, held[i], held_columns[j], symmetric and i == j)
            found[i, j] = da.from_delayed(task, shape=(len(part), len(others)), dtype=kind)
    return da.block([[found[i, j] for j in range(len(columns))] for i in range(len(rows))])


def _block(measure: Distance, rows: SeriesBatch, columns: SeriesBatch, diagonal: bool) -> np.ndarray:
    numbers = compute_block(measure, rows, columns, Block(0, len(rows), 0, len(columns), diagonal)).numpy()
    return numbers + np.triu(numbers, 1).T if diagonal else numbers
