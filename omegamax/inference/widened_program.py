"""A program of float32 parts that is swept in float64.

Weights are made of differences between values, and a float32 value of a million has no digits behind the point. Where a
sweep adds values up in the type of its parts, large scores are handed to it in float64 and the results are rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, Swept


@dataclass(frozen=True, eq=False)
class WidenedProgram(Program):
    """Another program, on parts in float64."""

    inner: Program

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        """Of the other program."""
        return self.inner.n_parts

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """In float64."""
        return self.inner.value(wide(parts))

    def value_ahead(self, parts: Parts) -> tuple[Tensor, State]:
        """In float64."""
        return self.inner.value_ahead(wide(parts))

    def marginals(self, parts: Parts, state: State) -> Swept:
        """In float64, rounded to the type of the parts."""
        swept = self.inner.marginals(wide(parts), state)
        return swept._replace(parts=rounded(swept.parts, parts))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """In float64, rounded to the type of the parts."""
        swept = self.inner.tangent(wide(parts), state, wide(direction))
        return swept._replace(parts=rounded(swept.parts, parts))

    def parameters(self) -> tuple[Tensor, ...]:
        """Of the other program."""
        return self.inner.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> Program:
        """The same with other parameter tensors."""
        return replace(self, inner=self.inner.with_parameters(parameters))

    def scaled(self, scale: float) -> Program | None:
        """The other program, scaled."""
        inner = self.inner.scaled(scale)
        return None if inner is None else replace(self, inner=inner)


def largest_score(parts: Parts) -> float:
    """The largest size of a finite score, 0 where there is none."""
    return max((_largest(part.detach()) for part in parts if part.numel()), default=0.0)


def _largest(part: Tensor) -> float:
    low, high = (float(bound) for bound in part.aminmax())
    size = max(-low, high)
    if size < math.inf:
        return size
    return float(torch.where(part.isfinite(), part, 0).abs().amax())  # something is infinite, or no number


def wide(parts: Parts) -> Parts:
    """Parts in float64."""
    return tuple(part.double() for part in parts)


def rounded(parts: Parts, like: Parts) -> Parts:
    """Parts in the type of others."""
    return tuple(part.to(given.dtype) for part, given in zip(parts, like))
