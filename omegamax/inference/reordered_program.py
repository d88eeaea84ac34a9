"""A program that reads the positions of its first part in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult


def reordered(part: Tensor, order: Tensor) -> Tensor:
    """Returns a part (batch, N, ...) with its positions in this order (batch, N)."""
    index = order.to(part.device).long().reshape(*order.shape, *(1,) * (part.dim() - 2))
    return part.gather(1, index.expand(part.shape))


@dataclass(frozen=True, eq=False)
class ReorderedProgram(Program):
    """Sweeps over a copy of the first part (batch, N, ...) in which positions lie in another order.

    Marginals and tangents are moved back, so that callers see the order in which they gave the part.
    """

    inner: Program
    order: Tensor  # (batch, N), a permutation for every item

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return self.inner.n_parts

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        return self.inner.value(self._moved(parts))

    def value_before_marginals(self, parts: Parts) -> tuple[Tensor, State]:
        return self.inner.value_before_marginals(self._moved(parts))

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return self._moved_back(self.inner.marginals(self._moved(parts), state))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return self._moved_back(self.inner.tangent(self._moved(parts), state, self._moved(direction)))

    def parameters(self) -> tuple[Tensor, ...]:
        return self.inner.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> Program:
        return replace(self, inner=self.inner.with_parameters(parameters))

    def scaled(self, scale: float) -> Program | None:
        inner = self.inner.scaled(scale)
        return None if inner is None else replace(self, inner=inner)

    def _moved(self, parts: Parts) -> Parts:
        return (reordered(parts[0], self.order), *parts[1:])

    def _moved_back(self, result: SweepResult) -> SweepResult:
        first, *others = result.parts
        return result._replace(parts=(reordered(first, self.order.argsort(1)), *others))
