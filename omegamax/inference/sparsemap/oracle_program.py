"""A Python function that finds the best vertex, as a program: one call per item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.host import to_device, to_host


@dataclass(frozen=True, eq=False)
class OracleProgram(Program):
    """Calls `best` with the parts of an item in float64, which returns a vertex in their shapes, or None.

    Its Ω is Hard.
    """

    best: Callable[[Parts], Parts | None]
    n_parts: int

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Calls the function once per item whose scores are numbers; the state is the vertices."""
        host = to_host(*parts)
        vertices = tuple(torch.zeros_like(part) for part in host)
        values = host[0].new_full((host[0].shape[0],), -torch.inf)
        for item in range(len(values)):
            scores = tuple(part[item].double() for part in host)
            if any(bool((score.isnan() | (score == torch.inf)).any()) for score in scores):
                values[item] = torch.nan
                for vertex in vertices:
                    vertex[item] = torch.nan
                continue
            found = self.best(scores)
            if found is None:
                continue
            total = 0.0
            for score, given, vertex in zip(scores, found, vertices):
                used = given != 0
                total += float((score[used] * given[used]).sum())
                vertex[item] = given
            values[item] = total
        return to_device((values, vertices), parts[0].device)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult(tuple(vertex.clone() for vertex in state), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return SweepResult(tuple(0 * vertex for vertex in state), (), ())
