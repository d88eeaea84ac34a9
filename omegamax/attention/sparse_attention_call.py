"""One call of sparse attention: its arguments, checked, and the way that it takes.

The sparse way needs an operator that the native kernels know, and plain tensors on a CPU. Everything else takes dense
scores, which are the specification.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.attention.inputs import (
    at_least_float32,
    check_inputs,
    checked_bias,
    in_four_axes,
    with_heads,
    with_one_batch,
)
from omegamax.attention.key_counts import count_keys
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.masking import attention_mask, zero_idle, zero_unread
from omegamax.attention.normalizers import check_normalizer, normalize
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.row_normalizer import RowNormalizer, take_apart
from omegamax.attention.sparse_attention_function import Settings, SparseAttention
from omegamax.attention.sparse_attention_gpu import GpuSparseAttention, runs_on_gpu
from omegamax.attention.sparse_attention_operator import recorded
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.kernels.sparse_attention import can_be_recorded, can_run, dense_attention
from omegamax.operators.tsallis import Tsallis

_WHO = "sparse_attention"


class SparseAttentionCall:
    """The arguments of `sparse_attention`, checked, with an axis for heads and in float32 or float64."""

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        normalizer: Any,
        *,
        mask: Tensor | None,
        causal: bool,
        lengths: Tensor | None,
        bias: Tensor | RelativeBias | None,
        scale: float | None,
        dropout: float,
    ) -> None:
        check_inputs(_WHO, query, key, value)
        check_whole_sequence(_WHO, query, key, value)
        check_normalizer(_WHO, normalizer)
        if scale is not None:
            checks.check_finite(_WHO, "scale", scale, "leave it out for 1 / √size")
        if not 0 <= dropout < 1:
            raise ValueError(f"{_WHO}: dropout must lie in [0, 1), got {dropout}; 0 switches it off")
        self.dtype, self.has_heads = query.dtype, query.dim() > 2
        self.query, self.key, self.value = (with_heads(at_least_float32(x)) for x in (query, key, value))
        self.normalizer, self.causal, self.dropout = normalizer, causal, float(dropout)
        self.scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
        self.lead = torch.broadcast_shapes(*(x.shape[:-3] for x in (self.query, self.key, self.value)))
        self.n_queries, self.n_keys = self.query.shape[-2], self.key.shape[-2]
        self.shape = (*self.lead, self.query.shape[-3], self.n_queries, self.n_keys)  # of the scores
        self.like_scores = self.query.new_zeros(()).expand(self.shape)
        if mask is not None:
            checks.check_mask(_WHO, self.like_scores, mask)
        if lengths is not None:
            lengths = checks.check_lengths(_WHO, self.shape[:-2], lengths)
            checks.check_counts(_WHO, "lengths", lengths, self.n_keys, "count the keys of each item")
        self.mask, self.lengths = mask, lengths
        self.bias = checked_bias(_WHO, bias, self.shape, self.query.dtype)
        self.in_graph = False  # whether the registered operator takes the place of the Function
        self.on_gpu = False  # whether the Triton kernels do

    def prepared(self, *, keeps_all: bool) -> tuple[Settings | None, tuple[Any, ...]]:
        """Returns the settings and the inputs of the sparse way, or (None, ()) where there is none.

        Arguments:
            keeps_all: whether the whole support is wanted, however large
        """
        parts = self._take_apart()
        if parts is None or not parts.has_kernel(self.query.shape[-1]):
            return None, ()
        parameter = parts.parameter
        tensors = self._tensors(parameter, *parts.gammas, parts.factor)
        self.on_gpu = not keeps_all and self.dropout == 0 and runs_on_gpu(tensors, parts, self.value.shape[-1])
        self.in_graph = not self.on_gpu and not can_run(tensors)
        if self.in_graph and (keeps_all or not can_be_recorded(tensors)):
            return None, ()
        if 0 in self.shape or self.value.shape[-1] == 0:
            return None, ()
        if parameter is not None and parameter.requires_grad and not isinstance(parts.operator, Tsallis):
            return None, ()  # the gradient of a strength needs the whole row
        if parameter is not None:
            checks.check_row_parameter(_WHO, parts.operator.learnable or "", parameter, self.like_scores)
            parameter = in_four_axes(parameter, self.lead)
        if routing.is_compiling() and any(isinstance(gamma, Tensor) for gamma in parts.gammas):
            return None, ()  # whether it is safe depends on its numbers, which a graph does not know
        if not parts.is_safe():
            return None, ()
        query, scale = parts.applied(_WHO, self.query, self.scale, self.like_scores)
        inputs = (with_one_batch(x, self.lead) for x in (query, self.key, self.value))
        settings = Settings(
            parts.operator,
            scale,
            causal=bool(self.causal),
            lengths=self._lengths_of_heads(),
            mask=None if self.mask is None else in_four_axes(self.mask, self.lead).contiguous(),
            relative=isinstance(self.bias, RelativeBias),
            dropout=self.dropout,
            seed=torch.randint(1 << 62, ()) if self.dropout > 0 else 0,
            keeps_all=keeps_all,
        )
        return settings, (*inputs, parameter, self._scaled_bias(parts))

    def output(self, settings: Settings | None, inputs: tuple[Any, ...]) -> Tensor:
        """Computes the output by the sparse way, or by the dense one where there are no settings."""
        if settings is None:
            return self.dense()[0]
        if self.in_graph:
            found = recorded(settings, *inputs)
        else:
            found = (GpuSparseAttention if self.on_gpu else SparseAttention).apply(settings, *inputs)
        return self._shaped(found.reshape(*self.lead, *found.shape[1:]))

    def dense(self) -> tuple[Tensor, Tensor]:
        """Computes output and weights from dense scores: the specification."""
        allowed = attention_mask(_WHO, self.like_scores, mask=self.mask, lengths=self.lengths, causal=self.causal)
        repeats = self.query.shape[-3] // self.key.shape[-3]
        query = zero_idle(self.query, allowed, self.n_keys)
        key, value = (
            zero_unread(x.repeat_interleave(repeats, -3) if repeats > 1 else x, allowed, self.n_queries)
            for x in (self.key, self.value)
        )
        bias = self.bias.dense(self.n_queries, self.n_keys) if isinstance(self.bias, RelativeBias) else self.bias
        before: list[Tensor] = []

        def weigh(scores: Tensor) -> Tensor:
            before.append(normalize(self.normalizer, scores, allowed))
            return nn.functional.dropout(before[0], self.dropout)

        output, _ = dense_attention(query, key, value, weigh, scale=self.scale, bias=bias)
        return self._shaped(output), before[0]

    def _take_apart(self) -> RowNormalizer | None:
        """Returns the parts of the normalizer, or None where the sparse way cannot use them."""
        smooth = self.normalizer
        if isinstance(smooth, LengthScaled) and not can_run(self._tensors(*smooth.parameters())):
            return None  # keys are counted by reading biases, which other contexts cannot do
        parts = take_apart(smooth, self.like_scores, self._count_keys)
        if isinstance(self.bias, RelativeBias):
            # A number for each query makes the bias more than a table by distance.
            numbers = [x for x in (*parts.gammas, parts.factor) if isinstance(x, Tensor)]
            if any(x.dim() > 1 and x.shape[-2] > 1 for x in numbers):
                return None
        return parts

    def _count_keys(self) -> Tensor:
        """Counts the keys that each query may attend to; broadcasts to (..., Q, 1)."""
        return count_keys(
            self.shape,
            mask=self.mask,
            lengths=self.lengths,
            causal=self.causal,
            bias=self.bias,
            device=self.query.device,
        )

    def _tensors(self, *more: Any) -> list[Tensor]:
        """Lists all tensors of the call, and those among `more`."""
        table = self.bias.table if isinstance(self.bias, RelativeBias) else self.bias
        found = (self.query, self.key, self.value, table, self.mask, self.lengths, *more)
        return [x for x in found if isinstance(x, Tensor)]

    def _scaled_bias(self, parts: RowNormalizer) -> Tensor | None:
        """Returns the bias over the temperatures and times the factor, which may be 0: −inf stays."""
        if self.bias is None:
            return None
        relative = isinstance(self.bias, RelativeBias)
        table = self.bias.table if isinstance(self.bias, RelativeBias) else self.bias

        def fitting(number: Any) -> Any:
            """Numbers of rows are (..., 1, 1) for a table by distance, which has no axis of queries."""
            if not isinstance(number, Tensor):
                return number
            number = number.to(table.dtype)
            return number.squeeze(-1) if relative and number.dim() else number

        for gamma in parts.gammas:
            table = table / fitting(gamma)
        if parts.factor is not None:
            out = table == -torch.inf
            table = torch.where(out, table, torch.where(out, 0, table) * fitting(parts.factor))
        if relative:
            return in_four_axes(table.unsqueeze(-2), self.lead).squeeze(2).contiguous()
        return in_four_axes(table, self.lead).contiguous()

    def _lengths_of_heads(self) -> Tensor | None:
        """Returns the lengths as (batch · heads,)."""
        if self.lengths is None:
            return None
        heads = self.shape[:-2]
        lengths = self.lengths.reshape(self.lengths.shape + (1,) * (len(heads) - self.lengths.dim()))
        return lengths.expand(heads).long().reshape(-1).clone()

    def _shaped(self, output: Tensor) -> Tensor:
        """Gives the output the axes and the type of the queries."""
        return (output if self.has_heads else output.squeeze(-3)).to(self.dtype)
