"""Computes statements made in the conversation about the paper."""

from __future__ import annotations

import math

import torch

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, Row, at_least, at_most, finds, near, shown
from omegamax.reproductions.numerical_checks import normal


def dense_and_different(published: Published) -> Outcome:
    """Softmax gives every word some probability, and in general no two the same."""
    weights = om.softmax(normal(1000, 20, scale=3))
    equal = sum(row.unique().numel() < 20 for row in weights)
    sparse = om.sparsemax(normal(1000, 20, scale=3))
    return Outcome(
        [
            near("softmax: weights of exactly zero, of 20 000", 0, float((weights == 0).sum()), 0),
            near("softmax: rows with two equal weights, of 1000", 0, equal, 0),
            at_least("sparsemax: weights of exactly zero", 10_000, float((sparse == 0).sum())),
        ]
    )


def prominent_words(published: Published) -> Outcome:
    """Sparsemax peaks on one word only where that word leads by γ or more."""
    scores = normal(20_000, 10)
    lead = scores.topk(2).values
    margin = lead[:, 0] - lead[:, 1]
    alone = om.sparsemax(scores, gamma=0.8).amax(-1) == 1
    return Outcome(
        [
            at_least("least lead of a word that gets everything, γ = 0.8", 0.8, float(margin[alone].min())),
            at_most("largest lead of a word that does not", 0.8, float(margin[~alone].max())),
            finds(
                "rows where one word gets everything",
                "some",
                f"{100 * float(alone.double().mean()):.0f} %",
                bool(alone.any() and not alone.all()),
            ),
        ]
    )


def entropy_barrier(published: Published) -> Outcome:
    """Computes the negative entropy towards a corner and towards an edge of the simplex, and its slope there."""
    shannon = om.Shannon()
    rows: list[Row] = []
    for share in (1e-3, 1e-9, 1e-300):
        point = torch.tensor([1 - share, share], dtype=torch.float64)
        rows.append(at_most(f"Ω at ({share:g} from a corner)", -100, float(shannon.omega(point))))
    at_corner = float(shannon.omega(torch.tensor([1.0, 0.0], dtype=torch.float64)))
    rows.append(finds("Ω at the corner itself", "−∞", f"{at_corner:g}", at_corner == -math.inf))
    slopes = [float(torch.tensor(share, dtype=torch.float64).log() + 1) for share in (1e-3, 1e-9, 1e-300)]
    said = ", ".join(f"{slope:.0f}" for slope in slopes)
    rows.append(shown("∂Ω/∂p at p = 10⁻³, 10⁻⁹, 10⁻³⁰⁰: this does go to −∞", said))
    return Outcome(rows)


def chosen_groups(published: Published) -> Outcome:
    """Counts which groups of words the group lasso, as a penalty in the framework, selects as a whole."""
    groups = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    weights = om.groupmax(normal(5000, 9), groups=groups.tolist(), strength=0.4)
    selected = (weights > 0).reshape(5000, 3, 3)
    some, every = selected.any(-1), selected.all(-1)
    partly = float((some & ~every).sum() / some.sum())
    return Outcome(
        [
            near("groups with a selected word of which another word gets nothing (%)", 0, 100 * partly, 0),
            at_least("groups that get nothing at all (%)", 1, 100 * float((~some).double().mean())),
        ]
    )


def found_segments(published: Published) -> Outcome:
    """Fusedmax finds its segments by itself, and their weights are equal to the last bit."""
    block = torch.tensor([0.0, 0.9, 1.0, 0.95, 0.0, -0.5, 0.4, 0.45], dtype=torch.float64)
    weights = om.fusedmax(block, strength=0.2)
    row = weights.tolist()
    return Outcome(
        [
            finds(
                "scores 0, .9, 1, .95, 0, −.5, .4, .45 at λ = 0.2: the segment of weight",
                "found",
                ", ".join(f"{w:.4f}" for w in row),
                row[1] == row[2] == row[3] > 0,
            ),
            near("different bits within it", 0, len(set(row[1:4])) - 1, 0),
        ]
    )
