"""The sweeps of a chain without a hypergraph: compiled, linear in its length, one number per node for a state.

Equal to `LatticeProgram` on the lattice of `Chain`, dense and factored, for the Ω that `chain_omega` knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis

_HARD, _SHANNON, _SQUARED_NORM, _TSALLIS15 = range(4)  # as in csrc/chain_problems.hpp
_LEFT_OUT = 8  # of so many places a factored chain remembers all but one, as in csrc/chain_item.hpp
_OF_ALPHA = {1.0: _SHANNON, 1.5: _TSALLIS15, 2.0: _SQUARED_NORM}


def chain_omega(regularizer: Regularizer) -> int | None:
    """The compiled sweeps' number for Ω, None where they have none."""
    if isinstance(regularizer, Tsallis):
        return None if isinstance(regularizer.alpha, Tensor) else _OF_ALPHA.get(float(regularizer.alpha))
    kinds: dict[type[Regularizer], int] = {Hard: _HARD, Shannon: _SHANNON, SquaredNorm: _SQUARED_NORM}
    return kinds.get(type(regularizer))


@dataclass(frozen=True, eq=False)
class ChainProgram(Program):
    """Native sweeps over one dense part (batch, N, C, C), or emissions, transitions, start and end."""

    omega: int
    lengths: Tensor  # (batch,), int64, contiguous
    n_parts: int

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """One sweep up. The state: the value again, then what the nodes need to be weighed once more."""
        memory, n_items, n_places, n_tags = _memory(parts), *parts[0].shape[:2], parts[0].shape[-1]
        value, total = (parts[0].new_empty(n_items, dtype=torch.float64) for _ in range(2))
        n_rows = n_places if self.n_parts == 1 else n_places - n_places // _LEFT_OUT
        n_kinds = 2 if self._is_sparse and self.n_parts == 1 else 1
        nodes = [parts[0].new_empty(n_items, n_rows, n_tags) for _ in range(n_kinds)]
        values, levels = self._values_and_levels(nodes)
        self._run("chain_value", parts, memory, value, total, values, levels)
        return value, (total, *nodes)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """One sweep down."""
        found = tuple(torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts)
        values, levels = self._values_and_levels(state[1:])
        self._run("chain_marginals", parts, _memory(parts), state[0], values, levels, _addresses(found))
        return Swept(found, (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """One sweep up, one down."""
        if self.omega == _HARD:  # the best chain does not move; where it is NaN, so is its derivative
            return Swept(tuple(0 * part for part in self.marginals(parts, state).parts), (), ())
        found = tuple(torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts)
        values, levels = self._values_and_levels(state[1:])
        along = _memory(tuple(d.to(part.dtype) for d, part in zip(direction, parts)))
        arguments = (state[0], values, levels, along.addresses, along.strides, _addresses(found))
        self._run("chain_tangent", parts, _memory(parts), *arguments)
        return Swept(found, (), ())

    @property
    def _is_sparse(self) -> bool:
        return self.omega in (_SQUARED_NORM, _TSALLIS15)

    def _values_and_levels(self, nodes: list[Tensor] | State) -> tuple[Tensor | int, Tensor | int]:
        """Factored chains find one from the other, or anew, since their state counts beside their potentials."""
        if len(nodes) == 2:
            return nodes[0], nodes[1]
        return (0, nodes[0]) if self.omega == _SHANNON and self.n_parts > 1 else (nodes[0], 0)

    def _run(self, name: str, parts: Parts, memory: _Memory, *arguments: object) -> None:
        n_items, n_places, n_tags = parts[0].shape[0], parts[0].shape[1], parts[0].shape[-1]
        work = n_places * n_tags * (n_tags if self.n_parts == 1 else 1)
        getattr(routing.native, name)(
            parts[0].element_size(),
            memory.addresses,
            memory.strides,
            routing.address(self.lengths),
            *(routing.address(a) if isinstance(a, Tensor) else a for a in arguments),
            self.omega,
            n_places,
            n_tags,
            n_items,
            work,
            torch.get_num_threads(),
        )


class _Memory(NamedTuple):
    """Parts as the kernels read them; `tensors` keeps copies alive."""

    tensors: Parts
    addresses: list[int]
    strides: list[int]  # from one item to the next; 0 where all share one


def _memory(parts: Parts) -> _Memory:
    tensors, strides = [], []
    for part in parts:
        shared = part.shape[0] == 1 or part.stride(0) == 0
        tensor = (part[:1] if shared else part).contiguous()
        tensors.append(tensor)
        strides.append(0 if shared else tensor[0].numel() if tensor.shape[0] else 0)
    strides += [0] * (4 - len(strides))
    return _Memory(tuple(tensors), _addresses(tuple(tensors)), strides)


def _addresses(tensors: Parts) -> list[int]:
    return [routing.address(tensor) for tensor in tensors] + [0] * (4 - len(tensors))
