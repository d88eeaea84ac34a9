"""Draws histograms of support sizes: how many inputs get weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.attention.sparse_attention_output import SparseAttentionOutput
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.sparse_weights import support_sizes
from omegamax.plots.style import INK, figure_style, hide_tick_marks, palette
from omegamax.plots.zeros import rounded_to_zero


def support_histograms(weights: Mapping[str, Tensor | SparseAttentionOutput | Sequence[Tensor]]) -> Figure:
    """Draws the share of rows by the number of weights above zero, for weights (..., K) by name.

    A list of tensors may have rows of different lengths K. Rows without any weight, such as padding, are left out. A
    dotted line marks the mean. Weights that were rounded to zero count, as all of softmax's (see `attention_map`). What
    `sparse_attention_with_weights` returned may take the place of a tensor.
    """
    given = {name: _tensors(one) for name, one in weights.items()}
    if not given or not all(isinstance(one, Tensor) and one.dim() for each in given.values() for one in each):
        came = {name: getattr(one, "shape", type(one).__name__) for name, one in weights.items()}
        raise ValueError(f"support_histograms: weights must be tensors (..., K) by name, got {came}; give at least one")
    sizes = {
        name: torch.cat([torch.zeros(0, dtype=torch.long), *(_support_sizes(one, name) for one in each)])
        for name, each in given.items()
    }
    largest = max([1, *(int(counts.max()) for counts in sizes.values() if len(counts))])
    with figure_style(weights):
        figure = Figure(
            figsize=(min(6.4, max(2.8, 0.6 + 0.16 * largest)), 0.45 + 0.78 * len(sizes)), layout="constrained"
        )
        grid = figure.subplots(len(sizes), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, (colour, _)) in zip(grid, palette(sizes).items()):
            counts = sizes[name]
            share = counts.bincount(minlength=largest + 1)[1:].double() / max(1, len(counts))
            axes.bar(
                range(1, largest + 1), share.tolist(), width=0.86 if largest <= 60 else 1.0, color=colour, linewidth=0
            )
            said = "no rows"
            if len(counts):
                mean = float(counts.double().mean())
                axes.axvline(mean, color=INK, linewidth=0.8, linestyle=":")
                said = f"{mean:.1f} on average"
            axes.set_title(typesetting.title(name) + f": {said}", loc="left", pad=2)
            axes.set(xlim=(0.4, largest + 0.6), ylim=(0, 1.08 * max(float(share.max()), 1e-9)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
            axes.locator_params(axis="y", nbins=3)
            axes.locator_params(axis="x", integer=True)
            hide_tick_marks(axes)
        grid[-1].set_xlabel("weights above zero in a row")
    return figure


def _tensors(given: Any) -> list[Any]:
    if isinstance(given, SparseAttentionOutput):
        given = given.weights
    if isinstance(given, Tensor) and given.layout is torch.sparse_csr:
        return [given.detach().cpu()]
    whole = to_cpu_tensor(given)  # a list that is no matrix stays a list
    return [to_cpu_tensor(one) for one in whole] if isinstance(whole, list | tuple) else [whole]


def _support_sizes(weights: Tensor, name: str) -> Tensor:
    """Counts the support of each row (..., K) that has any weight."""
    if weights.layout is torch.sparse_csr:
        return support_sizes(weights)
    counts = ((weights > 0) | rounded_to_zero(weights, name=name)).sum(-1).flatten()
    return counts[counts > 0]
