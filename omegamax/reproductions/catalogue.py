"""The table of all claims of all sources, in the order of the sources."""

from __future__ import annotations

from omegamax.reproductions import (
    conversation_claims,
    lecture_claims,
    lecture_experiments,
    paper_claims,
    paper_experiments,
    sparsemap_claims,
    tutorial_claims,
)
from omegamax.reproductions.claim import Claim

SOURCES = {
    "paper": "Niculae & Blondel, “A regularized framework for sparse and structured neural attention”, NIPS 2017",
    "tutorial": "Blondel, “Structured attention and differentiable dynamic programming”, tutorial, 2019",
    "sparsemap": "Niculae, Martins, Blondel & Cardie, “SparseMAP: differentiable sparse structured inference”, "
    "presentation, 2018",
    "lecture": "COMP547 Deep unsupervised learning, lecture 4, “Attention and memory”",
    "conversation": "NLP Highlights 51, a conversation with Vlad Niculae about the paper, 2018",
}

_TABLES = (
    paper_claims,
    paper_experiments,
    tutorial_claims,
    sparsemap_claims,
    lecture_claims,
    lecture_experiments,
    conversation_claims,
)
CLAIMS: dict[str, Claim] = {claim.id: claim for table in _TABLES for claim in table.CLAIMS}


def of_source(source: str) -> list[Claim]:
    """Returns the claims of one source, in order."""
    return [claim for claim in CLAIMS.values() if claim.source == source]
