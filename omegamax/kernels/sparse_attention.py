"""Sparse attention: the native calls, and the dense specification of what they compute.

    output = argmax_Ω(scale · query keyᵀ + bias) value

The native forward pass multiplies queries and keys in 8 bits, with a rigorous bound of the error, to find the few keys
of each row that can have weight, and solves exactly on those; it keeps the support in CSR form. The native backward
pass touches the support only. A block of queries in which most keys have weight is computed from dense scores, keeps
nothing, and is computed again in the backward pass: memory never grows with Q · K. All tensors here are (batch, heads,
length, features), contiguous, float32 or float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing

QUERY_BLOCK = 48  # queries of a task: kQueryBlock in csrc/attention/problems.hpp
BUDGET = 512  # entries of the support that a row may have on average: more are computed again in the backward pass
MAX_SIZE = 32768  # features of a key: sums of products of bytes fit into 32 bits

ENTMAX, TOP, OSCAR, FUSED = range(4)  # AttentionKind


class RowOperator(NamedTuple):
    """The operator that turns a row of scores into weights, as the native calls take it."""

    kind: int
    parameter: float | Tensor  # α, k or the strength; a tensor has one number per row, in double precision
    most: float = math.inf  # strength times the number of keys is at most this

    def arguments(self) -> tuple[int, float, int, float]:
        if isinstance(self.parameter, Tensor):
            return self.kind, 0.0, self.parameter.data_ptr(), self.most
        return self.kind, self.parameter, 0, self.most

    @property
    def has_labels(self) -> bool:
        """Whether the derivative needs to know which weights are equal."""
        return self.kind in (OSCAR, FUSED)


class Strides(NamedTuple):
    """A tensor read as (batch, heads, queries, keys): the tensor, its first element, and four strides."""

    tensor: Tensor
    start: int
    strides: tuple[int, int, int, int]

    @classmethod
    def of(cls, view: Tensor) -> Strides:
        """Reads a view with four axes, which may be broadcast."""
        batch, head, query, key = (0 if n == 1 else s for n, s in zip(view.shape, view.stride()))
        return cls(view, 0, (batch, head, query, key))

    def arguments(self) -> tuple[int, ...]:
        """Returns the address of the first element, and the strides."""
        return self.tensor.data_ptr() + self.start * self.tensor.itemsize, *self.strides


@dataclass(frozen=True)
class Rows:
    """All that makes rows of scores from products: the scale, what is added, and what is left out."""

    scale: float
    causal: bool = False
    lengths: Tensor | None = None  # (batch · heads,) integers
    mask: Strides | None = None  # boolean
    bias: Strides | None = None
    dropout: float = 0.0
    seed: int = 0


class Support(NamedTuple):
    """The weights that are not zero, in CSR form; rows are (batch, head, query). A NaN row has one entry."""

    offsets: Tensor  # (rows + 1,) int64
    indices: Tensor  # (entries,) int32, in order within each row
    weights: Tensor  # (entries,)
    labels: Tensor | None  # (entries,) int32: segments or clusters


class NativeOutput(NamedTuple):
    """The results of the native forward pass."""

    output: Tensor  # (batch, heads, queries, value features)
    support: Support | None
    refused: Tensor  # (batch, heads, blocks) boolean: blocks of QUERY_BLOCK queries whose support is not kept


class Gradients(NamedTuple):
    """The results of the native backward pass."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor  # one per entry of the support
    along: Tensor | None  # one per row: <J v, ∂_α ∇Ω>, the gradient with respect to α with the opposite sign


_NOTHING = (0, 0, 0, 0, 0)


