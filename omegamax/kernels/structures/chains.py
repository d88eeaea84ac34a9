"""The compiled sweeps of a chain: linear in its length, one number per node for a state.

Specified by the generic engine (`inference/hypergraphs/sweeps.py`) on the hypergraph of `Chain`, dense or factored.
`parts` are one dense tensor (batch, N, C, C), or emissions (batch, N, C), transitions (batch, C, C), start and end
(batch, C); `lengths` is (batch,) int64, contiguous. Every Ω of `Omega` is compiled.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch

_SPARSE = (Omega.SQUARED_NORM, Omega.TSALLIS15)
_LEFT_OUT = 8  # of so many places a factored chain stores all but one, as in csrc/chains/item.hpp

Parts = tuple[Tensor, ...]


def chain_value(parts: Parts, lengths: Tensor, omega: Omega) -> tuple[Tensor, Parts]:
    """DP_Ω (batch,) in float64, and the state: DP_Ω again, then one or two numbers per node."""
    first = parts[0]
    n_items, n_places, n_tags = first.shape[0], first.shape[1], first.shape[-1]
    is_dense = len(parts) == 1
    n_rows = n_places if is_dense else n_places - n_places // _LEFT_OUT
    value = first.new_empty(n_items, dtype=torch.float64)
    state = [torch.empty_like(value), first.new_empty(n_items, n_rows, n_tags)]
    if is_dense and omega in _SPARSE:
        state.append(first.new_empty(n_items, n_rows, n_tags))
    tensors, addresses, strides = _readable(parts)
    values, levels = _values_and_levels(state, omega, is_dense)
    _launch("chain_value", tensors, addresses, strides, lengths, value, state[0], values, levels, omega)
    return value, tuple(state)


def chain_marginals(parts: Parts, lengths: Tensor, omega: Omega, state: Parts) -> Parts:
    """∇ DP_Ω, shaped as the parts, from the state that `chain_value` returned."""
    found = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
    tensors, addresses, strides = _readable(parts)
    values, levels = _values_and_levels(state, omega, len(parts) == 1)
    weights = _addresses(found)
    _launch("chain_marginals", tensors, addresses, strides, lengths, state[0], values, levels, weights, omega)
    return tuple(found)


def chain_tangent(parts: Parts, lengths: Tensor, omega: Omega, state: Parts, direction: Parts) -> Parts:
    """∇² DP_Ω · direction, shaped as the parts. There is no such sweep for `Omega.HARD`."""
    found = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
    tensors, addresses, strides = _readable(parts)
    along, *moved = _readable(tuple(d.to(part.dtype) for d, part in zip(direction, parts)))
    values, levels = _values_and_levels(state, omega, len(parts) == 1)
    weights = _addresses(found)
    _launch("chain_tangent", tensors, addresses, strides, lengths, state[0], values, levels, *moved, weights, omega)
    del along  # the copies that were read had to live until here
    return tuple(found)


def _launch(entry: str, parts: Parts, *arguments: Any) -> None:
    first = parts[0]
    n_items = arguments[2].shape[0]
    n_places, n_tags = first.shape[1], first.shape[-1]
    cost = n_places * n_tags * (n_tags if len(parts) == 1 else 1)
    launch(entry, *arguments, n_places, n_tags, itemsize=first.element_size(), n_items=n_items, cost=cost)


def _values_and_levels(state: Any, omega: Omega, is_dense: bool) -> tuple[Tensor | int, Tensor | int]:
    """The values and the levels of nodes: a factored chain stores one of them and computes the other again."""
    if len(state) == 3:
        return state[1], state[2]
    return (0, state[1]) if omega == Omega.SHANNON and not is_dense else (state[1], 0)


def _readable(parts: Parts) -> tuple[Parts, list[int], list[int]]:
    """Parts as the native entries read them, their addresses, and the step from one item to the next.

    The step is 0 where all items share one tensor. The tensors may be copies, which have to live during the call.
    """
    tensors, strides = [], []
    for part in parts:
        is_shared = part.shape[0] == 1 or part.stride(0) == 0
        tensor = (part[:1] if is_shared else part).contiguous()
        tensors.append(tensor)
        strides.append(0 if is_shared else tensor[0].numel() if tensor.shape[0] else 0)
    return tuple(tensors), _addresses(tensors), strides + [0] * (4 - len(strides))


def _addresses(tensors: Any) -> list[int]:
    return routing.addresses(tensors) + [0] * (4 - len(tensors))
