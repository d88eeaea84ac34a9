"""Draws argmax_Ω([t₁, t₂, 0]) as surfaces: flat where a weight is exactly 0 or 1, or where fusedmax ties weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from omegamax.operators import Fused, Oscar, Shannon, SquaredNorm
from omegamax.plots import typesetting
from omegamax.plots.style import INK, WEIGHTS, ZERO, figure_style
from omegamax.smoothmax import SmoothMax

_OMEGAS: dict[str, SmoothMax] = {
    "softmax": Shannon(),
    "sparsemax": SquaredNorm(),
    "fusedmax (0.5)": Fused(0.5),
    "oscarmax (0.3)": Oscar(0.3),
}


def argmax_surfaces(
    regularizers: Mapping[str, SmoothMax] | None = None, *, component: int = 1, reach: float = 2.5
) -> Figure:
    """Draws the weight of one component, 1, 2 or 3, over t₁ and t₂ from −reach to reach; grey where it is exactly zero.

    Softmax is nowhere exactly zero, and nowhere grey.
    """
    if component not in (1, 2, 3):
        raise ValueError(f"argmax_surfaces: component must be 1, 2 or 3, got {component}; the scores are [t₁, t₂, 0]")
    if not reach > 0:
        raise ValueError(f"argmax_surfaces: reach must be positive, got {reach}; it bounds t₁ and t₂")
    charts = _OMEGAS if regularizers is None else regularizers
    if not charts:
        raise ValueError("argmax_surfaces: regularizers must name at least one, got none; give {title: operator}")
    t = torch.linspace(-reach, reach, 41, dtype=torch.float64)
    first, second = torch.meshgrid(t, t, indexing="ij")
    scores = torch.stack((first, second, torch.zeros_like(first)), -1)
    across = min(2, len(charts))
    lines = math.ceil(len(charts) / across)
    with figure_style(charts):
        figure = Figure(figsize=(3.1 * across, 2.4 * lines))
        for place, (name, smooth) in enumerate(charts.items()):
            axes = figure.add_subplot(lines, across, place + 1, projection="3d")
            assert isinstance(axes, Axes3D)
            weight = smooth.argmax(scores)[..., component - 1].numpy()
            _draw(axes, first.numpy(), second.numpy(), weight, can_be_zero=not smooth.always_positive)
            axes.set_title(typesetting.title(name), pad=4, y=1.0)
            axes.zaxis.set_rotate_label(False)  # matplotlib would turn it to read downwards
            axes.set_zlabel(rf"$\Pi_\Omega([t_1, t_2, 0])_{component}$", labelpad=-7, rotation=90)
        figure.subplots_adjust(left=-0.01, right=1.03, bottom=0.04, top=0.95, wspace=-0.02, hspace=0.16)
    return figure


def _draw(axes: Axes3D, first: np.ndarray, second: np.ndarray, weight: np.ndarray, *, can_be_zero: bool) -> None:
    corners = np.stack((weight[:-1, :-1], weight[1:, :-1], weight[:-1, 1:], weight[1:, 1:]))
    colours = WEIGHTS(0.08 + 0.75 * corners.mean(0))
    colours[(corners == 0).all(0) & can_be_zero] = to_rgba(ZERO)
    axes.plot_surface(
        first,
        second,
        weight,
        facecolors=colours,
        edgecolor=to_rgba(INK, 0.45),
        linewidth=0.2,
        rstride=1,
        cstride=1,
        shade=False,
    )
    axes.set(zlim=(0, 1), zticks=[0, 0.5, 1])
    axes.set_xlabel("$t_1$", labelpad=-8)
    axes.set_ylabel("$t_2$", labelpad=-8)
    axes.tick_params(pad=-3, labelsize=7.5)
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=5)
    axes.view_init(elev=24, azim=-125)
    axes.set_box_aspect((1, 1, 0.72), zoom=1.12)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1, 1, 1, 0))