def dense_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weigh: Callable[[Tensor], Tensor],
    *,
    scale: float | Tensor,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes output and weights: the specification. `weigh` turns scores (..., Q, K) into weights, masks included."""
    scores = (query * scale) @ key.transpose(-1, -2)
    weights = weigh(scores if bias is None else scores + bias)
    return weights @ value, weights


def can_run(tensors: list[Tensor]) -> bool:
    """Says whether native kernels may read the tensors, and nothing but reverse mode records."""
    context = routing.context(*tensors)
    if context is not routing.Context.NATIVE and context is not routing.Context.AUTOGRAD:
        return False
    return routing.native is not None and all(t.is_cpu and t.layout is torch.strided for t in tensors)


def can_be_recorded(tensors: list[Tensor]) -> bool:
    """Says whether `torch.compile` or a dispatch mode records plain tensors that native kernels can read later."""
    if routing.transforms_active() or routing.is_exporting():
        return False
    context = routing.context(*tensors)
    if context is not routing.Context.WATCHED and not (context is routing.Context.GRAPH and routing.is_compiling()):
        return False
    readable = all(routing.is_concrete(t) and t.is_cpu and t.layout is torch.strided for t in tensors)
    return routing.native is not None and readable


def n_blocks(n_queries: int) -> int:
    """Returns the number of blocks of queries."""
    return -(-n_queries // QUERY_BLOCK)


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    operator: RowOperator,
    rows: Rows,
    *,
    wants_support: bool,
    may_refuse: bool,
) -> NativeOutput:
    """Computes output and support. The support of blocks in which most keys have weight may be refused."""
    batch, heads, n_queries, _ = query.shape
    output = query.new_empty(batch, heads, n_queries, value.shape[-1])
    refused = torch.empty(batch, heads, n_blocks(n_queries), dtype=torch.bool)
    found = routing.native.sparse_attention(
        query.itemsize,
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        output.data_ptr(),
        _sizes(query, key, value),
        operator.arguments(),
        rows.dropout,
        rows.seed,
        rows.scale,
        rows.causal,
        0 if rows.lengths is None else rows.lengths.data_ptr(),
        _NOTHING if rows.mask is None else rows.mask.arguments(),
        _NOTHING if rows.bias is None else rows.bias.arguments(),
        BUDGET,
        may_refuse,
        wants_support,
        refused.data_ptr(),
        torch.get_num_threads(),
    )
    if not wants_support:
        return NativeOutput(output, None, refused)
    offsets = torch.empty(batch * heads * n_queries + 1, dtype=torch.int64)
    indices = torch.empty(found.n_entries, dtype=torch.int32)
    weights = query.new_empty(found.n_entries)
    labels = torch.empty_like(indices) if operator.has_labels else None
    found.write(offsets.data_ptr(), indices.data_ptr(), weights.data_ptr(), 0 if labels is None else labels.data_ptr())
    return NativeOutput(output, Support(offsets, indices, weights, labels), refused)


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad_output: Tensor,
    support: Support,
    operator: RowOperator,
    rows: Rows,
    *,
    wants_along: bool,
) -> Gradients:
    """Computes the gradients from the support alone; rows without any contribute zero."""
    offsets, indices, weights, labels = support
    found = Gradients(
        torch.empty_like(query),
        torch.empty_like(key),
        torch.empty_like(value),
        torch.empty_like(weights),
        query.new_empty(query.shape[:-1]) if wants_along else None,
    )
    routing.native.sparse_attention_gradient(
        query.itemsize,
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        grad_output.data_ptr(),
        _sizes(query, key, value),
        (offsets.data_ptr(), indices.data_ptr(), weights.data_ptr(), 0 if labels is None else labels.data_ptr()),
        operator.arguments(),
        rows.dropout,
        rows.seed,
        rows.scale,
        found.scores.data_ptr(),
        found.query.data_ptr(),
        found.key.data_ptr(),
        found.value.data_ptr(),
        0 if found.along is None else found.along.data_ptr(),
        torch.get_num_threads(),
    )
    return found


def add_dense_gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad_output: Tensor,
    refused: Tensor,
    operator: RowOperator,
    rows: Rows,
    found: Gradients,
    *,
    first_row: int = 0,
    grad_scores: Tensor | None = None,
) -> None:
    """Adds the gradients of the refused blocks. `grad_scores` (rows, K), from `first_row` on, gets those of scores."""
    routing.native.sparse_attention_dense_gradient(
        query.itemsize,
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        grad_output.data_ptr(),
        _sizes(query, key, value),
        operator.arguments(),
        rows.dropout,
        rows.seed,
        rows.scale,
        rows.causal,
        0 if rows.lengths is None else rows.lengths.data_ptr(),
        _NOTHING if rows.mask is None else rows.mask.arguments(),
        _NOTHING if rows.bias is None else rows.bias.arguments(),
        refused.data_ptr(),
        found.query.data_ptr(),
        found.key.data_ptr(),
        found.value.data_ptr(),
        0 if found.along is None else found.along.data_ptr(),
        0 if grad_scores is None else grad_scores.data_ptr(),
        first_row,
        torch.get_num_threads(),
    )


def _sizes(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    batch, heads, n_queries, size = query.shape
    return batch, heads, key.shape[1], n_queries, key.shape[2], size, value.shape[-1]
