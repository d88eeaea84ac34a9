"""One row of scores under every operator, as a table and as pictures."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from omegamax import registry
from omegamax.cli.output import save_picture
from omegamax.operator_table import OPERATORS, OperatorFacts
from omegamax.smoothmax import SmoothMax

WORDS = ["the", "old", "man", "and", "his", "dog", "went", "home", "at", "six"]
SCORES = torch.tensor([0.10, 0.62, 0.66, -0.60, 0.20, 0.98, 0.64, 0.95, -0.90, 0.40])
PICTURES = ("figure2.png", "operators.png", "denoising.png", "alignments.png", "losses.png", "trees.png")
PHRASES = [0, 0, 0, 1, 2, 2, 3, 3, 4, 4]  # the groups of groupmax

_Row = tuple[str, list[str], list[str]]


def operators() -> dict[str, SmoothMax]:
    """Returns the title and the operator of every line."""
    lineup = registry.lineup(len(WORDS), PHRASES)
    return {_title(OPERATORS[name]): smooth for name, smooth in lineup.items()}


def _title(facts: OperatorFacts) -> str:
    return facts.function if facts.in_lineups is None else f"{facts.function} ({facts.in_lineups})"


def table(width: int | None = None) -> str:
    """Returns a table of the scores, then each operator's weights, support, segments, levels and value.

    If the last four do not fit into `width`, they follow in a table of their own.
    """
    counted = ["support", "segments", "levels", "max_Ω"]
    rows: list[_Row] = [("", WORDS, counted), ("scores", [f"{score:.2f}" for score in SCORES.tolist()], [])]
    for title, smooth in operators().items():
        value, weights = smooth.max_and_argmax(SCORES)
        cells = ["0" if weight == 0 else f"{weight:.3f}" for weight in weights.tolist()]
        rows.append((title, cells, [*map(str, _counts(weights)), f"{value.item():.3f}"]))
    if width is None or len(_line(*rows[0])) <= width:
        return _lines(rows)
    narrow: list[_Row] = [(title, cells, []) for title, cells, _ in rows]
    beside: list[_Row] = [(title, [], counts) for title, _, counts in rows if title != "scores"]
    return f"{_lines(narrow)}\n\n{_lines(beside, ruled=False)}"


def _lines(rows: list[_Row], *, ruled: bool = True) -> str:
    lines = [_line(*row) for row in rows]
    if ruled:
        lines.insert(2, "-" * len(lines[0]))
    return "\n".join(line.rstrip() for line in lines)


def _line(title: str, cells: list[str], rest: list[str]) -> str:
    return f"{title:<16}" + "".join(f"{cell:>6}" for cell in cells) + "".join(f"{cell:>9}" for cell in rest)


def _counts(weights: Tensor) -> tuple[int, int, int]:
    """Counts positions with weight, runs of neighbours with equal weight, and different weights; zeros do not count."""
    positive = weights > 0
    starts = positive & (weights != torch.nn.functional.pad(weights[:-1], (1, 0)))
    return int(positive.sum()), int(starts.sum()), int(weights[positive].unique().numel())


def draw(directory: Path) -> list[Path]:
    """Writes the pictures and returns their paths."""
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
