"""Context-free grammars: derivations of a sentence by weighted rules A → B C over tagged words (inside–outside).

    root  (..., NT)                  scores of the nonterminal at the top
    rules (..., NT, NT + T, NT + T)  [A, B, C] scores A → B C; symbols NT.. are terminals (tags of words)
    terms (..., N, T)                [n, t] scores word n with tag t

Scores are log-probabilities, or any numbers. Every word takes a tag, every longer span a nonterminal (Chomsky's
normal form: over one word stand terminals only, over more words nonterminals only), so a sentence of one word has no
derivation and the value −inf. The recursion runs bottom up, with one local problem per span and nonterminal:

    v[i, i, NT + t] = terms[i, t]
    v[i, j, A] = max_Ω over i ≤ k < j, B, C of (rules[A, B, C] + v[i, k, B] + v[k + 1, j, C])
    value = max_Ω over A of (root[A] + v[0, n − 1, A])

A structure counts in the same three shapes how often each is used. Counts of rules do not determine a tree: different
derivations may share them, and `topk`, `support` and `enumerate` list derivations. `trees` and `sample_trees` give the
derivations themselves. Lari & Young, Computer Speech and Language 1990; Huang & Chiang, IWPT 2005 (k best).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.kbest import Ranking
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.random_walk import walk
from omegamax.inference.hypergraphs.sweeps import inside
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.not_numbers import has_bad_scores
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.smoothing import count_samples

_SHANNON = Shannon()


class Grammar(NamedTuple):
    """Potentials of a context-free grammar on a sentence, and expected counts in the same form."""

    root: Tensor  # (..., NT)
    rules: Tensor  # (..., NT, NT + T, NT + T)
    terms: Tensor  # (..., N, T)


class Parse(NamedTuple):
    """One derivation of one sentence."""

    spans: list[tuple[int, int, int]]  # first word, last word, symbol (terminals from NT on), ordered
    score: float


@dataclass(frozen=True)
class Pcfg(DynamicProgram):
    """Derivations of a sentence of N words; potentials are a `Grammar`. A mask is one of the root.

    >>> grammar = Grammar(torch.zeros(1), torch.zeros(1, 2, 2), torch.zeros(4, 1))
    >>> Pcfg().count(grammar)  # one nonterminal, one tag: the binary trees over four words
    5
    >>> (parse,) = Pcfg().trees(grammar)
    >>> parse.spans
    [(0, 0, 1), (0, 3, 0), (1, 1, 1), (1, 3, 0), (2, 2, 1), (2, 3, 0), (3, 3, 1)]
    """

    event_ndim = 1

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if not isinstance(potentials, Grammar):
            raise TypeError(
                f"Pcfg: potentials must be a Grammar, got {type(potentials).__name__}; use "
                "om.Grammar(root, rules, terms)"
            )
        root, rules, terms = potentials
        checks.check_event("Pcfg", "root", root, (None,), "(..., NT)")
        checks.check_event("Pcfg", "terms", terms, (None, None), "(..., N, T)")
        n_symbols = root.shape[-1] + terms.shape[-1]
        event = (root.shape[-1], n_symbols, n_symbols)
        checks.check_event("Pcfg", "rules", rules, event, "(..., NT, NT + T, NT + T)")
        return (root, 1), (rules, 3), (terms, 2)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[2][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the leaf; then N ends, one per length; then tags of words; then nonterminals of longer spans."""
        (nt,), (_, n_symbols, _), (n, n_tags) = sizes
        nodes = _nodes(sizes)
        number = {True: 1 + n, False: 1 + n + n * n_tags}  # the first node of tags, of nonterminals
        place = np.arange(n)
        longer = np.zeros((n, n), dtype=np.int64)
        longer[np.nonzero(place[:, None] < place)] = np.arange(n * (n - 1) // 2)

        def over(i: np.ndarray, j: np.ndarray, symbol: np.ndarray, tags: bool) -> np.ndarray:
            return number[True] + i * n_tags + symbol if tags else number[False] + longer[i, j] * nt + symbol

        i, j, k = np.nonzero((place[:, None, None] <= place) & (place < place[:, None]))
        columns = []  # head, left tail, right tail, rule, and k: the order of edges into one head
        for left_tag in (True, False):
            for right_tag in (True, False):
                here = ((k == i) == left_tag) & ((k + 1 == j) == right_tag)
                n_left, n_right = n_tags if left_tag else nt, n_tags if right_tag else nt
                symbols = np.meshgrid(np.arange(nt), np.arange(n_left), np.arange(n_right), indexing="ij")
                a, b, c = (symbol.reshape(1, -1) for symbol in symbols)
                first, split, last = i[here, None], k[here, None], j[here, None]
                rule = (a * n_symbols + b + nt * left_tag) * n_symbols + c + nt * right_tag
                tails = over(first, split, b, left_tag), over(split + 1, last, c, right_tag)
                found = np.broadcast_arrays(over(first, last, a, False), *tails, rule, split)
                columns.append(np.stack([column.ravel() for column in found]))
        heads, left, right, rule, split = np.concatenate(columns, 1)
        order = np.lexsort((rule, split, heads))
        heads, left, right, rule = heads[order], left[order], right[order], rule[order]

        tag = np.arange(n * n_tags)
        length = np.repeat(np.arange(2, n + 1), nt)
        top = np.tile(np.arange(nt), n - 1)
        none = np.full
        heads = np.concatenate([1 + n + tag, heads, length])
        left = np.concatenate([0 * tag, left, over(0 * length, length - 1, top, False)])
        right = np.concatenate([none(len(tag), -1), right, none(len(top), -1)])
        levels = np.concatenate([[0], np.arange(1, n + 1) + n, (nodes[:, 1] - nodes[:, 0] + 1)[1 + n :]])
        topology = Topology.from_edges(levels, heads, np.stack([left, right], 1), leaves=[0])
        n_rules = len(rule)
        parts = [
            np.concatenate([none(len(tag) + n_rules, -1), top]),
            np.concatenate([none(len(tag), -1), rule, none(len(top), -1)]),
            np.concatenate([tag, none(n_rules + len(top), -1)]),
        ]
        return Lattice.from_parts(topology, parts, [nt, nt * n_symbols**2, n * n_tags])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its length."""
        return lengths[0]

    @torch.no_grad()
    def trees(self, potentials: Grammar, k: int = 1, *, lengths: Any = None, mask: Any = None) -> Any:
        """Lists the k best derivations, best first: a list of `Parse`, shorter where there are fewer.

        There is one list per item.
        """
        checks.check_count("Pcfg.trees", "k", k)
        problem = self.bind(potentials, lengths, mask)
        ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
        found = []
        wrong = has_bad_scores(problem, ranking.values).tolist()
        for item in range(problem.n_items):
            if wrong[item]:
                found.append([Parse([], float("nan"))] * k)
                continue
            ranked = ranking.top(item, k)
            listed = np.split(ranked.edges, np.cumsum(ranked.sizes)[:-1])
            found.append([Parse(_spans(problem, e), float(score)) for e, score in zip(listed, ranked.scores)])
        return problem.as_list(found)

    @torch.no_grad()
    def sample_trees(
        self,
        potentials: Grammar,
        regularizer: SmoothMax | int = _SHANNON,
        *,
        n_samples: int | None = None,
        generator: torch.Generator | None = None,
        lengths: Any = None,
        mask: Any = None,
    ) -> Any:
        """Draws derivations, distributed as those of `sample`: `n_samples` of `Parse`, one list per item."""
        regularizer, n_samples = count_samples("Pcfg.sample_trees", regularizer, n_samples)
        given = self.bind(potentials, lengths, mask)
        problem, omega = self._bind(potentials, regularizer, lengths, mask)
        topology = problem.lattice.topology
        sweep = inside(topology, problem.scores_of_edges(), omega)
        wrong = has_bad_scores(problem, sweep.values).tolist()
        drawn = walk(topology, sweep.backpointers, problem.goals, n_samples, generator)
        scores = given.scores_of_edges()
        found: list[list[Parse]] = [[] for _ in range(problem.n_items)]
        listed = np.split(drawn.edges, drawn.sizes.cumsum()[:-1])
        for number, edges in zip(range(n_samples * problem.n_items), listed):  # an empty array splits into one
            item = number % problem.n_items
            if wrong[item]:
                found[item].append(Parse([], float("nan")))
            elif len(edges):
                found[item].append(Parse(_spans(problem, edges), float(scores[item, torch.from_numpy(edges)].sum())))
        return problem.as_list(found)


def _nodes(sizes: Sizes) -> np.ndarray:
    """Returns first word, last word and symbol of every node of the description, (nodes, 3).

    The leaf and the ends have −1.
    """
    (nt,), _, (n, n_tags) = sizes
    place = np.arange(n)
    first, last = np.nonzero(place[:, None] < place)
    words, tags = np.repeat(place, n_tags), nt + np.tile(np.arange(n_tags), n)
    spans = np.stack([np.repeat(first, nt), np.repeat(last, nt), np.tile(np.arange(nt), len(first))], 1)
    return np.concatenate([np.full((1 + n, 3), -1), np.stack([words, words, tags], 1), spans])


def _spans(problem: Problem, edges: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns what the heads of these edges stand for."""
    topology = problem.lattice.topology
    heads = topology.heads()[torch.tensor(edges)]
    described = torch.argsort(topology.node_number)[heads].numpy()
    found = _nodes(problem.sizes)[described]
    return sorted((int(i), int(j), int(symbol)) for i, j, symbol in found if i >= 0)
