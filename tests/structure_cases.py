"""THE TABLE of structures: potentials, all members by brute force, and the recursion once more in plain Python.

A row's `members` knows nothing of hypergraphs: it lists the structures from their definition. Its `recursion` writes
the dynamic program down as a textbook does, over a `smooth_max` of a list of numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om

Parts = tuple[np.ndarray, ...]  # the components of one item's potentials, or of one structure


@dataclass(frozen=True, eq=False)
class StructureCase:
    name: str
    structure: om.Structure
    draw: Callable[[torch.Generator, int], Any]  # (generator, batch) -> float64 potentials
    members: Callable[..., list[Parts]]  # (parts of one item, *its lengths) -> every structure
    recursion: Callable[..., float]  # (smooth_max, parts of one item, *its lengths) -> DP_Ω
    n_members: Callable[..., int] | None  # (*lengths) -> the closed form; None where it depends on more
    lengths: Sequence[tuple[int, ...]]  # one tuple per item of the batch; () where the structure has no lengths
    largest_degree: int  # of a node, for the bounds
    most_heads: int  # nodes in one derivation, for the bounds
    needs_first: bool = True  # without the parts of the first component there is no structure left

    def __str__(self) -> str:
        return self.name

    def potentials(self, seed: int = 0) -> Any:
        return self.draw(torch.Generator().manual_seed(seed), len(self.lengths))

    def options(self) -> dict[str, Any]:
        """The keyword `lengths`, where the structure has any."""
        n_axes = len(self.lengths[0])
        if n_axes == 0:
            return {}
        tensors = tuple(torch.tensor(axis) for axis in zip(*self.lengths))
        return {"lengths": tensors[0] if n_axes == 1 else tensors}


def parts_of(potentials: Any) -> tuple[Tensor, ...]:
    """The tensors that make up potentials, or weights."""
    return (potentials,) if isinstance(potentials, Tensor) else tuple(potentials)


def like(potentials: Any, parts: Sequence[Tensor]) -> Any:
    """Tensors as the type of the potentials."""
    return parts[0] if isinstance(potentials, Tensor) else type(potentials)(*parts)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# Chains.


def chain_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for tags in itertools.product(range(theta.shape[-1]), repeat=n):
        y = np.zeros_like(theta)
        for place, tag in enumerate(tags):
            y[place, tags[place - 1] if place else 0, tag] = 1
        found.append((y,))
    return found


def chain_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values = [theta[0, 0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + theta[place, i, j] for i in tags]) for j in tags]
    return smooth_max(values)


def factored_members(parts: Parts, n: int) -> list[Parts]:
    found = []
    for tags in itertools.product(range(parts[0].shape[-1]), repeat=n):
        emissions, transitions, start, end = (np.zeros_like(part) for part in parts)
        for place, tag in enumerate(tags):
            emissions[place, tag] = 1
            if place:
                transitions[tags[place - 1], tag] += 1
        start[tags[0]] = end[tags[-1]] = 1
        found.append((emissions, transitions, start, end))
    return found


def factored_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, transitions, start, end = parts
    tags = range(len(start))
    values = [start[j] + emissions[0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + transitions[i, j] + emissions[place, j] for i in tags]) for j in tags]
    return smooth_max([values[j] + end[j] for j in tags])


def draw_factored(generator: torch.Generator, batch: int) -> Any:
    emissions, transitions = normal(generator, batch, 4, 3), normal(generator, batch, 3, 3)
    return om.Chain.from_emissions(emissions, transitions, normal(generator, batch, 3), normal(generator, batch, 3))


# CTC. Targets 1 1 2 and 2 and none at all, with blank 0.

CTC_TARGETS, CTC_SIZES = torch.tensor([[1, 1, 2], [2, 0, 0], [0, 0, 0], [1, 2, 1]]), torch.tensor([3, 1, 0, 3])


def draw_ctc(generator: torch.Generator, batch: int) -> Any:
    log_probs = normal(generator, 5, batch, 3).log_softmax(-1)
    return om.CTC.from_log_probs(log_probs, CTC_TARGETS, CTC_SIZES)


def ctc_members(parts: Parts, n: int) -> list[Parts]:
    """Every sequence of states; kept if it starts, moves and ends as the potentials allow."""
    _, skips, ends = parts
    found = []
    for states in itertools.product(range(len(ends)), repeat=n):
        moves = [after - before for before, after in itertools.pairwise(states)]
        skipped = [after for (_, after), move in zip(itertools.pairwise(states), moves) if move == 2]
        legal = states[0] < 2 and all(0 <= move <= 2 for move in moves) and all(skips[s] == 0 for s in skipped)
        if legal and ends[states[-1]] == 0:
            y = tuple(np.zeros_like(part) for part in parts)
            for time, state in enumerate(states):
                y[0][time, state] = 1
            for state in skipped:
                y[1][state] += 1
            y[2][states[-1]] = 1
            found.append(y)
    return found


def ctc_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, skips, ends = parts
    states = range(len(ends))
    values = [emissions[0, s] if s < 2 else -np.inf for s in states]
    for time in range(1, n):
        values = [
            emissions[time, s] + smooth_max([values[s - b] + (skips[s] if b == 2 else 0) for b in range(3) if s >= b])
            for s in states
        ]
    return smooth_max([values[s] + ends[s] for s in states])


# A graph and a hypergraph of a user's.

DAG_EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (3, 4), (2, 4)]


def dag_members(parts: Parts) -> list[Parts]:
    found: list[Parts] = []
    for chosen in itertools.product([0, 1], repeat=len(DAG_EDGES)):
        used = [edge for edge, on in zip(DAG_EDGES, chosen) if on]
        node, walked = 0, 0
        while any(tail == node for tail, _ in used) and walked < len(used):
            leaving = [head for tail, head in used if tail == node]
            if len(leaving) != 1:
                break
            node, walked = leaving[0], walked + 1
        if node == 4 and walked == len(used):
            found.append((np.array(chosen, dtype=float),))
    return found


def dag_recursion(smooth_max: Callable, parts: Parts) -> float:
    values = {0: 0.0}
    for node in range(1, 5):
        into = [(tail, score) for (tail, head), score in zip(DAG_EDGES, parts[0]) if head == node]
        values[node] = smooth_max([values[tail] + score for tail, score in into])
    return values[4]


def build_hypergraph() -> om.Hypergraph:
    """Edges of one and of two tails, a node that only some derivations need."""
    builder = om.HypergraphBuilder()
    a, b = builder.leaf(), builder.leaf()
    x, y, z, goal = builder.node(), builder.node(), builder.node(), builder.node()
    builder.edge(goal, x, z)  # 0
    builder.edge(x, a, b)  # 1
    builder.edge(x, a)  # 2
    builder.edge(z, y, b)  # 3
    builder.edge(y, b)  # 4
    builder.edge(goal, z)  # 5
    builder.edge(y, a, a)  # 6
    builder.edge(z, a)  # 7
    return builder.build(goal)


def hypergraph_members(parts: Parts) -> list[Parts]:
    of_x, of_y = [[1], [2]], [[4], [6]]
    of_z = [[3, *y] for y in of_y] + [[7]]
    of_goal = [[0, *x, *z] for x in of_x for z in of_z] + [[5, *z] for z in of_z]
    return [(np.bincount(edges, minlength=8).astype(float),) for edges in of_goal]


def hypergraph_recursion(smooth_max: Callable, parts: Parts) -> float:
    (s,) = parts
    x, y = smooth_max([s[1], s[2]]), smooth_max([s[4], s[6]])
    z = smooth_max([s[3] + y, s[7]])
    return smooth_max([s[0] + x + z, s[5] + z])


# Alignments.

SYMMETRIC2 = ((1, 1, 2.0), (1, 0, 1.0), (0, 1, 1.0))
UNIT = ((1, 1, 1.0), (1, 0, 1.0), (0, 1, 1.0))
LONG = ((1, 1, 1.0), (1, 2, 1.5), (2, 1, 0.5))


def alignment_paths(m: int, n: int, steps: Sequence, inside: Callable[[int, int], bool]) -> list[list]:
    """All lists of (i, j, weight) from (0, 0) to (m − 1, n − 1)."""
    found = []

    def walk(path: list) -> None:
        i, j, _ = path[-1]
        if (i, j) == (m - 1, n - 1):
            found.append(path)
        for di, dj, weight in steps:
            if i + di < m and j + dj < n and inside(i + di, j + dj):
                walk([*path, (i + di, j + dj, weight)])

    walk([(0, 0, 1.0)])
    return found


def alignment_members(steps: Sequence) -> Callable[..., list[Parts]]:
    def members(parts: Parts, m: int, n: int) -> list[Parts]:
        found = []
        for path in alignment_paths(m, n, steps, lambda i, j: True):
            y = np.zeros_like(parts[0])
            for i, j, weight in path:
                y[i, j] += weight
            found.append((y,))
        return found

    return members


def alignment_recursion(steps: Sequence) -> Callable[..., float]:
    def recursion(smooth_max: Callable, parts: Parts, m: int, n: int) -> float:
        (theta,) = parts
        values = {(0, 0): theta[0, 0]}
        for i, j in itertools.product(range(m), range(n)):
            into = [(i - di, j - dj, weight) for di, dj, weight in steps]
            reached = [values[a, b] + weight * theta[i, j] for a, b, weight in into if (a, b) in values]
            if reached:
                values[i, j] = smooth_max(reached)
        return values[m - 1, n - 1]

    return recursion


def delannoy(m: int, n: int) -> int:
    return sum(math.comb(m - 1, k) * math.comb(n - 1, k) * 2**k for k in range(min(m, n)))


def long_paths(m: int, n: int) -> int:
    """Orders of a steps (1, 1), b steps (1, 2) and c steps (2, 1)."""
    found = 0
    for b, c in itertools.product(range(m), repeat=2):
        a = m - 1 - b - 2 * c
        if a >= 0 and a + 2 * b + c == n - 1:
            found += math.factorial(a + b + c) // (math.factorial(a) * math.factorial(b) * math.factorial(c))
    return found


BAND = om.BandedAlignment(om.SakoeChiba(1), n_columns=5)  # of 4 rows: |4 i − 3 j| ≤ 4


def in_band(i: int, j: int) -> bool:
    return abs(4 * i - 3 * j) <= 4


def band_cell(i: int, j: int) -> tuple[int, int]:
    return i, j - min(column for column in range(5) if in_band(i, column))


def banded_members(parts: Parts) -> list[Parts]:
    found = []
    for path in alignment_paths(4, 5, UNIT, in_band):
        y = np.zeros_like(parts[0])
        for i, j, _ in path:
            y[band_cell(i, j)] = 1
        found.append((y,))
    return found


def banded_recursion(smooth_max: Callable, parts: Parts) -> float:
    values = {(0, 0): parts[0][0, 0]}
    for i, j in itertools.product(range(4), range(5)):
        tails = [values[a, b] for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if (a, b) in values]
        if tails and in_band(i, j):
            values[i, j] = smooth_max([tail + parts[0][band_cell(i, j)] for tail in tails])
    return values[3, 4]


def gapped_parts(parts: Parts, pairs: Sequence, x: Sequence[int], y: Sequence[int]) -> Parts:
    """Pairs, and the elements of x and y that are left alone, each gap a run without a pair inside."""
    found = tuple(np.zeros_like(part) for part in parts)
    for i, j in pairs:
        found[0][i, j] = 1
    for side, alone in ((0, x), (1, y)):
        paired = {pair[side] for pair in pairs}
        for k in alone:
            opens = k - 1 not in alone or (k - 1) in paired
            found[1 + 2 * side + (not opens)][k] = 1
    return found


def monotone_pairs(m: int, n: int) -> list[list[tuple[int, int]]]:
    return [
        list(zip(rows, columns))
        for k in range(min(m, n) + 1)
        for rows in itertools.combinations(range(m), k)
        for columns in itertools.combinations(range(n), k)
    ]


def global_members(parts: Parts, m: int, n: int) -> list[Parts]:
    found = []
    for pairs in monotone_pairs(m, n):
        x = [i for i in range(m) if all(i != a for a, _ in pairs)]
        y = [j for j in range(n) if all(j != b for _, b in pairs)]
        found.append(gapped_parts(parts, pairs, x, y))
    return found


def local_members(parts: Parts, m: int, n: int) -> list[Parts]:
    found = []
    for pairs in monotone_pairs(m, n):
        x, y = [], []
        if pairs:
            x = [i for i in range(pairs[0][0], pairs[-1][0]) if all(i != a for a, _ in pairs)]
            y = [j for j in range(pairs[0][1], pairs[-1][1]) if all(j != b for _, b in pairs)]
        found.append(gapped_parts(parts, pairs, x, y))
    return found


def gapped_recursion(smooth_max: Callable, parts: Parts, m: int, n: int, *, everywhere: bool) -> float:
    """Gotoh's three tables; `everywhere`: an alignment may begin and end in any pair."""
    match, open_x, extend_x, open_y, extend_y = parts
    pair, gap_x, gap_y = {}, {}, {}
    if not everywhere:
        pair[0, 0] = 0.0
    for i, j in itertools.product(range(m + 1), range(n + 1)):
        if i and j:
            before = [table[i - 1, j - 1] for table in (pair, gap_x, gap_y) if (i - 1, j - 1) in table]
            before += [0.0] if everywhere else []
            if before:
                pair[i, j] = smooth_max([b + match[i - 1, j - 1] for b in before])
        opened = [pair[i - 1, j] + open_x[i - 1]] if (i - 1, j) in pair else []
        opened += [gap_x[i - 1, j] + extend_x[i - 1]] if (i - 1, j) in gap_x else []
        if opened:
            gap_x[i, j] = smooth_max(opened)
        opened = [table[i, j - 1] + open_y[j - 1] for table in (pair, gap_x) if (i, j - 1) in table]
        opened += [gap_y[i, j - 1] + extend_y[j - 1]] if (i, j - 1) in gap_y else []
        if opened:
            gap_y[i, j] = smooth_max(opened)
    if everywhere:
        return smooth_max([0.0, *pair.values()])
    return smooth_max([table[m, n] for table in (pair, gap_x, gap_y) if (m, n) in table])


