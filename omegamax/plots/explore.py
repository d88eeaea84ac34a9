"""Shows attention weights, or a row of scores, in the explorer: in a notebook, to be pointed at and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import torch
from torch import Tensor

from omegamax.explorer import ExplorerFrame
from omegamax.explorer.encoding import MAX_WEIGHTS, AttentionLayers, encode
from omegamax.operator_table import OPERATORS
from omegamax.plots.arrays import to_cpu_tensor, to_float_tensor
from omegamax.plots.zeros import rounded_to_zero

_MOST_TOKENS = 400  # of a row, in the page


def explore(
    weights: Tensor | Mapping[str, Tensor],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    height: int = 640,
) -> ExplorerFrame:
    """Shows attention weights in a notebook: every head, one of them large, several normalizers side by side.

    `weights` are (rows, columns), (heads, rows, columns) or (layers, heads, rows, columns), each over the tokens of
    `rows` (outputs) and `columns` (inputs); without tokens, places are numbered. A mapping gives several, by the names
    of their normalizers. `height` is in pixels. The result is shown by a notebook, and `save(path)` writes the page.

    >>> explore(torch.eye(2), ["a", "b"], ["x", "y"])
    ExplorerFrame(height=640)
    """
    named = weights if isinstance(weights, Mapping) else {"weights": weights}
    if not named:
        raise ValueError("explore: weights must hold at least one map, got none; give a tensor, or a name for each")
    models = []
    for name, each in named.items():
        layers = _layers(name, each, rows, columns)
        part = encode(layers, max(1, MAX_WEIGHTS // len(named)))
        models.append({"name": str(name), "normalizer": str(name), "note": "", "parts": [part]})
    data = {"view": "attention", "attention": {"inputs": [{"text": " ".join(map(str, columns)), "models": models}]}}
    return ExplorerFrame(data, height)


def explore_row(
    scores: Tensor | Sequence[float],
    tokens: Sequence[str] = (),
    *,
    operators: Sequence[str] = (),
    gamma: float = 1.0,
    height: int = 760,
) -> ExplorerFrame:
    """Shows one row of scores in a notebook, as bars that can be dragged, and what operators make of it.

    `scores` are (columns,), one for each of `tokens` (without tokens, places are numbered); a score of −inf is masked.
    `operators` are names such as "sparsemax"; without any, all are shown. `gamma` is the temperature, from 0.05 to 5.
    `height` is in pixels.

    >>> explore_row([0.2, 1.0, -0.5], ["the", "old", "man"], operators=["softmax", "sparsemax"])
    ExplorerFrame(height=760)
    """
    row = to_float_tensor(list(scores) if isinstance(scores, tuple) else scores)
    if not isinstance(row, Tensor) or row.dim() != 1 or not 0 < len(row) <= _MOST_TOKENS:
        came = tuple(getattr(row, "shape", ())) or type(scores).__name__
        raise ValueError(
            f"explore_row: scores must be one row of 1 to {_MOST_TOKENS} numbers, got {came}; pick one row, as in "
            "scores[0]"
        )
    if bool((row.isnan() | (row == torch.inf)).any()):
        raise ValueError("explore_row: scores must be finite or −inf, got NaN or +inf; mask or mend them")
    if not 0.05 <= gamma <= 5:
        raise ValueError(f"explore_row: gamma must be from 0.05 to 5, got {gamma}; divide the scores instead")
    unknown = [name for name in operators if name not in OPERATORS or name == "entmax15"]
    if unknown:
        known = ", ".join(name for name in OPERATORS if name != "entmax15")
        raise ValueError(f"explore_row: operators must be among {known}, got {unknown[0]!r}; choose some of these")
    words = _tokens("explore_row", "tokens", tokens, len(row))
    masked = [place for place, score in enumerate(row.tolist()) if score == -torch.inf]
    fields = {
        "t": " ".join("·".join(word.split()) or "·" for word in words),  # the page takes words apart at spaces
        "s": " ".join("0" if score == -torch.inf else f"{score:.4f}" for score in row.tolist()),
        "m": " ".join(map(str, masked)),
        "g": f"{gamma:g}",
        "v": " ".join(operators),
    }
    return ExplorerFrame(
        {"view": "row", "state": urlencode({key: text for key, text in fields.items() if text})}, height
    )


def _layers(name: str, weights: Any, rows: Sequence[str], columns: Sequence[str]) -> AttentionLayers:
    maps = to_cpu_tensor(weights)
    if not isinstance(maps, Tensor) or maps.dim() not in (2, 3, 4) or not maps.is_floating_point():
        came = tuple(getattr(maps, "shape", ())) or type(weights).__name__
        raise ValueError(
            f"explore: weights must be floating-point, (rows, columns) with heads and layers before, got {came} for "
            f"{name}; pick one item of the batch, as in weights[0]"
        )
    maps = maps.reshape((1,) * (4 - maps.dim()) + maps.shape)
    outputs = _tokens("explore", "rows", rows, maps.shape[2])
    inputs = _tokens("explore", "columns", columns, maps.shape[3])
    return AttentionLayers("", outputs, inputs, maps, not bool(rounded_to_zero(maps, name=name).any()))


def _tokens(who: str, what: str, given: Sequence[str], count: int) -> list[str]:
    if len(given) == 0:
        return [str(place + 1) for place in range(count)]
    if len(given) != count:
        raise ValueError(f"{who}: {what} must name each of the {count}, got {len(given)}; give one token each")
    return [str(token) for token in given]
