"""Metrics that compare predicted texts with their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from omegamax.extras import how_to_install
from omegamax.structures.edit_distance import edit_distance

_BATCH = 256  # pairs of about the same length at a time
_CELLS = 1 << 26  # of the tables of a batch


def exact_match(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """Returns the share of predictions that equal their target."""
    return sum(map(str.__eq__, predictions, targets)) / max(1, len(targets))


def import_sacrebleu() -> Any:
    """Imports the package that computes BLEU. Called before training, so that it is not missed after an epoch."""
    try:
        import sacrebleu
    except ImportError:
        raise ImportError(f"BLEU needs sacrebleu; {how_to_install('nlp')}") from None
    return sacrebleu


def corpus_bleu(predictions: Sequence[str], targets: Sequence[str], *, tokenize: str = "13a") -> float:
    """Returns the BLEU of all predictions by sacrebleu, from 0 to 100; `tokenize` is "13a" (words), "char", ..."""
    # Orders of n-grams for which no output is long enough are left out: otherwise one-word texts would all score 0.
    score = import_sacrebleu().corpus_bleu(
        list(predictions), [list(targets)], tokenize=tokenize, force=True, use_effective_order=True
    )
    return float(score.score)


class TranslationScores(NamedTuple):
    """BLEU and chrF of a whole text, from 0 to 100, and the signatures that say how they were computed."""

    bleu: float
    chrf: float
    signatures: dict[str, str]


def translation_scores(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> TranslationScores:
    """Computes corpus BLEU and chrF by sacrebleu, as they are reported for translation.

    Arguments:
        predictions: one text for each source
        references: the texts that are right for each source, at least one
    """
    sacrebleu = import_sacrebleu()
    most = max(map(len, references), default=1)
    # sacrebleu takes a list of the first references of all sources, another of the second ones; None stands for none.
    columns = [[each[place] if place < len(each) else None for each in references] for place in range(most)]
    bleu, chrf = sacrebleu.BLEU(force=True), sacrebleu.CHRF()
    found = [float(metric.corpus_score(list(predictions), columns).score) for metric in (bleu, chrf)]
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return TranslationScores(found[0], found[1], signatures)


def edit_distances(predictions: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[int]:
    """Counts insertions, deletions and substitutions of items (characters of a string, or tokens) for each pair.

    >>> edit_distances(["kitten", "same"], ["sitting", "same"])
    [3, 0]
    """
    distances = [0] * len(targets)
    differ = [place for place in range(len(targets)) if predictions[place] != targets[place]]
    differ.sort(key=lambda place: len(targets[place]))
    numbers: dict[str, int] = {}
    for places in _batches(differ, [max(len(a), len(b)) for a, b in zip(predictions, targets)]):
        sides = [_padded([side[place] for place in places], numbers) for side in (predictions, targets)]
        (a, n_a), (b, n_b) = sides
        for place, distance in zip(places, edit_distance(a, b, lengths=(n_a, n_b)).tolist()):
            distances[place] = round(distance)
    return distances


def _batches(places: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Groups places in order, so that a table for each pair of a group fits into memory."""
    batch: list[int] = []
    longest = 0
    for place in places:
        widest = max(longest, lengths[place])
        if batch and (len(batch) == _BATCH or (len(batch) + 1) * widest**2 > _CELLS):
            yield batch
            batch, widest = [], lengths[place]
        batch.append(place)
        longest = widest
    if batch:
        yield batch


def _padded(texts: Sequence[Sequence[str]], numbers: dict[str, int]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.tensor([numbers.setdefault(item, len(numbers)) for item in text]) for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    longest = max(1, int(lengths.max()))
    return torch.stack([torch.nn.functional.pad(row.long(), (0, longest - len(row))) for row in rows]), lengths