def draw_gapped(generator: torch.Generator, batch: int) -> Any:
    sizes = [(3, 4), (3,), (3,), (4,), (4,)]
    return om.GappedScores(*(normal(generator, batch, *size) for size in sizes))


# Trees.


def bracketings(i: int, j: int) -> list[list[tuple[int, int]]]:
    """The spans of every binary tree over words i..j."""
    if i == j:
        return [[(i, j)]]
    return [
        [(i, j), *left, *right] for k in range(i, j) for left in bracketings(i, k) for right in bracketings(k + 1, j)
    ]


def constituency_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for spans in bracketings(0, n - 1):
        for labels in itertools.product(range(theta.shape[-1]), repeat=len(spans)):
            y = np.zeros_like(theta)
            for (i, j), label in zip(spans, labels):
                y[i, j, label] = 1
            found.append((y,))
    return found


def constituency_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts

    def value(i: int, j: int) -> float:
        split = smooth_max([value(i, k) + value(k + 1, j) for k in range(i, j)]) if i < j else 0.0
        return smooth_max([score + split for score in theta[i, j]])

    return value(0, n - 1)


def grammar_members(parts: Parts, n: int) -> list[Parts]:
    root, _, terms = parts
    nt, n_tags = len(root), terms.shape[-1]
    found = []
    for spans in bracketings(0, n - 1):
        choices = [range(nt, nt + n_tags) if i == j else range(nt) for i, j in spans]
        for symbols in itertools.product(*choices):
            symbol = dict(zip(spans, symbols))
            counts = tuple(np.zeros_like(part) for part in parts)
            counts[0][symbol[0, n - 1]] = 1
            for i, j in spans:
                if i == j:
                    counts[2][i, symbol[i, i] - nt] = 1
                else:
                    k = next(k for k in range(i, j) if (i, k) in symbol and (k + 1, j) in symbol)
                    counts[1][symbol[i, j], symbol[i, k], symbol[k + 1, j]] += 1
            found.append(counts)
    return found


