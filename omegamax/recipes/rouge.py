"""ROUGE: how much of a reference's words, pairs of words or longest common subsequence a summary has.

    precision = common / of the summary,   recall = common / of the reference,   F = 2 P R / (P + R)

Words are runs of a to z and 0 to 9 in lower case, without stemming, as in the package rouge-score with its defaults. Of
several references the one with the best F counts, as in that package. Lin, "ROUGE: a package for automatic evaluation
of summaries", 2004.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

_WORD = re.compile(r"[a-z0-9]+")
DUC_BYTES = 75  # of a summary, all that the evaluation of DUC 2004 looks at


class Rouge(NamedTuple):
    """Precision, recall and their harmonic mean, from 0 to 1."""

    precision: float
    recall: float
    f: float


def rouge_words(text: str) -> list[str]:
    """Returns the words of a text that count.

    >>> rouge_words("The cat's 2 hats!")
    ['the', 'cat', 's', '2', 'hats']
    """
    return _WORD.findall(text.lower())


def rouge_n(summary: str, reference: str, n: int) -> Rouge:
    """Compares sequences of n words, as often as they occur.

    >>> rouge_n("the cat sat", "the cat ate", 1).f
    0.6666666666666666
    """
    counts = [Counter(zip(*(words[at:] for at in range(n)))) for words in map(rouge_words, (summary, reference))]
    return _rouge(sum((counts[0] & counts[1]).values()), *(sum(each.values()) for each in counts))


def rouge_l(summary: str, reference: str) -> Rouge:
    """Compares by the longest sequence of words that both have in this order, with others between them or not."""
    written, wanted = rouge_words(summary), rouge_words(reference)
    return _rouge(_longest_common(written, wanted), len(written), len(wanted))


def mean_rouge(summaries: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Computes the mean F of ROUGE-1, -2 and -L, and recalls of the first 75 bytes, each from 0 to 100.

    Arguments:
        summaries: one for each source
        references: the texts that are right for each source, at least one
    """
    kinds: dict[str, Callable[[str, str], Rouge]] = {
        "rouge1": lambda a, b: rouge_n(a, b, 1),
        "rouge2": lambda a, b: rouge_n(a, b, 2),
        "rouge_l": rouge_l,
    }
    scores = {}
    short = [_first_bytes(summary, DUC_BYTES) for summary in summaries]
    for name, compare in kinds.items():
        scores[name] = _mean([max(compare(a, b).f for b in some) for a, some in zip(summaries, references)])
    for name, compare in kinds.items():
        recalls = [max(compare(a, b).recall for b in some) for a, some in zip(short, references)]
        scores[f"{name}_recall_{DUC_BYTES}"] = _mean(recalls)
    return scores


def _rouge(n_common: int, n_summary: int, n_reference: int) -> Rouge:
    precision, recall = n_common / max(1, n_summary), n_common / max(1, n_reference)
    return Rouge(precision, recall, 2 * precision * recall / (precision + recall) if n_common else 0.0)


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """The table of all beginnings, one row at a time."""
    above = [0] * (len(b) + 1)
    for word in a:
        row = [0]
        for place, other in enumerate(b):
            row.append(above[place] + 1 if word == other else max(above[place + 1], row[place]))
        above = row
    return above[-1]


def _first_bytes(text: str, count: int) -> str:
    return text.encode()[:count].decode(errors="ignore")


def _mean(values: Sequence[float]) -> float:
    return 100 * sum(values) / max(1, len(values))
