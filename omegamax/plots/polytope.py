"""Draws a polytope from one side, with the points that MAP, the entropy and SparseMAP choose in it.

    MAP        a corner:              argmax over the vertices y of  <θ, y>
    marginal   the inside:            Σ_y softmax(<θ, y>) y
    SparseMAP  a low face:            argmin over the polytope of    ½‖μ − θ‖²

Niculae, Martins, Blondel & Cardie, "SparseMAP", ICML 2018, figure 1, drawn for a structure that can be enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.style import COLOURS, INK, figure_style
from omegamax.structures.polytope import Polytope

_LARGEST = 40  # vertices
_GROWTH = [0.05 * step for step in range(20)] + [1.0] + [1.15**step for step in range(1, 18)]
_N_VIEWS = 200
_WHOLE = 20  # the place among the multiples where the scores are multiplied by 1
_POINT_STYLES = {  # of each point: colour, sign, size
    "MAP": ("#000000", "s", 6.0),
    "marginal": (COLOURS["softmax"], "o", 6.5),
    "SparseMAP": (COLOURS["fusedmax"], "D", 5.5),
}


def polytope(vertices: Tensor, scores: Tensor, *, names: Sequence[str] = ()) -> Figure:
    """Draws the hull of all structures, with the MAP, marginal and SparseMAP points of the scores.

    `vertices` (V, *event) are the structures, as `structure.enumerate(potentials)` lists them; `scores` (*event);
    `names` label the vertices. The view is a plane that foreshortens little, and the lines are the true edges
    of the polytope. Thin curves follow both points as the scores grow from nothing to ten times their size: the
    marginal stays inside, SparseMAP runs along faces and reaches the best vertex.
    """
    vertices, scores = to_cpu_tensor(vertices), to_cpu_tensor(scores)
    if not isinstance(vertices, Tensor) or vertices.shape[1:] != scores.shape or len(vertices) < 2:
        raise ValueError(
            "polytope: vertices must be (V, *event), at least two, and scores (*event), got "
            f"{tuple(getattr(vertices, 'shape', ()))} and {tuple(scores.shape)}; enumerate the structure"
        )
    if len(vertices) > _LARGEST:
        raise ValueError(
            f"polytope: at most {_LARGEST} vertices can be told apart, got {len(vertices)}; take a smaller"
        )
    corners = vertices.double().flatten(1)
    theta = scores.double().flatten()
    said = typesetting.labels("polytope", "names", names, len(corners))
    paths = _paths(corners, theta)
    chosen = {"MAP": corners[(corners @ theta).argmax()], **{name: path[_WHOLE] for name, path in paths.items()}}
    view = _view(corners, torch.stack(list(chosen.values())))
    with figure_style(said):
        figure = Figure(figsize=(4.4, 3.4), layout="constrained")
        axes = figure.subplots()
        _draw_frame(axes, view(corners), edges_of(corners), said)
        for name, path in paths.items():
            axes.plot(*view(path).T.tolist(), color=_POINT_STYLES[name][0], linewidth=0.9, alpha=0.6, zorder=2.5)
        for name, point in chosen.items():
            colour, sign, size = _POINT_STYLES[name]
            (x, y) = view(point).tolist()
            axes.plot(x, y, sign, color=colour, markersize=size, markeredgecolor="white", label=name, zorder=4)
        axes.set_aspect("equal")
        axes.margins(0.12)
        axes.axis("off")
        figure.legend(loc="outside lower center", ncols=3, handletextpad=0.3, columnspacing=1.5)
    return figure


def edges_of(corners: Tensor) -> list[tuple[int, int]]:
    """Finds the pairs of vertices (V, D) that an edge of their hull joins.

    Two vertices are joined unless the hull of the others meets the segment between them. To find out, all vertices are
    projected along the segment, which becomes a point: it must lie outside the projected hull of the others.
    """
    found = []
    for i, j in torch.combinations(torch.arange(len(corners))).tolist():
        along = torch.nn.functional.normalize(corners[j] - corners[i], dim=0)
        shadow = corners - (corners @ along).unsqueeze(-1) * along
        others = shadow[[k for k in range(len(corners)) if k not in (i, j)]]
        if len(others) == 0 or float((_nearest(others, shadow[i]) - shadow[i]).norm()) > 1e-6:
            found.append((i, j))
    return found


def _nearest(corners: Tensor, point: Tensor) -> Tensor:
    """Projects the scores onto the hull of the corners, which is SparseMAP."""
    hull = Polytope.from_oracle(lambda direction: corners[(corners @ direction).argmax()])
    return hull.sparsemap(point).marginals


def _view(corners: Tensor, points: Tensor) -> Callable[[Tensor], Tensor]:
    """Projects vertices and points to (..., 2) in the plane that shortens distances least, of many planes."""
    centre = corners.mean(0)
    spread = corners - centre
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(_N_VIEWS, 2, len(corners), generator=generator, dtype=torch.float64) @ spread  # within the hull
    first = torch.nn.functional.normalize(mixed[:, :1], dim=-1)
    second = mixed[:, 1:] - (mixed[:, 1:] * first).sum(-1, keepdim=True) * first
    length = second.norm(dim=-1, keepdim=True)
    second = torch.where(length > 1e-9, second / length.clamp(min=1e-9), 0)  # a segment has one axis
    planes = torch.cat((first, second), 1)  # (views, 2, D)
    sets = [spread, torch.cat((points - centre, torch.zeros_like(centre).unsqueeze(0)))]
    kept = torch.stack([torch.stack([_least_kept(each, plane) for each in sets]).min() for plane in planes])
    plane = planes[kept.argmax()]
    return lambda points: (points - centre) @ plane.mT


def _least_kept(points: Tensor, plane: Tensor) -> Tensor:
    """Computes the least share of a distance between two points that the plane keeps."""
    true = torch.nn.functional.pdist(points)
    share = torch.nn.functional.pdist(points @ plane.mT) / true.clamp(min=1e-9)
    return torch.where(true > 1e-6, share, 1).min()  # points that coincide do so everywhere


def _paths(corners: Tensor, theta: Tensor) -> dict[str, Tensor]:
    """Computes both points at each multiple of the scores."""
    return {
        "marginal": torch.stack([(corners @ (grown * theta)).softmax(0) @ corners for grown in _GROWTH]),
        "SparseMAP": torch.stack([_nearest(corners, grown * theta) for grown in _GROWTH]),
    }


def _draw_frame(axes: Axes, flat: Tensor, edges: Sequence[tuple[int, int]], names: Sequence[str]) -> None:
    lines = [[flat[i].tolist(), flat[j].tolist()] for i, j in edges]
    axes.add_collection(LineCollection(lines, colors="#A8A8A8", linewidths=0.7, gid="edges", zorder=1))
    axes.plot(*flat.T.tolist(), "o", color="#8A8A8A", markersize=3.2, zorder=2)
    for (x, y), name in zip(flat.tolist(), names):
        away = torch.tensor([x, y]) / max(1e-9, (x * x + y * y) ** 0.5)  # from the centre
        place = (7 * away).tolist()
        side = "left" if away[0] > 0.3 else "right" if away[0] < -0.3 else "center"
        end = "bottom" if away[1] > 0.3 else "top" if away[1] < -0.3 else "center"
        axes.annotate(name, (x, y), place, textcoords="offset points", ha=side, va=end, fontsize=7.5, color=INK)
