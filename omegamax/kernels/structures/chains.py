"""The compiled sweeps of a chain: they are linear in its length and store one or two numbers per node.

The specification is the generic engine (`inference/hypergraphs/sweeps.py`) on the hypergraph of `Chain`.
`parts` are one dense tensor (batch, N, C, C), or emissions (batch, N, C), transitions (batch, C, C), start and end
(batch, C); `lengths` is (batch,) int64, contiguous. `order`, (batch, N) int32 and contiguous, says in which order the
places are read: the first `lengths` of them, the others are left out; None reads them as they lie. Every Ω of `Omega`
is compiled.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch

_SPARSE = (Omega.SQUARED_NORM, Omega.TSALLIS15)
_LEFT_OUT = 8  # a factored chain stores all but one of this many places, as in csrc/chains/item.hpp

Parts = tuple[Tensor, ...]


def chain_value(parts: Parts, lengths: Tensor, omega: Omega, order: Tensor | None = None) -> tuple[Tensor, Parts]:
    """Computes DP_Ω (batch,) in float64, and the state: DP_Ω again, then one or two numbers per node."""
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
    _launch("chain_value", tensors, omega, (addresses, strides, lengths, order), (value, state[0], values, levels))
    return value, tuple(state)


def chain_marginals(parts: Parts, lengths: Tensor, omega: Omega, state: Parts, order: Tensor | None = None) -> Parts:
    """Computes ∇ DP_Ω, shaped as the parts, from the state that `chain_value` returned."""
    found = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
    tensors, addresses, strides = _readable(parts)
    values, levels = _values_and_levels(state, omega, len(parts) == 1)
    known = addresses, strides, lengths, order, state[0], values, levels
    _launch("chain_marginals", tensors, omega, known, (_addresses(found),))
    return tuple(found)


def chain_tangent(
    parts: Parts, lengths: Tensor, omega: Omega, state: Parts, direction: Parts, order: Tensor | None = None
) -> Parts:
    """Computes ∇² DP_Ω · direction, shaped as the parts. There is no such sweep for `Omega.HARD`."""
    found = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
    tensors, addresses, strides = _readable(parts)
    along, *moved = _readable(tuple(d.to(part.dtype) for d, part in zip(direction, parts)))
    values, levels = _values_and_levels(state, omega, len(parts) == 1)
    known = addresses, strides, lengths, order, state[0], values, levels, *moved
    _launch("chain_tangent", tensors, omega, known, (_addresses(found),))
    del along  # may hold copies, which must not be freed before the call has read them
    return tuple(found)


def _launch(entry: str, parts: Parts, omega: Omega, known: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Calls an entry; `known` is what it reads, of which the third is the lengths, and `results` what it writes."""
    first = parts[0]
    n_items = known[2].shape[0]
    n_places, n_tags = first.shape[1], first.shape[-1]
    extent = {
        "itemsize": first.element_size(),
        "n_items": n_items,
        "cost": n_places * n_tags * (n_tags if len(parts) == 1 else 1),
    }
    launch(entry, *known, omega, n_places, n_tags, *results, **extent)


def _values_and_levels(state: Any, omega: Omega, is_dense: bool) -> tuple[Tensor | int, Tensor | int]:
    """Returns the values and the levels of nodes: a factored chain stores one of them and recomputes the other."""
    if len(state) == 3:
        return state[1], state[2]
    return (0, state[1]) if omega == Omega.SHANNON and not is_dense else (state[1], 0)


def _readable(parts: Parts) -> tuple[Parts, list[int], list[int]]:
    """Returns parts as the native entries read them, their addresses, and the step from one item to the next.

    The step is 0 where all items share one tensor. The tensors may be copies, which the caller keeps during the call.
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
