"""Elimination of words without subtraction, on logarithms: specifies csrc/arborescences/state_reduction.hpp.

w[h, m] is the weight of the arc from head h to modifier m. The weights define a random walk from words to their heads;
when a word k is taken out, each step into it is replaced by the step that leaves it (Grassmann, Taksar & Heyman 1985):

    d_k = Σ_h w[h, k]        p[h] = w[h, k] / d_k        w[h, m] += w[k, m] p[h]

and the sum over all trees is the product of the d_k. With a single root its arcs count to first order only: d_k is the
sum over words. A word that no remaining word can be the head of must then be the top of the tree, and takes the place
of the root from there on ("crowned").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Logs:
    """Positive numbers x as log x and, where there is a direction, their relative derivatives ẋ / x."""

    level: Tensor
    rate: Tensor | None

    def __getitem__(self, index: Any) -> Logs:
        return Logs(self.level[index], None if self.rate is None else self.rate[index])

    def times(self, other: Logs) -> Logs:
        rate = None if self.rate is None or other.rate is None else self.rate + other.rate
        return Logs(self.level + other.level, rate)

    def over(self, other: Logs) -> Logs:
        """Returns the quotient; division by zero returns the number itself, which is then zero too."""
        divisor = torch.where(other.level == -torch.inf, 0, other.level)
        return Logs(self.level - divisor, None if self.rate is None or other.rate is None else self.rate - other.rate)

    def plus(self, other: Logs) -> Logs:
        """Returns the sum, whose relative derivative is the mean of those of its terms."""
        level = torch.logaddexp(self.level, other.level)
        if self.rate is None or other.rate is None:
            return Logs(level, None)
        share = (other.level - torch.where(level == -torch.inf, 0, level)).exp()
        return Logs(level, self.rate + share * (other.rate - self.rate))

    def total(self, dim: int) -> Logs:
        """Returns the sum along an axis."""
        level = self.level.logsumexp(dim)
        if self.rate is None:
            return Logs(level, None)
        share = (self.level - torch.where(level == -torch.inf, 0, level).unsqueeze(dim)).exp()
        return Logs(level, (share * self.rate).sum(dim))

    def only(self, kept: Tensor) -> Logs:
        """Returns the same numbers, with zero where `kept` is False."""
        rate = None if self.rate is None else torch.where(kept, self.rate, 0)
        return Logs(torch.where(kept, self.level, -torch.inf), rate)

    def gather(self, *others: Logs, dim: int) -> Logs:
        """Joins numbers along an axis."""
        parts = (self, *others)
        rates = [part.rate for part in parts if part.rate is not None]
        return Logs(torch.cat([part.level for part in parts], dim), torch.cat(rates, dim) if rates else None)


class ReducedGraph(NamedTuple):
    """A graph with one word less."""

    weights: Logs  # (batch, k, k)
    p: Logs  # (batch, k): where the walk goes from the word that was taken out
    d: Logs  # (batch,)
    grounded: Tensor  # (batch,): whether the arcs of the root count in d
    crowned: Tensor  # (batch,): whether the word became the top


def eliminate(w: Logs, grounded: Tensor) -> ReducedGraph:
    """Takes out the last word of (batch, k + 1, k + 1)."""
    k = w.level.shape[-1] - 1
    column, row, rest = w[:, :k, k], w[:, k, :k], w[:, :k, :k]
    root, words = column[:, 0], column[:, 1:].total(1)
    crowned = ~grounded & (words.level == -torch.inf)
    counted = root.only(crowned | grounded)
    d = words.plus(counted)
    p = column.over(d[:, None])
    is_root = torch.arange(k, device=crowned.device) == 0
    rest = rest.only(~(crowned[:, None, None] & is_root[:, None]))
    return ReducedGraph(rest.plus(p[:, :, None].times(row[:, None, :])), p, d, grounded | crowned, crowned)


def log_total(w: Logs, single_root: bool) -> Tensor:
    """Computes the logarithm of the sum over all trees, (batch,)."""
    grounded = torch.full_like(w.level[:, 0, 0], not single_root, dtype=torch.bool)
    total = torch.zeros_like(w.level[:, 0, 0])
    for _ in range(w.level.shape[-1] - 2):
        w, _, d, grounded, _ = eliminate(w, grounded)
        total = total + d.level
    return total + w.level[:, 0, 1]


class _Half(NamedTuple):
    """Words that were eliminated together: the p of each, in order, and how the words were rotated before."""

    eliminated: list[tuple[int, Logs]]  # the number of the elimination, and p
    turn: int  # how many words were moved from the front to the back


class AllButOne:
    """Eliminates all words but one, for every word: it eliminates one half, and does the same within the other half."""

    def __init__(self, w: Logs, single_root: bool) -> None:
        self.w = w
        self.columns: list[Logs] = []  # per word: the probabilities of its heads
        grounded = torch.full_like(w.level[:, 0, 0], not single_root, dtype=torch.bool)
        never = torch.full_like(grounded, -1, dtype=torch.int64)
        self._split(w, grounded, never, 0, [])

    def probabilities(self) -> Logs:
        """Returns them as (batch, N + 1, N + 1); column 0 is zero."""
        nothing = self.w[:, :, :1].only(torch.zeros_like(self.w.level[:, :, :1], dtype=torch.bool))
        return nothing.gather(*(column[:, :, None] for column in self.columns), dim=2)

    def _split(self, w: Logs, grounded: Tensor, crowned_at: Tensor, stage: int, path: list[_Half]) -> None:
        n = w.level.shape[-1] - 1
        if n == 1:
            self._last(crowned_at, path)
            return
        for keep, turn in ((n // 2, 0), (n - n // 2, n // 2)):
            order = torch.tensor([0, *range(turn + 1, n + 1), *range(1, turn + 1)], device=w.level.device)
            left = w[:, order][:, :, order]
            state, at, half = grounded, crowned_at, _Half([], turn)
            for number in range(stage, stage + n - keep):
                left, p, _, state, crowned = eliminate(left, state)
                at = torch.where(crowned, number, at)
                half.eliminated.append((number, p))
            self._split(left, state, at, stage + n - keep, [*path, half])

    def _last(self, crowned_at: Tensor, path: list[_Half]) -> None:
        """Adds the column of one word, from the probabilities u of reaching the root before it."""
        device = crowned_at.device
        one = torch.zeros_like(self.w.level[:, 0, :2])
        u = Logs(one, None if self.w.rate is None else one).only(torch.tensor([True, False], device=device))
        for half in reversed(path):
            for number, p in reversed(half.eliminated):
                k = p.level.shape[1]
                # Before the top was found the root was out of reach: to first order, its share is zero.
                late = (crowned_at <= number)[:, None] | (torch.arange(k, device=device) > 0)
                u = u.gather(p.only(late).times(u).total(1)[:, None], dim=1)
            keep = u.level.shape[1] - half.turn
            u = u[:, :1].gather(u[:, keep:], u[:, 1:keep], dim=1)
        is_word = torch.arange(u.level.shape[1], device=device) > 0
        column = self.w[:, :, len(self.columns) + 1].times(u).only((crowned_at < 0)[:, None] | is_word)
        self.columns.append(column.over(column.total(1)[:, None]))
