"""Writes attention weights compactly for the page: only the weights that are not zero, row by row.

    counts[r]               how many weights of row r are written; rows run over layers, heads and queries
    columns, weights        their columns, ascending, and their values; 16 or 32 bits, and 32 bits, in base64

A dense map of thousands of tokens has too many weights for a page. Then the smallest are left out: all that are below
a cut, which the page states, but never the largest weight of a row. `left_out[r]` counts them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

MAX_WEIGHTS = 2_000_000  # in one page: 16 MB of text
_CUTS = [digit * 10.0**-power for power in range(8, 0, -1) for digit in (1, 2, 5)]
_TINY = 1e-30  # a float32 softmax that has weights below this has rounded others to zero


class AttentionLayers(NamedTuple):
    """The attention weights of some layers that have the same rows and columns."""

    title: str  # of which part of a model, such as "encoder"; "" where there is one part
    rows: Sequence[str]  # tokens that attend, or outputs
    columns: Sequence[str]  # tokens that are attended to
    weights: Tensor  # (layers, heads, rows, columns)
    exact_zeros: bool  # False where a zero was rounded, as softmax's are


def encode(layers: AttentionLayers, max_weights: int = MAX_WEIGHTS) -> dict[str, Any]:
    """Returns plain JSON values of the weights, at most about `max_weights` of them, and the tokens.

    >>> layers = AttentionLayers("", ["a", "b"], ["x", "y"], torch.eye(2)[None, None], True)
    >>> found = encode(layers)
    >>> found["layers"], found["heads"], found["cut"], found["n_weights"]
    (1, 1, 0.0, 2)
    """
    weights = layers.weights.detach().to("cpu", torch.float32)
    expected = (len(layers.rows), len(layers.columns))
    if weights.dim() != 4 or tuple(weights.shape[2:]) != expected:
        raise ValueError(
            f"encode: weights must be (layers, heads, {expected[0]}, {expected[1]}) for these rows and columns, got "
            f"{tuple(weights.shape)}; pick one item of the batch, and give a token for each row and column"
        )
    flat = weights.flatten(0, 2)
    support = flat != 0  # NaN is kept
    cut = _choose_cut(flat, support, max_weights)
    kept = support if cut == 0 else support & ((flat >= cut) | flat.isnan() | _is_largest(flat))
    counts = kept.sum(-1)
    columns = kept.nonzero()[:, 1].numpy()
    encoded = {
        "title": str(layers.title),
        "rows": [str(token) for token in layers.rows],
        "columns": [str(token) for token in layers.columns],
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "exact_zeros": layers.exact_zeros,
        "cut": cut,
        "n_weights": len(columns),
        "column_bits": 16 if expected[1] <= 1 << 16 else 32,
        "counts": _base64(counts.numpy(), "<u4"),
        "column_numbers": _base64(columns, "<u2" if expected[1] <= 1 << 16 else "<u4"),
        "weights": _base64(flat[kept].numpy(), "<f4"),
    }
    if cut > 0:
        encoded["left_out"] = _base64((support.sum(-1) - counts).numpy(), "<u4")
    return encoded


def rounds_to_zero(weights: Tensor) -> bool:
    """Says whether some weights are so small that others were very likely rounded to zero; see plots/zeros.py."""
    return bool(((weights > 0) & (weights < _TINY)).any())


def _choose_cut(flat: Tensor, support: Tensor, max_weights: int) -> float:
    """Returns 0 if all weights fit, and otherwise the least cut under which they do (or the largest there is)."""
    n_weights = int(support.sum())
    if n_weights <= max_weights:
        return 0.0
    values = flat[support]
    for cut in _CUTS:
        if int((values >= cut).sum() + values.isnan().sum()) <= max_weights:
            return cut
    return _CUTS[-1]


def _is_largest(flat: Tensor) -> Tensor:
    """Marks one largest weight of each row."""
    largest = torch.zeros_like(flat, dtype=torch.bool)
    if flat.shape[1]:
        largest.scatter_(1, flat.nan_to_num(0).argmax(-1, keepdim=True), True)
    return largest


def _base64(numbers: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).astype(kind).tobytes()).decode("ascii")
