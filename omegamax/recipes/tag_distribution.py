"""What a tagger believes about one sentence: which sequences of tags are possible, and how likely each entity is.

The distribution belongs to the loss that the tagger was trained with (tagger_losses.py). All numbers are exact: sums
over all sequences of tags, by the recursion of the chain; only SparseMAP's are sums over the sequences that it chose.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.recipes.tagger_losses import CHAIN, TaggerLoss
from omegamax.spans import Span, TagReader, ranked_spans, span_probabilities
from omegamax.structures.chain import FactoredChain


class TagSequence(NamedTuple):
    """A sequence of tags."""

    tags: tuple[int, ...]
    probability: float
    score: float


class TagSequences(NamedTuple):
    """Sequences of tags, the first the likeliest or best."""

    sequences: list[TagSequence]
    complete: bool  # whether no other sequence has a probability


class TagDistribution:
    """The distribution over sequences of tags of one sentence.

    Arguments:
        potentials: of a chain without batch axes: emissions (N, C)
        loss: with which they were learned
        reader: which entities tags stand for
    """

    def __init__(self, potentials: FactoredChain, loss: TaggerLoss, reader: TagReader) -> None:
        self.potentials, self.loss, self.reader = potentials, loss, reader
        self._chosen: TagSequences | None = None

    def edges(self) -> Tensor:
        """Returns the expected pairs of neighbouring tags, (N, C, C)."""
        if self.loss.regularizer is None:
            n_tags, chosen = self.potentials.emissions.shape[-1], self._sparsemap().sequences
            each = CHAIN.from_tags(torch.tensor([sequence.tags for sequence in chosen]), n_tags)
            share = torch.tensor([sequence.probability for sequence in chosen])
            return torch.einsum("k,knij->nij", share, each).to(self.potentials.emissions)
        return CHAIN.argmax(_dense(self.potentials), self.loss.regularizer)

    def marginals(self) -> Tensor:
        """Returns how likely each tag of each word is, (N, C)."""
        if self.loss.regularizer is None:
            return self.edges().sum(-2)
        return CHAIN.argmax(self.potentials, self.loss.regularizer).emissions

    def entities(self, threshold: float, max_length: int) -> list[Span]:
        """Lists entities of at most `max_length` words with a probability above a threshold, the likeliest first."""
        if self.loss.regularizer is None:
            return self._entities_of_sequences(threshold)
        found = span_probabilities(self.potentials, self.reader, self.loss.regularizer, max_length=max_length)
        return ranked_spans(found, threshold=threshold)

    def ranked(self, limit: int) -> TagSequences:
        """Lists sequences with a probability above zero, the likeliest first; under Shannon the best ones."""
        regularizer = self.loss.regularizer
        if regularizer is None:
            found = self._sparsemap()
            return TagSequences(found.sequences[:limit], found.complete and len(found.sequences) <= limit)
        if not self.loss.sparse:
            return self.best(limit)
        support = CHAIN.support(self.potentials, regularizer, limit=limit)
        tags = CHAIN.tags(support.structures)
        return TagSequences(self._sequences(tags, support.probabilities), bool(support.complete))

    def best(self, k: int) -> TagSequences:
        """Lists the k sequences with the highest scores, the best first."""
        found = CHAIN.topk(self.potentials, k)
        tags = CHAIN.tags(found.structures)
        there = found.scores > -torch.inf
        probabilities = torch.tensor([self._probability(row) if ok else 0.0 for row, ok in zip(tags, there)])
        sequences = self._sequences(tags, probabilities, keep=there)
        return TagSequences(sequences, len(sequences) < k)

    def _probability(self, tags: Tensor) -> float:
        if self.loss.regularizer is None:
            known = {each.tags: each.probability for each in self._sparsemap().sequences}
            return known.get(tuple(tags.tolist()), 0.0)
        structure = CHAIN.factored_from_tags(tags, self.potentials.emissions.shape[-1])
        return float(CHAIN.log_prob(self.potentials, structure, self.loss.regularizer).exp())

    def _sequences(self, tags: Tensor, probabilities: Tensor, keep: Tensor | None = None) -> list[TagSequence]:
        keep = probabilities > 0 if keep is None else keep
        rows = zip(tags.tolist(), probabilities.tolist(), keep.tolist())
        return [TagSequence(tuple(row), p, self._score(row)) for row, p, ok in rows if ok]

    def _score(self, tags: list[int]) -> float:
        emissions, transitions, start, end = (part.double() for part in self.potentials)
        at = torch.tensor(tags, device=emissions.device)
        total = emissions[torch.arange(len(tags), device=at.device), at].sum() + start[at[0]] + end[at[-1]]
        return float(total + transitions[at[:-1], at[1:]].sum())

    def _sparsemap(self) -> TagSequences:
        if self._chosen is None:
            found = CHAIN.sparsemap(self.potentials)
            self._chosen = TagSequences(self._sequences(CHAIN.tags(found.structures), found.probabilities), True)
        return self._chosen

    def _entities_of_sequences(self, threshold: float) -> list[Span]:
        sums: dict[tuple[int, int, str], float] = {}
        for each in self._sparsemap().sequences:
            for span in self.reader.spans(each.tags):
                sums[span] = sums.get(span, 0.0) + each.probability
        found = [Span(*span, min(1.0, p)) for span, p in sums.items() if p > threshold]
        return sorted(found, key=lambda span: (-span.probability, span.start, span.end, span.type))


def best_tags(potentials: FactoredChain, lengths: Tensor) -> Tensor:
    """Returns the tags (B, N) of the sequences with the highest scores; −1 beyond the lengths."""
    return CHAIN.tags(CHAIN.map(potentials, lengths=lengths))


def of_sentence(potentials: FactoredChain, place: int, length: int) -> FactoredChain:
    """Returns the potentials of one sentence of a batch, without its padding."""
    return potentials._replace(emissions=potentials.emissions[place, :length])


def _dense(potentials: FactoredChain) -> Tensor:
    """Makes potentials (N, C, C), with the scores of the first and last tag added to its place."""
    emissions, transitions, start, end = potentials
    n_places = emissions.shape[0]
    pairs = torch.cat([start.expand(1, *transitions.shape), transitions.expand(n_places - 1, *transitions.shape)])
    last = torch.nn.functional.one_hot(torch.tensor(n_places - 1), n_places).to(emissions).unsqueeze(-1)
    return (emissions + torch.where(last > 0, end, 0)).unsqueeze(-2) + pairs
