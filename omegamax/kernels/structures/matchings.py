"""The best matching of every item, by Jonker & Volgenant's algorithm."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.kernels.structures.assignment import assign
from omegamax.kernels.structures.structure_kernel import launch, search_kernel


class BestMatching(NamedTuple):
    """The best matching of every item, and the prices of columns (or rows) that prove it; see `assignment.py`."""

    value: Tensor  # (batch,): −inf where there is none, NaN where scores are
    columns: Tensor  # (batch, rows): the column of each row, −1 for none
    prices: Tensor  # (batch, larger of rows and columns), float64: of the larger side; zero beyond the lengths


@search_kernel
def best_matching(row_lengths: Tensor, column_lengths: Tensor, pairs: Tensor, *unmatched: Tensor) -> BestMatching:
    """Finds the best matching of scores `pairs` (batch, R, C), one item at a time in NumPy.

    `unmatched` is empty where the smaller side must be matched; otherwise it holds the scores of unmatched rows
    (batch, R) and of unmatched columns (batch, C). Prices are of use only where it is empty.
    """
    host = [part.detach().cpu().double().numpy() for part in (pairs, *unmatched)]
    n_items, n_rows, n_columns = host[0].shape
    value = np.full(n_items, -np.inf)
    columns = np.full((n_items, n_rows), -1)
    prices = np.zeros((n_items, max(n_rows, n_columns)))
    for item, (r, c) in enumerate(zip(row_lengths.tolist(), column_lengths.tolist())):
        scores, *alone = host[0][item, :r, :c], *(part[item, :n] for part, n in zip(host[1:], (r, c)))
        if not all((part < np.inf).all() for part in (scores, *alone)):  # NaN does not compare
            value[item] = np.nan
            continue
        transposed = not alone and r > c
        found = assign(-with_unmatched(scores, *alone) if alone else -scores.T if transposed else -scores)
        if found is None:
            continue
        if transposed:
            columns[item, found.columns] = np.arange(c)
        else:
            columns[item, :r] = np.where(found.columns[:r] < c, found.columns[:r], -1)
        prices[item, : max(r, c)] = found.prices[: max(r, c)]
        value[item] = _score(scores, alone, columns[item, :r])
    device = pairs.device
    return BestMatching(
        torch.from_numpy(value).to(device, pairs.dtype),
        torch.from_numpy(columns).to(device),
        torch.from_numpy(prices).to(device),
    )


@best_matching.twin
def _(row_lengths: Tensor, column_lengths: Tensor, pairs: Tensor, *unmatched: Tensor) -> BestMatching:
    pairs, row_lengths, column_lengths = pairs.contiguous(), row_lengths.contiguous(), column_lengths.contiguous()
    rows, columns = (part.contiguous() for part in unmatched) if unmatched else (None, None)
    n_items, n_rows, n_columns = pairs.shape
    found = BestMatching(
        value=pairs.new_empty(n_items),
        columns=torch.empty(n_items, n_rows, dtype=torch.long),
        prices=torch.zeros(n_items, max(n_rows, n_columns), dtype=torch.float64),
    )
    size = n_rows + n_columns if unmatched else max(n_rows, n_columns)
    launch(
        "matching_best",
        pairs,
        rows,
        columns,
        row_lengths,
        column_lengths,
        n_rows,
        n_columns,
        *found,
        itemsize=pairs.element_size(),
        n_items=n_items,
        cost=4 * size * size,
    )
    return found


def with_unmatched(pairs: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Makes the scores of a square problem (R + C, R + C) without unmatched rows or columns.

    Each row gets a column of its own, which stands for being unmatched, and each column gets such a row; the added rows
    and columns match each other for a score of 0.
    """
    r, c = pairs.shape
    whole = np.full((r + c, r + c), -np.inf)
    whole[:r, :c], whole[r:, c:] = pairs, 0
    whole[np.arange(r), c + np.arange(r)] = row
    whole[r + np.arange(c), np.arange(c)] = column
    return whole


def _score(pairs: np.ndarray, unmatched: list[np.ndarray], columns: np.ndarray) -> float:
    """Computes the score of a matching, added up in the order of the compiled kernel."""
    total = 0.0
    for row, column in enumerate(columns.tolist()):
        total += pairs[row, column] if column >= 0 else unmatched[0][row] if unmatched else 0.0
    for column in range(pairs.shape[1] if unmatched else 0):
        total += unmatched[1][column] if column not in columns else 0.0
    return float(total)
