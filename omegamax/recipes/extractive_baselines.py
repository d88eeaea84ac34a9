"""Summaries that copy one sentence of their source: what a model that writes has to be better than.

    lead-1   the first sentence
    random   any sentence: the mean over all of them, so that nothing is drawn
    oracle   the sentence with the highest ROUGE-1, which needs the references: no such summary can be much better

Cachola et al., "TLDR: extreme summarization of scientific documents", 2020, have these baselines for SciTLDR.
"""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.recipes.rouge import mean_scores, rouge_scores

BASELINES = ("lead-1", "random", "oracle")


def extractive_baselines(
    sources: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Computes ROUGE of lead-1, random and oracle, from 0 to 100.

    Arguments:
        sources: the sentences of each source, at least one
        references: the texts that are right for each source, at least one

    >>> sources = [["Cats sleep.", "Dogs run fast."]]
    >>> {name: scores["rouge1"] for name, scores in extractive_baselines(sources, [["Dogs run."]]).items()}
    {'lead-1': 0.0, 'random': 40.0, 'oracle': 80.0}
    """
    chosen: dict[str, list[dict[str, float]]] = {name: [] for name in BASELINES}
    for sentences, some in zip(sources, references):
        each = rouge_scores(sentences, [some] * len(sentences))
        chosen["lead-1"].append(each[0])
        chosen["random"].append({name: sum(one[name] for one in each) / len(each) for name in each[0]})
        chosen["oracle"].append(max(each, key=lambda scores: scores["rouge1"]))
    return {name: mean_scores(scores) for name, scores in chosen.items()}
