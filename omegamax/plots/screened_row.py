"""Draws how sparse attention screens a row: scores in 8 bits with their error bounds, and the keys that can matter."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.operators.tsallis import Tsallis
from omegamax.plots.arrays import to_float_tensor
from omegamax.plots.style import INK, figure_style, hide_tick_marks

_LEVELS = 127  # of 8 bits with a sign
_UNIT = 2.0**-24  # of rounding in float32
_ENLARGED = 16  # keys that are drawn again, larger
_SUPPORT, _CANDIDATE, _OTHER = "#0072B2", "#D55E00", "#9A9A9A"


class ScreenedRow(NamedTuple):
    """What screening knows of the scores of one query, and what is true."""

    scores: Tensor  # (K,)
    estimates: Tensor  # (K,), from products of 8-bit integers
    errors: Tensor  # (K,): no score is farther from its estimate
    threshold: float  # no key with a score below it has weight
    candidates: Tensor  # (K,) boolean: estimate + error is above the threshold
    weights: Tensor  # (K,)


def screen_row(query: Any, key: Any, *, alpha: float = 2.0, scale: float | None = None) -> ScreenedRow:
    """Screens the keys of one query as `sparse_attention` does, in plain PyTorch.

    Arguments:
        query: (size,)
        key: (K, size)
        alpha: the order of entmax; 2 is sparsemax
        scale: what products are multiplied by; None is 1/√size
    """
    query, key = to_float_tensor(query), to_float_tensor(key)
    fits = isinstance(query, Tensor) and isinstance(key, Tensor) and query.dim() == 1 and key.dim() == 2
    if not fits or key.shape[-1] != len(query) or 0 in key.shape:
        came = [tuple(getattr(x, "shape", ())) for x in (query, key)]
        raise ValueError(
            f"screened_row: query must have the shape (size,) and key (K, size), got {came[0]} and {came[1]}; pick one "
            "query of one head, as in query[0, 0, 5] and key[0, 0]"
        )
    if not alpha > 1:
        raise ValueError(f"screened_row: alpha must be above 1, got {alpha}; at 1 every key has weight")
    size = len(query)
    query, key = query.double() * (1 / math.sqrt(size) if scale is None else scale), key.double()
    query_levels, query_rest = _quantise(query)
    key_levels, key_rest = _quantise(key)
    estimates = key_levels @ query_levels
    rounding = 2 * (size + 4) * _UNIT  # of the score in float32
    errors = query.norm() * (key_rest.norm(dim=-1) + rounding * key.norm(dim=-1))
    errors = errors + query_rest.norm() * key_levels.norm(dim=-1) + 16 * _UNIT * estimates.abs()
    omega = Tsallis(alpha)
    threshold = _threshold(omega, estimates - errors)
    scores = key @ query
    return ScreenedRow(
        scores, estimates, errors, threshold, estimates + errors > threshold, omega.argmax(scores.clone())
    )


def screened_row(query: Any, key: Any, *, alpha: float = 2.0, scale: float | None = None) -> Figure:
    """Draws the scores of one query over its keys, each with what 8 bits tell about it.

    A bar is an estimate with its error bound, a dot the score itself. The coloured window reaches as far below the
    largest score as any key with weight can lie. The dashed line is the threshold that the lower ends of the bars would
    have: only bars that reach above it can belong to keys with weight.

    Arguments:
        query: (size,)
        key: (K, size)
        alpha: the order of entmax; 2 is sparsemax
        scale: what products are multiplied by; None is 1/√size
    """
    row = screen_row(query, key, alpha=alpha, scale=scale)
    best = row.estimates.argsort(descending=True)[:_ENLARGED]
    with figure_style():
        figure = Figure(figsize=(6.6, 3.0), layout="constrained")
        whole, enlarged = figure.subplots(1, 2, width_ratios=(1.7, 1))
        for axes, keys in ((whole, torch.arange(len(row.scores))), (enlarged, best)):
            _draw_lines(axes, row, 1 / (alpha - 1))
            _draw_keys(axes, row, keys)
            hide_tick_marks(axes)
        whole.set(xlabel="keys", ylabel="score")
        enlarged.set(xlabel=f"the {len(best)} best, in order")
        enlarged.set_xticks([])
        low, high = float((row.estimates - row.errors)[best].min()), float((row.estimates + row.errors).max())
        room = 0.06 * (high - low) or 0.5
        enlarged.set_ylim(low - room, high + room)
        top = float((row.estimates - row.errors).max())
        _name(enlarged, row.threshold, "threshold", "bottom")
        _name(enlarged, top - 1 / (alpha - 1), "window ends", "top")
        figure.legend(*whole.get_legend_handles_labels(), loc="outside upper center", ncols=3, handletextpad=0.1)
    return figure


def _name(axes: Axes, height: float, text: str, side: str) -> None:
    """Writes a name beside a height."""
    axes.annotate(
        text,
        (1, height),
        (4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va=side,
        fontsize=8.5,
        annotation_clip=True,
    )


def _draw_lines(axes: Axes, row: ScreenedRow, window: float) -> None:
    """Draws the window below the largest score that is certain, and the threshold."""
    top = float((row.estimates - row.errors).max())
    axes.axhspan(top - window, top, color="#F3EBD3", linewidth=0, zorder=0)
    axes.axhline(row.threshold, color=INK, linewidth=0.8, linestyle="--", zorder=1)


def _draw_keys(axes: Axes, row: ScreenedRow, keys: Tensor) -> None:
    """Draws a bar and a dot for each of the keys."""
    support = row.weights > 0
    kinds = {
        f"{int(support.sum())} with weight": (support, _SUPPORT),
        f"{int((row.candidates & ~support).sum())} more candidates": (row.candidates & ~support, _CANDIDATE),
        f"{int((~row.candidates).sum())} that cannot have weight": (~row.candidates, _OTHER),
    }
    wide = len(keys) <= _ENLARGED
    for name, (chosen, colour) in kinds.items():
        places = chosen[keys].nonzero().squeeze(-1)
        shown = keys[places]
        axes.vlines(
            places.tolist(),
            (row.estimates - row.errors)[shown].tolist(),
            (row.estimates + row.errors)[shown].tolist(),
            color=colour,
            linewidth=4.5 if wide else 2.0,
            alpha=0.4,
        )
        axes.plot(places.tolist(), row.scores[shown].tolist(), "o", color=colour, markersize=2.6, label=name)


def _quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the nearest multiples of the largest entry / 127, and what is left."""
    step = x.abs().amax(-1, keepdim=True) / _LEVELS
    levels = torch.where(step > 0, (x / step).round() * step, 0)
    return levels, x - levels


def _threshold(omega: Tsallis, scores: Tensor) -> float:
    """Returns the score from which weights are positive: p = ((α − 1) (score − threshold))^(1 / (α − 1))."""
    weights, best = omega.argmax(scores.clone()), int(scores.argmax())
    return float(scores[best] - weights[best] ** (omega.alpha - 1) / (omega.alpha - 1))
