"""The best lo to hi of n entries: the largest, and as many as are above zero where the bounds leave a choice.

Ties go to the lowest index, and an entry of zero is taken only where lo asks for it, as in the hypergraph of `Budget`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept


@dataclass(frozen=True, eq=False)
class SelectionProgram(Program):
    """Scores (batch, N); its Ω is Hard."""

    lengths: Tensor  # (batch,), on the CPU
    lo: int
    hi: int

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """The state: what is chosen, 0/1; NaN where scores are."""
        scores = parts[0]
        if not routing.in_native_memory(scores):
            return _select(scores, self.lengths.to(scores.device), self.lo, self.hi)
        scores, lengths = scores.contiguous(), self.lengths.contiguous()
        value, chosen = scores.new_empty(scores.shape[0]), torch.empty_like(scores)
        routing.native.selection(
            scores.element_size(),
            routing.address(scores),
            routing.address(lengths),
            routing.address(value),
            routing.address(chosen),
            scores.shape[1],
            self.lo,
            self.hi,
            scores.shape[0],
            scores.shape[1],
            torch.get_num_threads(),
        )
        return value, (chosen,)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """What is chosen; a copy, since the state is kept."""
        return Swept((state[0].clone(),), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """The choice does not move; where it is NaN, so is its derivative."""
        return Swept((0 * state[0],), (), ())


def _select(scores: Tensor, lengths: Tensor, lo: int, hi: int) -> tuple[Tensor, State]:
    """By sorting; the twin of csrc/selection.hpp."""
    places = torch.arange(scores.shape[1], device=scores.device)
    within = places < lengths.unsqueeze(-1)
    scores = torch.where(within, scores, -torch.inf)
    spoiled = ~(scores < torch.inf).all(-1, keepdim=True)
    allowed = (scores > -torch.inf).sum(-1, keepdim=True)
    n_chosen = torch.where(allowed < lo, 0, (scores > 0).sum(-1, keepdim=True).clamp(lo, hi))
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    first = (places < n_chosen).to(scores.dtype)
    chosen = torch.zeros_like(scores).scatter(-1, order, first)
    total = torch.where(chosen > 0, scores, 0).double().sum(-1).to(scores.dtype)
    value = torch.where(allowed.squeeze(-1) < lo, -torch.inf, total)
    chosen = torch.where(spoiled & within, torch.nan, chosen)
    return torch.where(spoiled.squeeze(-1), torch.nan, value), (chosen,)
