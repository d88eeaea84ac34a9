"""Isotonic optimisation with exponential blocks: the dual of the entropic projection onto a permutahedron."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.candidates import recorded
from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.precision import widen


@kernel
def isotonic_entropic(rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the non-increasing v that minimises an exponential cost.

        argmin_{v_1 >= ... >= v_n}  sum_i exp(rows_i - v_i) + exp(targets_i) v_i

    On a block B of equal entries v is log Σ_B exp(rows) − log Σ_B exp(targets). Returns v and `joined`, both shaped as
    rows: joined[i] says that i was pooled with i − 1 (equal neighbours do not violate the order and are not pooled).
    Targets may be −inf from some entry on, not at the first. Other rows with a non-finite entry give NaN. Blondel,
    Teboul, Berthet & Djolonga, "Fast differentiable sorting and ranking", ICML 2020.
    """
    if rows.shape[-1] == 0:
        return rows.clone(), rows.bool()
    s, w = widen(rows), widen(targets)
    valid = s.isfinite().all(-1, keepdim=True) & (w < torch.inf).all(-1, keepdim=True)
    valid = valid & (w[..., :1] > -torch.inf)
    s, w = torch.where(valid, s, 0), torch.where(valid, w, 0)
    joined = joined_by_formula(s, w) if traced() or not routing.on_host(s) else _pools(s, w)
    solution = segment_logsumexp(joined, s) - segment_logsumexp(joined, w)
    return torch.where(valid, solution, torch.nan).to(rows.dtype), joined & valid


@isotonic_entropic.twin
def _(rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    rows, targets = rows.contiguous(), targets.expand_as(rows).contiguous()
    solution, joined = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.bool)
    launch("isotonic_entropic", rows, rows, targets, solution, joined)
    return solution, joined


def traced() -> bool:
    """Says whether a program is being recorded or transformed, which cannot loop over the data."""
    return recorded() or routing.transforms_active()


def segment_logsumexp(joined: Tensor, rows: Tensor) -> Tensor:
    """Replaces each entry of rows (..., n) by log Σ exp over its segment; differentiable any number of times.

    `joined` (..., n) says that an entry is in the segment of the one before. A segment of one entry keeps it exactly.
    """
    label = (~joined).cumsum(-1) - (~joined[..., :1]).to(torch.int64)
    label = label.expand_as(rows)
    empty = torch.full_like(rows, -torch.inf).detach()
    top = empty.scatter_reduce(-1, label, rows.detach(), "amax").gather(-1, label)
    top = torch.where(top > -torch.inf, top, 0)
    total = torch.zeros_like(rows).scatter_add(-1, label, (rows - top).exp()).gather(-1, label)
    return top + total.log()


def _pools(s: Tensor, w: Tensor) -> Tensor:
    """Says which entries are pooled with the one before: all violations at once, until there is none."""
    joined = torch.zeros_like(s, dtype=torch.bool)
    while s.numel():
        level = segment_logsumexp(joined, s) - segment_logsumexp(joined, w)
        violates = ~joined[..., 1:] & (level[..., :-1] < level[..., 1:])
        if not violates.any():
            break
        joined = joined | torch.nn.functional.pad(violates, (1, 0))
    return joined


def joined_by_formula(s: Tensor, w: Tensor) -> Tensor:
    """Uses v_i = min_{a <= i} max_{b >= i} level(a, b): no loop over the data, but memory quadratic in n.

    Neighbours of equal levels count as pooled.
    """
    n = s.shape[-1]
    if n == 0:
        return torch.zeros_like(s, dtype=torch.bool)
    index = torch.arange(n, device=s.device)
    above = index[:, None] <= index[None, :]  # (a, b), a block from a to b
    tops, bottoms = (torch.where(above, each.unsqueeze(-2), -torch.inf).logcumsumexp(-1) for each in (s, w))
    level = torch.where(above, tops - torch.where(above, bottoms, 0), -torch.inf)
    most = level.flip(-1).cummax(-1).values.flip(-1)  # over b >= i
    solution = torch.where(above, most, torch.inf).amin(-2)
    return torch.nn.functional.pad(solution[..., 1:] == solution[..., :-1], (1, 0))
