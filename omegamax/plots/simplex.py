"""Draws level sets on the simplex of three: the problem that each operator solves, and its solution.

max_Ω(θ) = max over p in the simplex of  <p, θ> − Ω(p)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from torch import Tensor

from omegamax.operators import Fused, Oscar, Shannon, SquaredNorm, SquaredPNorm, Tsallis
from omegamax.plots import typesetting
from omegamax.plots.style import COLOURS, INK, WEIGHTS, figure_style
from omegamax.smoothmax import SmoothMax

_OMEGAS: dict[str, SmoothMax] = {
    "softmax": Shannon(),
    "entmax15": Tsallis(1.5),
    "sparsemax": SquaredNorm(),
    "sqpnormmax": SquaredPNorm(1.5),
    "fusedmax (0.3)": Fused(0.3),
    "oscarmax (0.2)": Oscar(0.2),
}
_CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]], dtype=torch.float64)
_SHADES = ListedColormap(WEIGHTS([0.05 + 0.045 * shade for shade in range(15)]))  # the light part: a dot stands out
_STEPS = 80  # of the grid along a side


def simplex_levels(
    scores: Tensor | Sequence[float] = (0.9, 0.5, 0.0),
    *,
    regularizers: Mapping[str, SmoothMax] | None = None,
    names: Sequence[str] = ("1", "2", "3"),
) -> Figure:
    """Draws contours of <p, θ> − Ω(p) over the triangle of p, for three scores θ; a dot marks argmax_Ω(θ).

    The corners are the three choices, `names`. A dot on a side has a weight of exactly zero (softmax never has).
    Zeros as scores give the level sets of Ω itself. Each title has the height of the peak, max_Ω(θ).
    """
    theta = torch.as_tensor(scores, dtype=torch.float64).detach().cpu()
    if theta.shape != (3,) or not bool(theta.isfinite().all()):
        raise ValueError(
            f"simplex_levels: scores must be three finite numbers, got {theta.tolist()}; a triangle has three corners"
        )
    charts = _OMEGAS if regularizers is None else regularizers
    if not charts:
        raise ValueError("simplex_levels: regularizers must name at least one, got none; give {title: operator}")
    said = typesetting.labels("simplex_levels", "names", names, 3)
    across = min(3, len(charts))
    lines = math.ceil(len(charts) / across)
    with figure_style([*charts, *said]):
        figure = Figure(figsize=(0.2 + 2.0 * across, 2.12 * lines), layout="constrained")
        grid = figure.subplots(lines, across, squeeze=False).ravel()
        for axes, (name, smooth) in zip(grid, charts.items()):
            value, weights = smooth.max_and_argmax(theta)
            _draw(axes, theta, smooth, weights, said)
            axes.set_title(
                typesetting.title(name) + rf": $\mathrm{{max}}_\Omega$ = {float(value):.2f}", pad=3, fontsize=9
            )
        for axes in grid[len(charts) :]:
            axes.remove()
    return figure


def _draw(axes: Axes, theta: Tensor, smooth: SmoothMax, weights: Tensor, names: Sequence[str]) -> None:
    points = _grid()
    height = (points @ theta - smooth.omega(points)).numpy()
    place = points @ _CORNERS
    triangles = Triangulation(place[:, 0].numpy(), place[:, 1].numpy())
    axes.tricontourf(triangles, height, levels=14, cmap=_SHADES)
    axes.tricontour(triangles, height, levels=14, colors="white", linewidths=0.5, linestyles="solid")
    axes.fill(*_CORNERS.T.tolist(), facecolor="none", edgecolor=INK, linewidth=0.8)
    x, y = (weights @ _CORNERS).tolist()
    axes.plot(x, y, "o", color=COLOURS["fusedmax"], markeredgecolor="white", markersize=6, zorder=3, clip_on=False)
    for corner, name, (side, end) in zip(
        _CORNERS.tolist(), names, (("center", "top"), ("center", "top"), ("center", "bottom"))
    ):
        axes.annotate(name, corner, (0, 3 if end == "bottom" else -3), textcoords="offset points", ha=side, va=end)
    axes.set(aspect="equal", xlim=(-0.06, 1.06), ylim=(-0.12, 0.98))
    axes.axis("off")


def _grid() -> Tensor:
    """Returns points of the simplex on a triangular grid, sides and corners included."""
    first, second = torch.meshgrid(torch.arange(_STEPS + 1), torch.arange(_STEPS + 1), indexing="ij")
    inside = first + second <= _STEPS
    pair = torch.stack((first[inside], second[inside]), -1)
    return torch.cat((pair, _STEPS - pair.sum(-1, keepdim=True)), -1).double() / _STEPS
