"""Closed forms of the local quadratic problems of logic factors, vectorised over everything but the factor's width.

    counts   argmin_z ½‖z − t‖²          lowest ≤ z ≤ highest,  least ≤ Σ z ≤ most
    pairs    argmin_z ½‖z − t‖² − c·z₁₂  z₁₂ ≤ z₁,  z₁₂ ≤ z₂,  z₁₂ ≥ z₁ + z₂ − 1,  0 ≤ z₁₂

Bounds are whole numbers, so that both polytopes have whole corners. With 0 ≤ z ≤ 1, counts are xor (least = most = 1),
at-most-one (0, 1), or (1, n), a budget. The first is a clipped shift, z = clip(t − τ), whose τ is found by bisection
over the 2n places where a coordinate starts or stops moving; the second is that of Martins et al., "AD³: alternating
directions dual decomposition for MAP inference in graphical models", JMLR 2015, section 6.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class CountProjection(NamedTuple):
    """Points of the count polytopes."""

    point: Tensor  # (..., n)
    tight: Tensor  # (...,): whether the sum was held at a bound
    feasible: Tensor  # (...,): False where no point satisfies the bounds; the point is then meaningless


class PairProjection(NamedTuple):
    """Points of the pair polytope, and which of its faces they were found on."""

    point: Tensor  # (..., 2)
    both: Tensor  # (...,): z₁₂
    which: Tensor  # (...,): a row of `PAIR_FACES`


# Along each face: the coefficients of the equality that ties z₁ and z₂, if any, and those of z₁₂ as a function of both.
PAIR_FACES = torch.tensor(
    [
        [[0.0, 0.0], [0.0, 1.0]],  # 0: c ≥ 0, z₁ > z₂ = z₁₂
        [[0.0, 0.0], [1.0, 0.0]],  # 1: c ≥ 0, z₂ > z₁ = z₁₂
        [[1.0, -1.0], [0.5, 0.5]],  # 2: c > 0, z₁ = z₂ = z₁₂
        [[0.0, 0.0], [1.0, 1.0]],  # 3: c < 0, z₁₂ = z₁ + z₂ − 1
        [[0.0, 0.0], [0.0, 0.0]],  # 4: c < 0, z₁₂ = 0
        [[1.0, 1.0], [0.0, 0.0]],  # 5: c < 0, z₁ + z₂ = 1, z₁₂ = 0
        [[0.0, 0.0], [0.5, 0.5]],  # 6: c = 0, z₁ = z₂: nothing ties them, and z₁₂ is any of an interval
    ],
    dtype=torch.float64,
)


def project_counts(target: Tensor, lowest: Tensor, highest: Tensor, least: Tensor, most: Tensor) -> CountProjection:
    """Projects (..., n) onto boxes cut by bounds on the sum, which are (...,)."""
    loose = target.clamp(lowest, highest)
    total = loose.sum(-1)
    bound = torch.where(total > most, most, least)
    tight = (total > most) | (total < least) | (least == most)
    feasible = (lowest.sum(-1) <= most) & (highest.sum(-1) >= least)
    shifted = _shifted(target, lowest, highest, bound)
    return CountProjection(torch.where(tight.unsqueeze(-1), shifted, loose), tight, feasible)


def _shifted(target: Tensor, lowest: Tensor, highest: Tensor, total: Tensor) -> Tensor:
    """Returns clip(t − τ) for the τ at which it sums to `total`."""
    target = target - _pivot(target, lowest, highest, total)
    turns = torch.cat([target - highest, target - lowest], -1).sort(-1).values  # where a coordinate starts or stops
    n_turns = turns.shape[-1]
    below = torch.zeros_like(total, dtype=torch.long)  # a turn at which the sum is at least total: all are at highest
    above = torch.full_like(below, n_turns - 1)  # one at which it is at most total: all are at lowest
    for _ in range(n_turns.bit_length()):
        middle = (below + above) // 2
        tau = turns.gather(-1, middle.unsqueeze(-1))
        enough = (target - tau).clamp(lowest, highest).sum(-1) >= total
        below, above = torch.where(enough, middle, below), torch.where(enough, above, middle)
    start, stop = turns.gather(-1, below.unsqueeze(-1)), turns.gather(-1, above.unsqueeze(-1))
    moved = target - start
    moving = (target - highest <= start) & (target - lowest >= stop) & (highest > lowest)
    held = torch.where(moving, moved, moved.clamp(lowest, highest)).sum(-1, keepdim=True)
    step = (held - total.unsqueeze(-1)) / moving.sum(-1, keepdim=True).clamp(min=1)
    return (moved - step).clamp(lowest, highest)


def _pivot(target: Tensor, lowest: Tensor, highest: Tensor, total: Tensor) -> Tensor:
    """Returns the last coordinate that is 1 in the nearest corner: τ is near it, or all are at a bound."""
    movable = torch.where(highest > lowest, target, -torch.inf).sort(-1, descending=True).values
    rank = (total - lowest.sum(-1)).long().clamp(1, target.shape[-1]) - 1
    found = movable.gather(-1, rank.unsqueeze(-1))
    return torch.where(found == -torch.inf, 0, found)


def project_pairs(target: Tensor, score: Tensor, lowest: Tensor, highest: Tensor) -> PairProjection:
    """Solves pairs of targets (..., 2) with scores (...,) for both; `lowest` = `highest` fixes one of them."""
    attract, repel = _attracted(target, score.clamp(min=0)), _repelled(target, score.clamp(max=0))
    free = attract.which == 2
    attract = attract._replace(which=torch.where(free & (score == 0), 6, attract.which))
    found = _where(score >= 0, attract, repel)
    fixed = lowest == highest
    found = _where(fixed[..., 1], _one_fixed(target, score, lowest, highest, 1), found)
    return _where(fixed[..., 0], _one_fixed(target, score, lowest, highest, 0), found)


def _attracted(target: Tensor, score: Tensor) -> PairProjection:
    """Solves pairs with c ≥ 0, for which z₁₂ is the smaller of the two."""
    first, second = target.unbind(-1)
    which = torch.where(first > second + score, 0, torch.where(second > first + score, 1, 2))
    joint = (first + second + score) / 2
    one = _choose(which, first, first + score, joint).clamp(0, 1)
    other = _choose(which, second + score, second, joint).clamp(0, 1)
    return PairProjection(torch.stack([one, other], -1), _choose(which, other, one, one), which)


def _repelled(target: Tensor, score: Tensor) -> PairProjection:
    """Solves pairs with c < 0 or −inf, for which z₁₂ is what the two have in excess of one."""
    first, second = target.unbind(-1)
    which = torch.where(first + second - 1 > -2 * score, 0, torch.where(first + second < 1, 1, 2))
    split = (first + 1 - second) / 2
    one = _choose(which, first + score, first, split).clamp(0, 1)
    other = _choose(which, second + score, second, 1 - split).clamp(0, 1)
    return PairProjection(torch.stack([one, other], -1), torch.where(which == 0, one + other - 1, 0), 3 + which)


def _one_fixed(target: Tensor, score: Tensor, lowest: Tensor, highest: Tensor, which: int) -> PairProjection:
    """Solves pairs of which one is fixed at 0 or 1; the other sees the score only where that is 1."""
    on = lowest[..., which] == 1
    other = torch.where(on, target[..., 1 - which] + score, target[..., 1 - which])
    other = other.clamp(lowest[..., 1 - which], highest[..., 1 - which])
    pair = [lowest[..., 0], other] if which == 0 else [other, lowest[..., 1]]
    return PairProjection(torch.stack(pair, -1), torch.where(on, other, 0), torch.where(on, which, 4))


def _choose(which: Tensor, *options: Tensor) -> Tensor:
    return torch.where(which == 0, options[0], torch.where(which == 1, options[1], options[2]))


def _where(chosen: Tensor, first: PairProjection, second: PairProjection) -> PairProjection:
    point = torch.where(chosen.unsqueeze(-1), first.point, second.point)
    return PairProjection(
        point, torch.where(chosen, first.both, second.both), torch.where(chosen, first.which, second.which)
    )