def grammar_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    root, rules, terms = parts
    nt, n_symbols = len(root), rules.shape[-1]

    def value(i: int, j: int, symbol: int) -> float:
        if i == j:
            return terms[i, symbol - nt]
        return smooth_max(
            [
                rules[symbol, b, c] + value(i, k, b) + value(k + 1, j, c)
                for k in range(i, j)
                for b in (range(nt, n_symbols) if k == i else range(nt))
                for c in (range(nt, n_symbols) if k + 1 == j else range(nt))
            ]
        )

    return smooth_max([root[a] + value(0, n - 1, a) for a in range(nt)])


def draw_grammar(generator: torch.Generator, batch: int) -> Any:
    return om.Grammar(normal(generator, batch, 2), normal(generator, batch, 2, 4, 4), normal(generator, batch, 3, 2))


def is_projective_tree(heads: Sequence[int]) -> bool:
    """heads[m − 1] is the head of word m; every word below an arc descends from its head."""

    def descends(word: int, head: int) -> bool:
        for _ in range(len(heads) + 1):
            if word == head:
                return True
            word = heads[word - 1] if word else 0
        return False

    words = range(1, len(heads) + 1)
    return all(descends(m, 0) for m in words) and all(
        descends(w, heads[m - 1]) for m in words for w in range(min(m, heads[m - 1]) + 1, max(m, heads[m - 1]))
    )


