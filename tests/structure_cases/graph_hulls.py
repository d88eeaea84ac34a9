"""Factor graphs from their definition: local members of every factor, and all joint assignments, in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
from oracles.local_polytope_qp import Hull

import omegamax as om
from omegamax.structures.factors import Count, Pair


def hulls_of(graph: om.FactorGraph) -> list[Hull]:
    """The members of every factor, and of every variable's own domain."""
    found = []
    for variable in graph.variables:
        entries = list(variable.entries)
        members = np.array([[0.0], [1.0]]) if variable.binary else np.eye(len(entries))
        found.append(Hull(entries, members, [], np.zeros((len(members), 0))))
    for factor in graph.factors:
        places = [i for block in factor.blocks for i in range(block.first, block.first + block.size)]
        if isinstance(factor, (Count, Pair)):
            entries = [literal.entry for literal in factor.literals]
            members, extra = [], []
            for values in itertools.product([0, 1], repeat=len(entries)):
                true = [value != literal.negated for value, literal in zip(values, factor.literals)]
                if isinstance(factor, Pair):
                    extra.append([float(all(true))])
                elif factor.least <= sum(true) <= factor.most:
                    extra.append([])
                else:
                    continue
                members.append(values)
            found.append(
                Hull(entries, np.array(members, float), places, np.array(extra, float).reshape(len(members), -1))
            )
        else:
            members, extra = _members_of_part(factor)
            found.append(Hull(list(factor.entries), members, places, extra))
    return found


def _members_of_part(factor):
    if isinstance(factor.structure, om.structures.Table):
        members, extra = [], []
        for values in itertools.product(*(range(n) for n in factor.structure.sizes)):
            members.append(np.concatenate([np.eye(n)[v] for n, v in zip(factor.structure.sizes, values)]))
            table = np.zeros(factor.structure.sizes)
            table[values] = 1
            extra.append(table.ravel())
        return np.array(members), np.array(extra)
    if isinstance(factor.structure, om.Chain):
        n, c = factor.shape
        members, extra = [], []
        for tags in itertools.product(range(c), repeat=n):
            transitions = np.zeros((c, c))
            for pair in itertools.pairwise(tags):
                transitions[pair] += 1
            members.append(np.eye(c)[list(tags)].ravel())
            extra.append(np.concatenate([transitions.ravel(), np.eye(c)[tags[0]], np.eye(c)[tags[-1]]]))
        return np.array(members), np.array(extra)
    assert isinstance(factor.structure, (om.ProjectiveTree, om.Arborescence))
    projective = isinstance(factor.structure, om.ProjectiveTree)
    size = factor.shape[0]
    members = []
    for heads in itertools.product(range(size), repeat=size - 1):
        if _is_tree(heads, single_root=factor.structure.single_root) and not (projective and _crosses(heads)):
            arcs = np.zeros((size, size))
            arcs[list(heads), range(1, size)] = 1
            members.append(arcs.ravel())
    return np.array(members), np.zeros((len(members), 0))


def _is_tree(heads, *, single_root):
    if single_root and sum(head == 0 for head in heads) != 1:
        return False
    for word in range(1, len(heads) + 1):
        seen, at = set(), word
        while at:
            if at in seen:
                return False
            seen.add(at)
            at = heads[at - 1]
    return True


def _crosses(heads):
    spans = [sorted((head, word)) for word, head in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in spans for c, d in spans)


def assignments(graph: om.FactorGraph) -> list[tuple[np.ndarray, np.ndarray]]:
    """All joint assignments that satisfy every factor, as entries and factor counts."""
    hulls = hulls_of(graph)
    found = []
    for choice in itertools.product(*(range(v.n_values) for v in graph.variables)):
        entries = np.zeros(graph.n_entries)
        for variable, value in zip(graph.variables, choice):
            if not variable.binary:
                entries[variable.first + value] = 1
            elif value:
                entries[variable.first] = 1
        counts, allowed = np.zeros(graph.n_scores), True
        for hull in hulls:
            same = np.flatnonzero((hull.members == entries[hull.entries]).all(1))
            if not len(same):
                allowed = False
                break
            np.add.at(counts, hull.places, hull.extra[same[0]])
        if allowed:
            found.append((entries, counts))
    return found
