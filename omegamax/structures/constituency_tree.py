"""Constituency trees: binary trees over N words, every span with a label (CKY).

    potentials (..., N, N, L): [i, j, l] scores the span of words i..j (both included, i ≤ j) with label l
    unlabelled scores (..., N, N) become potentials of one label by `ConstituencyTree.from_scores`

Only i ≤ j is read. A binary tree over n words has 2n − 1 spans: each word, the sentence, and n − 2 between them; each
of them takes exactly one label. A structure is 0/1 in the same shape, one cell [i, j, l] per span. There are
Catalan(n − 1) · L^(2n − 1) of them. The recursion runs bottom up, with two local problems per span: first its split,
then its label, so that the labels of a span compete with each other only:

    s[i, j] = max_Ω over i ≤ k < j of (v[i, k] + v[k + 1, j]),   s[i, i] = 0
    v[i, j] = max_Ω over l of (θ[i, j, l] + s[i, j])

Under Shannon `max` is the log-partition of a tree CRF. Ties go to the leftmost split and to the lowest label.
Stern, Andreas & Klein, ACL 2017; Mensch & Blondel, ICML 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.inference.hypergraphs.tree_program import tree_program
from omegamax.inference.program import Program
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle
from omegamax.kernels.structures.trees import CONSTITUENCY, OMEGAS
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.plain_lists import plain_lists
from omegamax.structures.problem import Problem, Sizes

Span = tuple[int, int, int]  # first word, last word, label


@dataclass(frozen=True)
class ConstituencyTree(DynamicProgram):
    """Binary trees with labelled spans, over N words. Under Shannon `argmax` is inside–outside.

    >>> scores = torch.zeros(3, 3, 1)
    >>> scores[0, 1] = 1.0
    >>> tree = ConstituencyTree()
    >>> tree.spans(tree.map(scores))
    [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 1, 0), (2, 2, 0)]
    """

    event_ndim = 3
    compiled_omegas = OMEGAS

    @staticmethod
    def from_scores(scores: Tensor) -> Tensor:
        """Makes potentials (..., N, N, 1) from scores of spans without labels (..., N, N)."""
        return scores.unsqueeze(-1)

    @staticmethod
    def spans(structure: Tensor) -> list[Any]:
        """Lists the spans (i, j, label) of a structure, ordered; nested lists where there are axes before (N, N, L)."""
        if structure.dim() > 3:
            return [ConstituencyTree.spans(each) for each in structure]
        return [tuple(span) for span in (structure > 0.5).nonzero().tolist()]

    @staticmethod
    def from_spans(spans: Sequence[Any], n_words: int, n_labels: int, *, dtype: Any = None) -> Tensor:
        """Makes a structure (n_words, n_words, n_labels), 0/1, from the spans (i, j, label) of one tree.

        A list of such lists gives a batch; a tree may be shorter than n_words. Raises for what is no binary tree.
        """
        spans = plain_lists(spans)
        if spans and not (spans[0] and isinstance(spans[0][0], int)):
            each = [ConstituencyTree.from_spans(one, n_words, n_labels, dtype=dtype) for one in spans]
            return torch.stack(each)
        _check_binary([(int(i), int(j), int(label)) for i, j, label in spans], n_words, n_labels)
        structure = torch.zeros(n_words, n_words, n_labels, dtype=dtype)
        for i, j, label in spans:
            structure[i, j, label] = 1
        return structure

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating("ConstituencyTree", potentials)
        n_words = potentials.shape[-2] if potentials.dim() > 1 else 0
        checks.check_event("ConstituencyTree", "potentials", potentials, (n_words, n_words, None), "(..., N, N, L)")
        return ((potentials, 3),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the leaf under every word; then v of every span, by i and then j; then s of the longer ones."""
        n, _, n_labels = sizes[0]
        place = np.arange(n)
        i, j = np.nonzero(place[:, None] <= place)
        labelled = np.zeros((n, n), dtype=np.int64)
        labelled[i, j] = 1 + np.arange(len(i))
        longer = i < j
        split = np.zeros((n, n), dtype=np.int64)  # a word has no split: the leaf
        split[i[longer], j[longer]] = 1 + len(i) + np.arange(longer.sum())
        levels = np.concatenate([[0], 2 * (j - i) + 1, 2 * (j - i)[longer]])

        first, last, k = np.nonzero((place[:, None, None] <= place) & (place < place[:, None]))
        heads = np.concatenate([split[first, last], np.repeat(labelled[i, j], n_labels)])
        left = np.concatenate([labelled[first, k], np.repeat(split[i, j], n_labels)])
        right = np.concatenate([labelled[k + 1, last], np.full(len(i) * n_labels, -1)])
        part = ((i * n + j) * n_labels)[:, None] + np.arange(n_labels)
        parts = np.concatenate([np.full(len(k), -1), part.ravel()])
        topology = Topology.from_edges(levels, heads, np.stack([left, right], 1), leaves=[0])
        return Lattice.from_parts(topology, [parts], [n * n * n_labels])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the span (0, n − 1), which is number n, because the spans of word 0 come first."""
        return lengths[0]

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        return CONSTITUENCY.oracle(problem.sizes[0][0], problem.lengths[0], option=problem.sizes[0][2])

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        option = problem.sizes[0][2]
        return tree_program(CONSTITUENCY, option, problem.parts, problem.lengths[0], omega)


def _check_binary(spans: list[Span], n_words: int, n_labels: int) -> None:
    """Checks that every span but a word consists of two others, side by side."""
    bounds = {(i, j) for i, j, _ in spans}
    length = 1 + max((j for _, j in bounds), default=-1)
    inside = all(0 <= i <= j < n_words and 0 <= label < n_labels for i, j, label in spans)
    needed: set[tuple[int, int]] = set()
    stack = [(0, length - 1)]
    while inside and stack:
        i, j = stack.pop()
        needed.add((i, j))
        if i < j:
            k = next((k for k in range(i, j) if (i, k) in bounds and (k + 1, j) in bounds), i)
            stack += [(i, k), (k + 1, j)]
    if not spans or not inside or len(spans) != len(bounds) or needed != bounds:
        raise ValueError(
            f"ConstituencyTree.from_spans: spans must be those of a binary tree over at most {n_words} words, each "
            f"once and with a label below {n_labels}, got {spans}; list the words and the sentence too"
        )
