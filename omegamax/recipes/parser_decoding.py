"""From scores to trees: the best tree of a sentence, its relations, probabilities, and lists of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.data.conllu import ConlluSentence
from omegamax.models.biaffine import BiaffineParser, WordStates
from omegamax.recipes.parser_losses import (
    SPARSEMAP_LOSSES,
    TreeList,
    arc_probabilities,
    best_trees,
    kept_trees,
    sparse_trees,
    structure_of,
)
from omegamax.recipes.parser_metrics import PredictedTree
from omegamax.recipes.parser_output import Parse, RankedTree
from omegamax.recipes.settings import ParserPrediction
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.dependency import DependencyTrees
from omegamax.structures.projective_tree import ProjectiveTree


class _Best(NamedTuple):
    states: WordStates
    heads: Tensor  # (B, N); −1 beyond the length
    relations: list[list[str]]


@dataclass(frozen=True)
class ParserDecoder:
    """Chooses trees and relations.

    Arguments:
        loss: the name of the loss of training, which defines probabilities
        decoding: "projective", "nonprojective", or "auto" for the trees of the loss
        relations: in the order of their scores
        root_relations: those that training had at the root
        temperature: what scores of arcs are divided by
    """

    loss: str
    decoding: str
    relations: tuple[str, ...]
    root_relations: tuple[str, ...]
    temperature: float = 1.0

    @property
    def structure(self) -> DependencyTrees:
        """Returns the trees among which the best is chosen."""
        if self.decoding == "auto":
            return structure_of(self.loss)
        return ProjectiveTree() if self.decoding == "projective" else Arborescence()

    def predict(
        self, model: BiaffineParser, inputs: tuple[Any, ...], examples: Sequence[ConlluSentence]
    ) -> list[PredictedTree]:
        """Finds the best tree of each sentence, and under SparseMAP the number of trees that are kept.

        Arguments:
            model: in eval mode
            inputs: words, pieces, tags and lengths of a batch
            examples: its sentences
        """
        best = self._best(model, inputs)
        n_trees = [0] * len(examples)
        if self.loss in SPARSEMAP_LOSSES:
            n_trees = (kept_trees(best.states.arcs, inputs[-1]).probabilities > 0).sum(-1).tolist()
        rows = zip(examples, best.heads.tolist(), best.relations, n_trees)
        return [PredictedTree(heads[: len(s.forms)], names[: len(s.forms)], n) for s, heads, names, n in rows]

    def parse(
        self,
        model: BiaffineParser,
        inputs: tuple[Any, ...],
        examples: Sequence[ConlluSentence],
        wanted: ParserPrediction,
    ) -> list[Parse]:
        """Finds the best tree of each sentence, and what else is wanted.

        Arguments:
            model: in eval mode
            inputs: words, pieces, tags and lengths of a batch
            examples: its sentences
            wanted: whether to compute probabilities or lists of trees
        """
        best, lengths = self._best(model, inputs), inputs[-1]
        scores = best.states.arcs
        arcs = arc_probabilities(self.loss, scores, lengths).cpu() if wanted.probabilities else None
        ranked: list[tuple[RankedTree, ...]] = [()] * len(examples)
        if wanted.trees:
            ranked = self._ranked(model, best.states, sparse_trees(self.loss, scores, lengths))
        elif wanted.k_best:
            ranked = self._ranked(model, best.states, best_trees(self.structure, scores, lengths, wanted.k_best))
        found = []
        for number, example in enumerate(examples):
            n = len(example.forms)
            of_arcs = None if arcs is None else arcs[number, : n + 1, : n + 1]
            heads, names = tuple(best.heads[number, :n].tolist()), tuple(best.relations[number][:n])
            found.append(Parse(example.forms, heads, names, of_arcs, ranked[number], example))
        return found

    def _best(self, model: BiaffineParser, inputs: tuple[Any, ...]) -> _Best:
        states = model.states(*inputs)
        states = states._replace(arcs=states.arcs / self.temperature)
        heads = self.structure.heads(self.structure.map(states.arcs, lengths=inputs[-1]))
        return _Best(states, heads, self._relations(model, states, heads))

    def _relations(self, model: BiaffineParser, states: WordStates, heads: Tensor) -> list[list[str]]:
        """Chooses the relation of each arc, for arcs of the root among those that training had there.

        If that was a single one, such as `root`, no other arc gets it.
        """
        scores = model.labels(states, heads)
        of_root = torch.tensor([name in self.root_relations for name in self.relations], device=scores.device)
        if bool(of_root.any()) and not bool(of_root.all()):
            elsewhere = ~of_root if len(self.root_relations) == 1 else torch.ones_like(of_root)
            allowed = torch.where((heads == 0).unsqueeze(-1), of_root, elsewhere)
            scores = scores.masked_fill(~allowed, -torch.inf)
        return [[self.relations[number] for number in row] for row in scores.argmax(-1).tolist()]

    def _ranked(self, model: BiaffineParser, states: WordStates, found: TreeList) -> list[tuple[RankedTree, ...]]:
        relations = [self._relations(model, states, found.heads[:, at]) for at in range(found.heads.shape[1])]
        arcs = states.arcs[:, :, 1:].gather(1, found.heads.clamp(min=0))  # (B, trees, N)
        scores = torch.where(found.heads >= 0, arcs, 0).sum(-1).tolist()
        lists = []
        for item, there in enumerate(found.there.tolist()):
            ranked = []
            for at in [at for at, is_tree in enumerate(there) if is_tree]:
                heads = tuple(head for head in found.heads[item, at].tolist() if head >= 0)
                known = None if found.probabilities is None else float(found.probabilities[item, at])
                ranked.append(RankedTree(heads, tuple(relations[at][item][: len(heads)]), known, scores[item][at]))
            lists.append(tuple(ranked))
        return lists
