"""Generated reports of a few sentences, one of which matters, and the summary: that sentence without adjectives.

    a king sees the red boat . note that the old fox does not find a small bird . every cloud hides the house .
    → the fox does not find a bird

The marked sentence stands anywhere. So a summary is a selection of source words in their order, and attention shows it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from omegamax.data.small_language import ADJECTIVES, draw_clause

_MARK = ("note", "that")


class Report(NamedTuple):
    """A report and its summary."""

    source: str
    target: str


def generate_reports(count: int, split: str, *, seed: int = 0) -> Iterator[Report]:
    """Draws reports; those of the splits "train", "dev" and "test" are drawn independently of each other.

    Arguments:
        count: how many
        split: names the stream of random numbers
        seed: of all splits

    >>> report = next(generate_reports(1, "train"))
    >>> set(report.target.split()) <= set(report.source.split())
    True
    """
    draw = random.Random(f"small reports/{seed}/{split}")
    for _ in range(count):
        clauses = [draw_clause(draw)[0] for _ in range(draw.randint(2, 4))]
        marked = draw.randrange(len(clauses))
        sentences = [[*(_MARK if place == marked else ()), *words, "."] for place, words in enumerate(clauses)]
        summary = [word for word in clauses[marked] if word not in ADJECTIVES]
        yield Report(" ".join(word for sentence in sentences for word in sentence), " ".join(summary))