def projective_members(single_root: bool) -> Callable[..., list[Parts]]:
    def members(parts: Parts, n: int) -> list[Parts]:
        found = []
        for heads in itertools.product(range(n + 1), repeat=n):
            if is_projective_tree(heads) and (heads.count(0) == 1 or not single_root):
                y = np.zeros_like(parts[0])
                y[list(heads), range(1, n + 1)] = 1
                found.append((y,))
        return found

    return members


def projective_recursion(single_root: bool) -> Callable[..., float]:
    def recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
        (theta,) = parts

        def right(s: int, t: int) -> float:
            if s == t:
                return 0.0
            return smooth_max([theta[s, k] + both(s, k) + right(k, t) for k in range(s + 1, t + 1)])

        def left(s: int, t: int) -> float:
            if s == t:
                return 0.0
            return smooth_max([left(s, k) + both(k, t) + theta[t, k] for k in range(s, t)])

        def both(s: int, t: int) -> float:
            if s == 0 and single_root:
                return left(1, t)
            return smooth_max([right(s, k) + left(k + 1, t) for k in range(s, t)])

        return right(0, n)

    return recursion


def catalan(n: int) -> int:
    return math.comb(2 * n, n) // (n + 1)


CASES = [
    StructureCase(
        "alignment",
        om.Alignment(),
        lambda g, b: normal(g, b, 4, 3),
        alignment_members(UNIT),
        alignment_recursion(UNIT),
        delannoy,
        [(4, 3), (1, 3), (3, 1), (2, 3), (1, 1)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "alignment, symmetric2",
        om.Alignment(SYMMETRIC2),
        lambda g, b: normal(g, b, 3, 4),
        alignment_members(SYMMETRIC2),
        alignment_recursion(SYMMETRIC2),
        delannoy,
        [(3, 4), (2, 1), (2, 2)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "alignment, long steps",
        om.Alignment(LONG),
        lambda g, b: normal(g, b, 6, 5),
        alignment_members(LONG),
        alignment_recursion(LONG),
        long_paths,
        [(6, 5), (4, 4), (5, 5)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "banded alignment",
        BAND,
        lambda g, b: normal(g, b, 4, 3),
        banded_members,
        banded_recursion,
        lambda: len(alignment_paths(4, 5, UNIT, in_band)),
        [(), ()],
        largest_degree=3,
        most_heads=8,
    ),
    StructureCase(
        "global alignment",
        om.GlobalAlignment(),
        draw_gapped,
        global_members,
        lambda *arguments: gapped_recursion(*arguments, everywhere=False),
        lambda m, n: math.comb(m + n, m),
        [(3, 4), (1, 1), (3, 1), (1, 2)],
        largest_degree=3,
        most_heads=8,
        needs_first=False,
    ),
    StructureCase(
        "local alignment",
        om.LocalAlignment(),
        draw_gapped,
        local_members,
        lambda *arguments: gapped_recursion(*arguments, everywhere=True),
        lambda m, n: math.comb(m + n, m),
        [(3, 3), (1, 4), (3, 1), (1, 1)],
        largest_degree=13,
        most_heads=8,
        needs_first=False,
    ),
    StructureCase(
        "chain",
        om.Chain(),
        lambda g, b: normal(g, b, 4, 3, 3),
        chain_members,
        chain_recursion,
        lambda n: 3**n,
        [(4,), (1,), (3,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "factored chain",
        om.Chain(),
        draw_factored,
        factored_members,
        factored_recursion,
        lambda n: 3**n,
        [(3,), (1,), (4,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "ctc",
        om.CTC(),
        draw_ctc,
        ctc_members,
        ctc_recursion,
        None,
        [(5,), (3,), (4,), (3,)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "dag",
        om.Dag.from_edges(DAG_EDGES),
        lambda g, b: normal(g, b, len(DAG_EDGES)),
        dag_members,
        dag_recursion,
        lambda: 6,
        [(), ()],
        largest_degree=3,
        most_heads=4,
    ),
    StructureCase(
        "hypergraph",
        build_hypergraph(),
        lambda g, b: normal(g, b, 8),
        hypergraph_members,
        hypergraph_recursion,
        lambda: 9,
        [(), ()],
        largest_degree=2,
        most_heads=4,
    ),
    StructureCase(
        "labelled constituency tree",
        om.ConstituencyTree(),
        lambda g, b: normal(g, b, 3, 3, 2),
        constituency_members,
        constituency_recursion,
        lambda n: catalan(n - 1) * 2 ** (2 * n - 1),
        [(3,), (1,), (2,)],
        largest_degree=2,
        most_heads=7,
    ),
    StructureCase(
        "constituency tree",
        om.ConstituencyTree(),
        lambda g, b: om.ConstituencyTree.from_scores(normal(g, b, 5, 5)),
        constituency_members,
        constituency_recursion,
        lambda n: catalan(n - 1),
        [(5,), (1,), (4,)],
        largest_degree=4,
        most_heads=13,
    ),
    StructureCase(
        "grammar",
        om.Pcfg(),
        draw_grammar,
        grammar_members,
        grammar_recursion,
        lambda n: catalan(n - 1) * 2 ** (n - 1) * 2**n,
        [(3,), (2,)],
        largest_degree=8,
        most_heads=6,
    ),
    StructureCase(
        "projective tree",
        om.ProjectiveTree(),
        lambda g, b: normal(g, b, 5, 5),
        projective_members(True),
        projective_recursion(True),
        lambda n: math.comb(3 * n - 2, n - 1) // n,
        [(4,), (1,), (3,)],
        largest_degree=4,
        most_heads=12,
    ),
    StructureCase(
        "projective tree, any roots",
        om.ProjectiveTree(single_root=False),
        lambda g, b: normal(g, b, 4, 4),
        projective_members(False),
        projective_recursion(False),
        lambda n: math.comb(3 * n, n) // (2 * n + 1),
        [(3,), (1,), (2,)],
        largest_degree=3,
        most_heads=12,
    ),
]
