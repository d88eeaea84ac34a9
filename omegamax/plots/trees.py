"""Draws dependency trees as arcs over a sentence, under MAP, the entropy and SparseMAP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensors
from omegamax.plots.style import COLOURS, HALO, INK, figure_style
from omegamax.plots.zeros import part_count
from omegamax.structures.projective_tree import ProjectiveTree

_WORDS = ("she", "saw", "the", "man", "with", "a", "telescope")
# Scores of arcs (head, modifier): "with" scores nearly as well under "man" as under "saw".
_ARCS = {(0, 2): 4.0, (2, 1): 4.0, (2, 4): 4.0, (4, 3): 4.0, (2, 5): 2.3, (4, 5): 2.0, (5, 7): 4.0, (7, 6): 4.0}


def dependency_arcs(
    trees: Mapping[str, Tensor] | None = None,
    words: Sequence[str] | None = None,
    relations: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draws arcs from heads to modifiers, as strong as they are probable; arcs of probability zero are not drawn.

    `trees` maps titles to marginals or structures (N + 1, N + 1) as `argmax`, `map` and `sparsemap` of trees give them;
    `words` are the N words. Probabilities between 0.05 and 0.95 are written out. `relations` maps some of the titles to
    the N relations of the words to their heads, which are written on the arcs of those trees. Without arguments a
    sentence with two readings is drawn under MAP, the entropy and SparseMAP.
    """
    words = _WORDS if words is None else words
    trees = _three_readings() if trees is None else to_cpu_tensors(trees)
    for title, arcs in trees.items():
        if not isinstance(arcs, Tensor) or tuple(arcs.shape) != (len(words) + 1, len(words) + 1):
            came = tuple(arcs.shape) if isinstance(arcs, Tensor) else type(arcs).__name__
            raise ValueError(
                f"dependency_arcs: {title!r} must be a tree over {len(words)} words, of shape "
                f"{(len(words) + 1, len(words) + 1)}, got {came}; index 0 is the root"
            )
    if not trees or not words:
        raise ValueError(
            f"dependency_arcs: trees and words are needed, got {len(trees)} and {len(words)}; give one each"
        )
    relations = {} if relations is None else relations
    for title, names in relations.items():
        if title not in trees or len(names) != len(words):
            raise ValueError(
                f"dependency_arcs: relations must belong to a tree and have {len(words)} names, one per word, got "
                f"{len(names)} for {title!r}; the trees are {list(trees)}"
            )
    said = [typesetting.label(word) for word in words]
    named = {title: [typesetting.label(name) for name in names] for title, names in relations.items()}
    widths = [typesetting.width(word, 9) for word in said]
    step = max([0.72, *((left + right) / 2 + 0.12 for left, right in pairwise(widths))])  # inches
    with figure_style([*trees, *said, *(name for names in named.values() for name in names)]):
        tops = [_height(_longest(arcs)) for arcs in trees.values()]
        size = (max(3.2, step * len(said) + 0.8), 0.62 * sum(top + 1.1 for top in tops))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(trees), 1, squeeze=False, height_ratios=[top + 0.95 for top in tops])[:, 0]
        for axes, top, (title, arcs) in zip(grid, tops, trees.items()):
            _draw(axes, arcs.double(), said, top, named.get(title))
            axes.set_ylim(-0.6, top + 0.42)
            axes.set_title(f"{typesetting.title(title)}: {part_count(arcs, 'arc')}", loc="left", pad=2)
    return figure


def _draw(axes: Axes, arcs: Tensor, words: Sequence[str], top: float, relations: Sequence[str] | None) -> None:
    for head, modifier in (arcs > 0).nonzero().tolist():
        probability = min(1.0, float(arcs[head, modifier]))  # a sum may be rounded up
        if head == 0:
            _draw_root(axes, modifier, probability, min(top, _height(max(2, len(words) // 2))))
            continue
        middle, height = (head + modifier) / 2, _height(abs(head - modifier))
        if head > modifier and arcs[modifier, head] > 0:
            height += 0.16  # of two opposite arcs one is higher, so that both are seen
        arc_style: dict[str, Any] = {"color": COLOURS["softmax"], "alpha": 0.25 + 0.75 * probability}
        width = 0.4 + 1.8 * probability
        arc = Arc((middle, 0), abs(head - modifier), 2 * height, theta1=0, theta2=180, linewidth=width, **arc_style)
        axes.add_patch(arc)
        axes.plot(modifier, 0.04, "v", markersize=2 + 2 * probability, **arc_style)
        note = [relations[modifier - 1]] if relations is not None else []
        note += [f"{probability:.2f}"] if _is_uncertain(probability) else []
        if note:
            axes.text(middle, height + 0.03, " ".join(note), ha="center", va="bottom", fontsize=7.5, path_effects=HALO)
    for place, word in enumerate(words, start=1):
        axes.text(place, -0.12, word, ha="center", va="top")
    axes.set_xlim(0.4, len(words) + 0.6)
    axes.axis("off")


def _longest(arcs: Tensor) -> int:
    """Returns the longest distance of an arc that is drawn, without those of the root."""
    return max([2, *(abs(head - modifier) for head, modifier in (arcs > 0).nonzero().tolist() if head > 0)])


def _height(span: float) -> float:
    """Returns the height of an arc, which grows less than its span, so that long sentences fit."""
    return 0.55 * span**0.7


def _draw_root(axes: Axes, word: int, probability: float, top: float) -> None:
    """Draws a stroke from above, because the root has no place in the sentence."""
    alpha = 0.15 + 0.85 * probability
    axes.plot([word, word], [0.04, top], color=INK, alpha=alpha, linewidth=0.4 + 1.4 * probability)
    axes.plot(word, 0.04, "v", markersize=2 + 2 * probability, color=INK, alpha=alpha)
    if probability > 0.05:
        label = f"root {probability:.2f}" if _is_uncertain(probability) else "root"
        axes.text(word + 0.06, top, label, ha="left", va="top", fontsize=7.5)


def _is_uncertain(probability: float) -> bool:
    """Says whether a probability is neither nearly 0 nor nearly 1, so that its number is shown."""
    return 0.05 <= probability <= 0.95


def _three_readings() -> dict[str, Tensor]:
    scores = torch.zeros(len(_WORDS) + 1, len(_WORDS) + 1, dtype=torch.float64)
    for (head, modifier), score in _ARCS.items():
        scores[head, modifier] = score
    tree = ProjectiveTree()
    found = tree.sparsemap(scores)
    title = f"SparseMAP, {len(found.probabilities)} trees"
    return {"MAP": tree.map(scores), "entropy (all trees)": tree.argmax(scores), title: found.marginals}
