"""What can be wrong with the heads of a sentence, and whether its arcs cross; plain Python on tuples of heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TreeProblem(NamedTuple):
    """Why heads are not a tree, and a word (counted from 1) that shows it."""

    kind: str  # "no root", "two roots" or "cycle"
    text: str
    word: int


def tree_problem(heads: Sequence[int]) -> TreeProblem | None:
    """Finds out why heads are not a tree with one root; None if they are.

    >>> tree_problem([2, 0, 2]) is None
    True
    >>> tree_problem([2, 1, 0]).text
    'the heads of the words 1, 2 form a cycle'
    """
    roots = [word for word, head in enumerate(heads, start=1) if head == 0]
    if len(roots) > 1:
        return TreeProblem("two roots", f"expected one root, got {len(roots)}, the words {_listed(roots)}", roots[1])
    cycle = find_cycle(heads)
    if cycle:
        return TreeProblem("cycle", f"the heads of the words {_listed(cycle)} form a cycle", cycle[0])
    if not roots:  # an empty sentence; with words and no root there is a cycle
        return TreeProblem("no root", "expected one root, got none", 1)
    return None


def find_cycle(heads: Sequence[int]) -> list[int]:
    """Returns the words of a cycle in ascending order; an empty list if there is none."""
    seen = [0] * (len(heads) + 1)  # by which walk a word was reached first
    for start in range(1, len(heads) + 1):
        word = start
        while word and not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if word and seen[word] == start:
            cycle, at = [word], heads[word - 1]
            while at != word:
                cycle.append(at)
                at = heads[at - 1]
            return sorted(cycle)
    return []


def is_projective(heads: Sequence[int]) -> bool:
    """Says whether no two arcs cross, with the root left of the first word.

    >>> is_projective([2, 0, 2]), is_projective([3, 4, 0, 3])
    (True, False)
    """
    spans = sorted((min(word, head), -max(word, head)) for word, head in enumerate(heads, start=1))
    ends: list[int] = []  # of the arcs that are open, the innermost last
    for left, negative_right in spans:
        right = -negative_right
        while ends and ends[-1] <= left:
            ends.pop()
        if ends and ends[-1] < right:
            return False
        ends.append(right)
    return True


def _listed(words: Sequence[int], at_most: int = 8) -> str:
    shown = ", ".join(map(str, words[:at_most]))
    return shown if len(words) <= at_most else f"{shown} and {len(words) - at_most} more"
