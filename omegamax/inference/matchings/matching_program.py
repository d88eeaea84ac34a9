"""The best matching of every item as a program."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.matchings import best_matching


@dataclass(frozen=True, eq=False)
class MatchingProgram(Program):
    """Finds the best matching for pairs (batch, R, C), alone or with scores of unmatched rows and columns.

    Its Ω is Hard.
    """

    lengths: tuple[Tensor, Tensor]  # (batch,) rows and columns, on the CPU
    n_parts: int

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Returns the best score; the state is the value and the columns."""
        found = best_matching(*self.lengths, *parts)
        return found.value, (found.value.clone(), found.columns)  # the state has no derivative, the value has

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        value, columns = state
        pairs = parts[0]
        n_rows, n_columns = pairs.shape[1:]
        matched = (columns >= 0).unsqueeze(-1).to(pairs.dtype)
        found = [torch.zeros_like(pairs).scatter_(-1, columns.clamp(min=0).unsqueeze(-1), matched)]
        if self.n_parts > 1:
            exists = (value > -torch.inf).unsqueeze(-1)
            for size, length, axis in zip((n_rows, n_columns), self.lengths, (-1, -2)):
                here = torch.arange(size) < length.unsqueeze(-1)
                found.append(((found[0].sum(axis) == 0) & here.to(pairs.device) & exists).to(pairs.dtype))
        return SweepResult(_with_nan(value, tuple(found)), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return SweepResult(_with_nan(state[0], tuple(torch.zeros_like(part) for part in parts)), (), ())


def _with_nan(value: Tensor, parts: Parts) -> Parts:
    """Makes all parts of an item NaN where its value is NaN."""
    spoiled = value.isnan()
    if routing.on_host(spoiled) and not bool(spoiled.any()):
        return parts
    return tuple(torch.where(spoiled.reshape(-1, *(1,) * (part.dim() - 1)), torch.nan, part) for part in parts)
