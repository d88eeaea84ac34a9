"""Programs: value, marginals and tangent of a structure under one Ω. Each kind of structure has one or more."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]  # the components of the potentials, each (batch, *event)
State = tuple[Tensor, ...]  # what the next sweep needs, and nothing more


class SweepResult(NamedTuple):
    """The result of a sweep."""

    parts: Parts  # shaped as the potentials
    slopes: tuple[Tensor, ...]  # (batch,) per parameter of Ω
    state: State  # what it adds to the state


class Program(abc.ABC):
    """Three sweeps over the parts of a structure. Each gets the state that the sweeps before it left.

    Autograd does not record them.
    """

    n_parts: int

    @abc.abstractmethod
    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Computes DP_Ω, (batch,), in float64 if it is a dynamic program: a loss is a difference of such values."""

    def value_before_marginals(self, parts: Parts) -> tuple[Tensor, State]:
        """Computes the same for a caller that needs the marginals next; it may do some of their work already."""
        return self.value(parts)

    @abc.abstractmethod
    def marginals(self, parts: Parts, state: State) -> SweepResult:
        """Computes ∇ DP_Ω, the expected structure, which may be part of the state; `slopes` are ∂ DP_Ω / ∂φ."""

    @abc.abstractmethod
    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        """Computes ∇² DP_Ω · direction; `slopes` are the derivatives of ∂ DP_Ω / ∂φ along it."""

    def parameters(self) -> tuple[Tensor, ...]:
        """Returns the tensors among the hyper-parameters of Ω."""
        return ()

    def scaled(self, scale: float) -> Program | None:
        """Returns the program of f(x) = DP_Ω(scale · x) / scale, which makes no scaled copy of x.

        With scale 1/γ this is DP_{γΩ}; with −1/γ it reads costs and gives a cost. ∇f = E(scale · x). Returns None if
        there is no such program.
        """
        return None

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> Program:
        """Returns the same program with other parameter tensors."""
        return self


@dataclass(frozen=True, eq=False)
class WidenedProgram(Program):
    """Sweeps float32 parts in float64, and rounds the results to the type of the parts.

    Weights are made of differences between values, and a float32 value of a million has no digits behind the point.
    """

    inner: Program

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return self.inner.n_parts

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        return self.inner.value(in_float64(parts))

    def value_before_marginals(self, parts: Parts) -> tuple[Tensor, State]:
        return self.inner.value_before_marginals(in_float64(parts))

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        result = self.inner.marginals(in_float64(parts), state)
        return result._replace(parts=rounded(result.parts, parts))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        result = self.inner.tangent(in_float64(parts), state, in_float64(direction))
        return result._replace(parts=rounded(result.parts, parts))

    def parameters(self) -> tuple[Tensor, ...]:
        return self.inner.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> Program:
        return replace(self, inner=self.inner.with_parameters(parameters))

    def scaled(self, scale: float) -> Program | None:
        inner = self.inner.scaled(scale)
        return None if inner is None else replace(self, inner=inner)


def largest_score(parts: Parts) -> float:
    """Returns the largest absolute value of a finite score, 0 where there is none."""
    return max((_largest(part.detach()) for part in parts if part.numel()), default=0.0)


def _largest(part: Tensor) -> float:
    low, high = (float(bound) for bound in part.aminmax())
    size = max(-low, high)
    if size < math.inf:
        return size
    return float(torch.where(part.isfinite(), part, 0).abs().amax())  # some score is infinite or NaN


def in_float64(parts: Parts) -> Parts:
    """Converts parts to float64."""
    return tuple(part.double() for part in parts)


def rounded(parts: Parts, like: Parts) -> Parts:
    """Rounds parts to the types of `like`."""
    return tuple(part.to(given.dtype) for part, given in zip(parts, like))
