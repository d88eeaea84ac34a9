"""How good a tagger is: F1 of entities, calibration of their probabilities, and how often one answer is left.

    precision = right / found,   recall = right / wanted,   F1 = 2 right / (found + wanted)

An entity is right if its first word, its last word and its type are (Tjong Kim Sang & De Meulder, CoNLL 2003); the
package seqeval finds the same numbers. The expected calibration error compares probabilities p with what came true:

    ECE = Σ over ten bins of (share of entities in the bin) · |mean of p in the bin − share of right ones in the bin|
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omegamax.spans import Span, choose_spans

Entity = tuple[int, int, str]  # first word, word after the last, type


THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)  # of probabilities of entities


class Bin(NamedTuple):
    """Entities of about the same probability."""

    n_entities: int
    probability: float  # their mean
    right: float  # the share of them that are right


def entity_f1(found: Sequence[Iterable[Entity]], wanted: Sequence[Iterable[Entity]]) -> dict[str, float]:
    """Computes F1, precision and recall of all entities, and F1 by type, each from 0 to 1.

    Arguments:
        found: predicted entities of each sentence
        wanted: gold entities of each sentence

    >>> entity_f1([[(0, 1, "person")]], [[(0, 1, "person"), (3, 4, "place")]])["f1"]
    0.6666666666666666
    """
    counts: dict[str, Counter[str]] = {"right": Counter(), "found": Counter(), "wanted": Counter()}
    for predicted, gold in zip(found, wanted):
        predicted, gold = set(predicted), set(gold)
        counts["found"].update(kind for *_, kind in predicted)
        counts["wanted"].update(kind for *_, kind in gold)
        counts["right"].update(kind for *_, kind in predicted & gold)
    right, n_found, n_wanted = (sum(counts[name].values()) for name in ("right", "found", "wanted"))
    scores = {
        "f1": 2 * right / max(1, n_found + n_wanted),
        "precision": right / max(1, n_found),
        "recall": right / max(1, n_wanted),
    }
    for kind in sorted(counts["wanted"] | counts["found"]):
        either = counts["found"][kind] + counts["wanted"][kind]
        scores[f"f1_{kind}"] = 2 * counts["right"][kind] / max(1, either)
    return scores


def best_f1_threshold(likely: Sequence[list[Span]], wanted: Sequence[Iterable[Entity]]) -> float:
    """Returns the threshold with the highest F1 of the entities whose probability is above it.

    It needs the gold entities, so it is chosen on the dev data. Of several the smallest is returned.

    Arguments:
        likely: ranked entities of each sentence with their probabilities
        wanted: its gold entities

    >>> best_f1_threshold([[Span(0, 1, "place", 0.3), Span(2, 3, "place", 0.04)]], [[(0, 1, "place")]])
    0.05
    """
    gold = [set(spans) for spans in wanted]

    def f1(threshold: float) -> float:
        return entity_f1([{span[:3] for span in choose_spans(spans, threshold)} for spans in likely], gold)["f1"]

    return max(THRESHOLDS, key=f1)  # the first of several


def reliability(pairs: Iterable[tuple[float, bool]], *, n_bins: int = 10) -> list[Bin]:
    """Groups probabilities into bins of equal width; bins without entities are left out.

    Arguments:
        pairs: the probability of each entity, and whether it is right
        n_bins: how many bins there are between 0 and 1
    """
    groups: dict[int, list[tuple[float, bool]]] = {}
    for probability, right in pairs:
        groups.setdefault(min(n_bins - 1, int(probability * n_bins)), []).append((probability, right))
    return [
        Bin(len(group), sum(p for p, _ in group) / len(group), sum(right for _, right in group) / len(group))
        for _, group in sorted(groups.items())
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Computes the expected calibration error of `bins`, from 0 to 1.

    >>> calibration_error(reliability([(0.9, True), (0.9, False)]))
    0.4
    """
    total = max(1, sum(each.n_entities for each in bins))
    return sum(each.n_entities * abs(each.probability - each.right) for each in bins) / total
