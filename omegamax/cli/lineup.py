"""One row of scores under every operator, as a table and as pictures."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from omegamax import registry
from omegamax.cli.destination import save_picture
from omegamax.smoothmax import SmoothMax

WORDS = ["the", "old", "man", "and", "his", "dog", "went", "home", "at", "six"]
SCORES = torch.tensor([0.10, 0.62, 0.66, -0.60, 0.20, 0.98, 0.64, 0.95, -0.90, 0.40])
PICTURES = ("figure2.png", "operators.png", "denoising.png", "alignments.png", "losses.png", "trees.png")
PHRASES = [0, 0, 0, 1, 2, 2, 3, 3, 4, 4]  # the groups of groupmax


def operators() -> dict[str, SmoothMax]:
    """Title and operator of every line."""
    titles = {"fusedmax": "fusedmax (0.1)", "oscarmax": "oscarmax (0.05)", "groupmax": "groupmax (0.4)"}
    lineup = registry.lineup(len(WORDS), PHRASES)
    return {titles.get(name, name): smooth for name, smooth in lineup.items()}


def table() -> str:
    """The scores, then each operator's weights, support, segments, levels and value."""
    head = _line("", WORDS, ["support", "segments", "levels", "max_Ω"])
    lines = [head, _line("scores", [f"{score:.2f}" for score in SCORES.tolist()], []), "-" * len(head)]
    for title, smooth in operators().items():
        weights, value = smooth.weigh(SCORES)
        cells = ["0" if weight == 0 else f"{weight:.3f}" for weight in weights.tolist()]
        lines.append(_line(title, cells, [*map(str, _counts(weights)), f"{value.item():.3f}"]))
    return "\n".join(line.rstrip() for line in lines)


def _line(title: str, cells: list[str], rest: list[str]) -> str:
    return f"{title:<16}" + "".join(f"{cell:>6}" for cell in cells) + "".join(f"{cell:>9}" for cell in rest)


def _counts(weights: Tensor) -> tuple[int, int, int]:
    """Positions with weight, runs of neighbours with equal weight, and different weights; zeros do not count."""
    positive = weights > 0
    starts = positive & (weights != torch.nn.functional.pad(weights[:-1], (1, 0)))
    return int(positive.sum()), int(starts.sum()), int(weights[positive].unique().numel())


def draw(directory: Path) -> list[Path]:
    """Writes the pictures and returns where they are."""
    from omegamax import plots

    figures = (
        plots.figure2(),
        plots.row_comparison(SCORES, WORDS, regularizers=operators()),
        plots.denoising(),
        plots.alignment_comparison(),
        plots.binary_losses(),
        plots.dependency_arcs(),
    )
    paths = [directory / name for name in PICTURES]
    for path, figure in zip(paths, figures, strict=True):
        save_picture(figure, path)
    return paths
