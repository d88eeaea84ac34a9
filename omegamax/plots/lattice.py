"""Draws the expected lattice of tags: how likely each tag of each word is, and each step from tag to tag."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensors
from omegamax.plots.style import COLOURS, HALO, INK, figure_style, hide_tick_marks
from omegamax.plots.zeros import part_count

_FAINT = "#BDBDBD"
_PAGE = 6.9  # inches


def tag_lattice(marginals: Mapping[str, Tensor], words: Sequence[str], tags: Sequence[str]) -> Figure:
    """Draws soft assignments on a chain, by title: a dot for each tag of each word, a line for each step between tags.

    Marginals are dense, (N, C, C), as `Chain.argmax`, `map` and `sparsemap` give them: [n, i, j] is the probability of
    tag j at word n after tag i. Dots and lines grow with it; lines of zero are not drawn, and a tag of probability zero
    is an empty ring. Tags between 5 and 95 percent have their number. Positions beyond a length are empty.
    """
    marginals = to_cpu_tensors(marginals)
    shape = (len(words), len(tags), len(tags))
    for title, edges in marginals.items():
        if not isinstance(edges, Tensor) or tuple(edges.shape) != shape:
            came = tuple(edges.shape) if isinstance(edges, Tensor) else type(edges).__name__
            raise ValueError(
                f"tag_lattice: {title!r} must be the edges of one chain over {len(words)} words and {len(tags)} tags, "
                f"{shape}, got {came}; take dense potentials, and one item of the batch"
            )
    if not marginals or 0 in shape:
        came = f"{len(marginals)}, {len(words)} and {len(tags)}"
        raise ValueError(f"tag_lattice: marginals, words and tags are needed, got {came}; give one each at least")
    said, kinds = [typesetting.label(word) for word in words], [typesetting.label(tag) for tag in tags]
    step = max(0.62, *(typesetting.width(word, 9) + 0.12 for word in said))
    with figure_style([*marginals, *said, *kinds]):
        high = 0.31 * len(tags) + 0.2
        beside = max(typesetting.width(tag, 9) for tag in kinds)
        across = max(1, min(2, len(marginals), int((_PAGE - beside) / (step * len(words)))))
        lines = math.ceil(len(marginals) / across)
        size = (0.35 + beside + step * len(words) * across, 0.25 + (high + 0.22) * lines)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(lines, across, squeeze=False).ravel()
        for place, (axes, (title, edges)) in enumerate(zip(grid, marginals.items())):
            _draw(axes, edges.double().clamp(0, 1))  # sums may be rounded beyond
            first, last = place % across == 0, place + across >= len(marginals)
            axes.set_yticks(range(len(kinds)) if first else [], kinds if first else [])
            axes.set_xticks(range(len(said)) if last else [], said if last else [])
            axes.set_title(f"{typesetting.title(title)}: {part_count(edges[1:], 'step')}", loc="left", pad=3)
        for axes in grid[len(marginals) :]:
            axes.remove()
    return figure


def _draw(axes: Axes, edges: Tensor) -> None:
    n_words, n_tags, _ = edges.shape
    steps = [
        ([(n, i), (n + 1, j)], float(edges[n + 1, i, j])) for n, i, j in (edges[1:] > 0).nonzero().tolist()
    ]  # rows of edges[1:] lead into word n + 1
    lines = LineCollection(
        [line for line, _ in steps],
        linewidths=[0.4 + 3.2 * probability for _, probability in steps],
        colors=[to_rgba(COLOURS["softmax"], 0.3 + 0.7 * probability) for _, probability in steps],
        gid="steps",
        capstyle="round",
    )
    axes.add_collection(lines, autolim=False)
    nodes = edges.sum(-2)  # (N, C)
    for n in range(n_words):
        for tag in range(n_tags):
            _draw_node(axes, n, tag, float(nodes[n, tag]))
    axes.set(xlim=(-0.45, n_words - 0.55), ylim=(n_tags - 0.4, -0.75))
    for spine in axes.spines.values():
        spine.set_visible(False)
    hide_tick_marks(axes)


def _draw_node(axes: Axes, n: int, tag: int, probability: float) -> None:
    if probability == 0:
        axes.plot(n, tag, "o", markersize=2.6, markerfacecolor="white", markeredgecolor=_FAINT, markeredgewidth=0.6)
        return
    axes.plot(n, tag, "o", markersize=2.6 + 5.4 * probability**0.5, color=INK, markeredgecolor="white", zorder=3)
    if 0.05 <= probability <= 0.95:
        place = (0, 3.5 + 2.7 * probability**0.5)
        axes.annotate(
            f"{probability:.2f}",
            (n, tag),
            place,
            textcoords="offset points",
            ha="center",
            fontsize=7,
            zorder=4,
            path_effects=HALO,
        )
