"""Searches for the outputs of a sequence model: beam search with penalties of length and coverage, n best with scores.

    score(y) = log p(y | x) / |y|^α + β Σ_k log min(Σ_t p_tk, 1)

α makes up for the shortness that sums of log-probabilities prefer; β costs a source token that got little attention in
all steps together (Wu et al., "Google's neural machine translation system", 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.data.vocabulary import END, START
from omegamax.models.beam_search import beam_search
from omegamax.models.sequence_model import SequenceModel, repeat_rows

_LEAST_COVERAGE = 1e-3  # so that a token without any attention costs β log 1000 and not everything


class Hypothesis(NamedTuple):
    """An output and its score."""

    tokens: list[int]  # without the end token
    ended: bool  # False where it was cut at the largest length
    score: float


class SearchResult(NamedTuple):
    """The outputs for one source, best first."""

    hypotheses: list[Hypothesis]
    complete: bool  # every output of non-zero probability was looked at
    optimal: bool  # the first one is proved to be the best

    @property
    def best(self) -> Hypothesis:
        """Returns the best output; an empty one where none has a score, as of a model whose numbers are NaN."""
        return self.hypotheses[0] if self.hypotheses else Hypothesis([], True, -math.inf)


class _State(NamedTuple):
    coverage: Tensor  # (rows, K): the attention that each source token got so far
    decoder: Any


def search_outputs(
    model: SequenceModel,
    source: Tensor,
    lengths: Tensor,
    *,
    n_beams: int,
    max_length: int,
    length_penalty: float = 1.0,
    coverage_penalty: float = 0.0,
    forbidden: Sequence[int] = (),
) -> list[SearchResult]:
    """Finds the best outputs of the model for each source; one beam is greedy search.

    An output after which only forbidden tokens have a probability ends there.

    Arguments:
        model: in eval mode
        source: tokens (B, K), frames (B, K, H, W), or a picture of K rows (B, K, W)
        lengths: how many tokens or frames each source has, (B,), or rows and columns of each picture, (B, 2)
        n_beams: how many hypotheses are kept
        max_length: how many tokens an output has at most
        length_penalty: α
        coverage_penalty: β
        forbidden: tokens that no output has
    """
    encoded = model.encode(source, lengths)
    repeated = repeat_rows(encoded, n_beams)
    counts = lengths.to(source.device).reshape(len(source), -1)[:, :1]
    there = torch.arange(source.shape[1], device=source.device) < counts
    beyond = repeat_rows(~there, n_beams)
    excluded = torch.tensor(list(forbidden), dtype=torch.long, device=source.device)

    def step(token: Tensor, state: _State) -> tuple[Tensor, _State]:
        log_probs, decoder, weights = model.step(token, state.decoder, repeated)
        log_probs = log_probs.index_fill(-1, excluded, -torch.inf)
        stuck = (log_probs == -torch.inf).all(-1)  # a sparse output may give forbidden tokens all of its probability
        log_probs[:, END] = torch.where(stuck, 0, log_probs[:, END])
        coverage = state.coverage if weights is None else state.coverage + weights
        return log_probs, _State(coverage, decoder)

    def penalty(state: _State) -> Tensor:
        covered = torch.where(beyond, 1, state.coverage).clamp(_LEAST_COVERAGE, 1)
        return coverage_penalty * covered.log().sum(-1)

    found = beam_search(
        step,
        _State(torch.zeros_like(there, dtype=torch.float32), model.start(encoded)),
        n_items=len(source),
        n_beams=n_beams,
        start=START,
        end=END,
        max_length=max_length,
        length_penalty=length_penalty,
        penalty=penalty if coverage_penalty else None,
    )
    rows = zip(*(part.tolist() for part in (found.tokens, found.lengths, found.scores, found.complete, found.optimal)))
    return [
        SearchResult(
            [
                Hypothesis(tokens[:length], length < max_length, score)
                for tokens, length, score in zip(*best)
                if score > -torch.inf
            ],
            complete,
            optimal,
        )
        for *best, complete, optimal in rows
    ]
