"""ROUGE: how much of a reference's words, pairs of words or longest common subsequence a summary has.

    precision = common / of the summary,   recall = common / of the reference,   F = 2 P R / (P + R)

All numbers are those of the package rouge-score with its defaults: words are runs of a to z and 0 to 9 in lower case,
without stemming. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from omegamax.extras import how_to_install

DUC_BYTES = 75  # of a summary, all that the evaluation of DUC 2004 looks at
_KINDS = {"rouge1": "rouge1", "rouge2": "rouge2", "rouge_l": "rougeL"}  # our names, and those of the package


def import_rouge() -> Any:
    """Imports the module of rouge-score that compares texts. Called before training, so that it is not missed after."""
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        raise ImportError(f"ROUGE needs rouge-score; {how_to_install('nlp')}") from None
    return rouge_scorer


def rouge_signature() -> str:
    """Returns how ROUGE is computed, with the version of the package."""
    import_rouge()
    return f"stemming: no|references: best|recalls: first {DUC_BYTES} bytes|rouge-score: {version('rouge-score')}"


def rouge_scores(summaries: Sequence[str], references: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    """Computes ROUGE of each summary, from 0 to 1: F of "rouge1", "rouge2" and "rouge_l", and recalls.

    F is that of the best reference. The recalls, such as "rouge1_recall_75", are those of the first 75 bytes of the
    summary, also for the best reference, which may be another one.

    Arguments:
        summaries: one for each source
        references: the texts that are right for each source, at least one

    >>> rouge_scores(["the cat sat"], [["a dog ran", "the cat ate"]])[0]["rouge1"]
    0.6666666666666666
    """
    scorer = import_rouge().RougeScorer(list(_KINDS.values()))
    found = []
    for summary, some in zip(summaries, references):
        whole = [scorer.score(reference, summary) for reference in some]
        cut = first_bytes(summary, DUC_BYTES)
        short = whole if cut == summary else [scorer.score(reference, cut) for reference in some]
        scores = {name: max(each[kind].fmeasure for each in whole) for name, kind in _KINDS.items()}
        for name, kind in _KINDS.items():
            scores[f"{name}_recall_{DUC_BYTES}"] = max(each[kind].recall for each in short)
        found.append(scores)
    return found


def mean_rouge(summaries: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Computes the means of `rouge_scores` over all summaries, each from 0 to 100.

    Arguments:
        summaries: one for each source
        references: the texts that are right for each source, at least one
    """
    return mean_scores(rouge_scores(summaries, references))


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of each entry, times 100; nothing for no scores."""
    return {name: 100 * sum(each[name] for each in scores) / len(scores) for name in (scores[0] if scores else ())}


def first_bytes(text: str, count: int) -> str:
    """Returns the beginning of a text that fits into so many bytes of UTF-8; a character is not divided."""
    return text.encode()[:count].decode(errors="ignore")
