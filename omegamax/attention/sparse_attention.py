"""Attention whose cost follows the number of weights that are not zero.

    output = argmax_Ω(scale · query keyᵀ + bias) value

Only keys within a window of a row's largest score can have weight under sparsemax, entmax, fusedmax, oscarmax and
top-k softmax. On a CPU, queries and keys are therefore multiplied in 8 bits first, with a rigorous bound of the error,
to find those keys; only their scores are computed in full. The result is exact, the backward pass touches the support
only, and memory grows with Q + K, not with Q · K.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.attention.inputs import check_inputs, checked_bias, spread, with_heads
from omegamax.attention.key_counts import count_keys
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.masking import attention_mask, zero_idle, zero_unread
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.sparse_attention_function import NATIVE_OPERATORS, Settings, SparseAttention
from omegamax.attention.sparse_attention_operator import recorded
from omegamax.attention.top_k import TopK
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.kernels.sparse_attention import MAX_SIZE, can_be_recorded, can_run, dense_attention
from omegamax.modules import Above, ArgmaxModule
from omegamax.operators.scaled import Scaled
from omegamax.operators.tsallis import Tsallis

_HALVES = (torch.float16, torch.bfloat16)
_SAFE_GAMMA = 1e-6  # scores up to 1e30, divided by this, are finite in float32


class SparseAttentionOutput(NamedTuple):
    """The output of attention, and its weights that are not zero."""

    output: Tensor  # (..., heads, Q, features)
    weights: Tensor  # sparse CSR, (rows, K): a row for each query of each head of each item, in that order
    support_sizes: Tensor  # (..., heads, Q): how many weights of each row are not zero

    def head(self, *index: int) -> Tensor:
        """Returns the weights of one head of one item, sparse CSR, (Q, K); `index` has a number for each leading axis.

        >>> x = torch.eye(4).reshape(1, 2, 2, 4)  # one item, two heads, two vectors
        >>> om.sparse_attention_with_weights(x, x, x, SquaredNorm(), scale=2.0).head(0, 1).to_dense()
        tensor([[1., 0.],
                [0., 1.]])
        """
        lead, n_queries = self.output.shape[:-2], self.output.shape[-2]
        if len(index) != len(lead) or not all(-n <= i < n for i, n in zip(index, lead)):
            raise ValueError(
                f"SparseAttentionOutput: head needs one number for each of the axes {tuple(lead)}, got {index}; count "
                "from 0"
            )
        start = 0
        for i, n in zip(index, lead):
            start = start * n + i % n
        offsets = self.weights.crow_indices()[start * n_queries : (start + 1) * n_queries + 1]
        held = slice(int(offsets[0]), int(offsets[-1]))
        columns, weights = self.weights.col_indices()[held], self.weights.values()[held]
        return _csr(offsets - offsets[0], columns, weights, self.weights.shape[1])


def sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    lengths: Tensor | None = None,
    bias: Tensor | RelativeBias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """argmax_Ω(scale · query keyᵀ + bias) value, computed from the keys that can have weight.

    The sparse way exists on a CPU for `SquaredNorm`, `Tsallis` above order 1, `Oscar`, `Fused` and `TopK`, also inside
    `Scaled` and `LengthScaled` and as layers (`om.Entmax()`, ...), in eager mode and in graphs of `torch.compile`. Any
    other normalizer, and any other context (`torch.func` transforms, forward mode, export, another device, under
    `torch.compile` a temperature that is a tensor or `LengthScaled`), takes dense scores: the same result, and memory
    that grows with Q · K. So does a `RelativeBias` whose rows have different temperatures. The sparse way is
    differentiable once; differentiating twice raises.

    Arguments:
        query: (..., heads, Q, size)
        key: (..., kv heads, K, size); each head of the keys serves heads / kv heads heads of the queries
        value: (..., kv heads, K, features)
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        mask: boolean, broadcasts to (..., heads, Q, K); True means "may attend"
        causal: whether query i sees only keys up to i, counted from the end where there are fewer queries than keys
        lengths: how many keys each item has, integers shaped as the leading axes
        bias: added to the scores: a tensor that broadcasts to (..., heads, Q, K), or a `RelativeBias` (see `alibi`)
        scale: what products are multiplied by; None is 1/√size
        dropout: the share of weights that are dropped

    Returns the output (..., heads, Q, features). A query that may attend to nothing gets zeros. What a masked key or
    value holds reaches nothing; NaN in a query, or in a key that a query may attend to, makes the output of that query
    NaN.

    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> sparse_attention(query, key, torch.eye(3), SquaredNorm(), scale=1.0)
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    call = _Call(query, key, value, normalizer, mask, causal, lengths, bias, scale, dropout)
    return call.output(*call.prepared(keeps_all=False))


def sparse_attention_with_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    lengths: Tensor | None = None,
    bias: Tensor | RelativeBias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> SparseAttentionOutput:
    """`sparse_attention`, with its weights as a sparse CSR tensor, which take no extra pass, and their numbers.

    The weights have no gradient, and are those before dropout. A NaN row has one weight, NaN.

    Arguments:
        query: (..., heads, Q, size)
        key: (..., kv heads, K, size)
        value: (..., kv heads, K, features)
        normalizer: what turns scores into weights
        mask: boolean, broadcasts to (..., heads, Q, K); True means "may attend"
        causal: whether query i sees only keys up to i
        lengths: how many keys each item has
        bias: added to the scores
        scale: what products are multiplied by; None is 1/√size
        dropout: the share of weights that are dropped
    """
    call = _Call(query, key, value, normalizer, mask, causal, lengths, bias, scale, dropout)
    settings, inputs = call.prepared(keeps_all=True)
    if settings is None:
        output, weights = call.dense()
        rows = weights.detach().reshape(-1, weights.shape[-1])
        sizes = (rows != 0).sum(-1)
        row, column = rows.nonzero(as_tuple=True)
        offsets = nn.functional.pad(sizes.cumsum(0), (1, 0))
        csr = _csr(offsets, column, rows[row, column], call.n_keys)
        return SparseAttentionOutput(output, csr, sizes.reshape(output.shape[:-1]))
    output = call.output(settings, inputs)
    (support,) = settings.found
    sizes = support.offsets.diff().reshape(output.shape[:-1])
    csr = _csr(support.offsets, support.indices.long(), support.weights, call.n_keys)
    return SparseAttentionOutput(output, csr, sizes)


def sparse_output_or_none(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    mask: Tensor | None,
    causal: bool,
    bias: Tensor | None,
    scale: float | None,
    dropout: float,
) -> Tensor | None:
    """`sparse_attention`, or None where it would take dense scores: for layers, which have their own."""
    call = _Call(query, key, value, normalizer, mask, causal, None, bias, scale, dropout)
    settings, inputs = call.prepared(keeps_all=False)
    return None if settings is None else call.output(settings, inputs)


def _csr(offsets: Tensor, columns: Tensor, weights: Tensor, n_keys: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(offsets, columns, weights, (len(offsets) - 1, n_keys), check_invariants=False)


class _Call:
    """The arguments of a call, checked."""

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        normalizer: Any,
        mask: Tensor | None,
        causal: bool,
        lengths: Tensor | None,
        bias: Tensor | RelativeBias | None,
        scale: float | None,
        dropout: float,
    ) -> None:
        who = "sparse_attention"
        check_inputs(who, query, key, value)
        check_whole_sequence(who, query, key, value)
        check_normalizer(who, normalizer)
        if scale is not None:
            checks.check_finite(who, "scale", scale, "leave it out for 1 / √size")
        if not 0 <= dropout < 1:
            raise ValueError(f"{who}: dropout must lie in [0, 1), got {dropout}; 0 switches it off")
        self.dtype, self.has_heads = query.dtype, query.dim() > 2
        self.query, self.key, self.value = (
            with_heads(x.float() if x.dtype in _HALVES else x) for x in (query, key, value)
        )
        self.normalizer, self.causal, self.dropout = normalizer, causal, float(dropout)
        self.scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
        self.lead = torch.broadcast_shapes(*(x.shape[:-3] for x in (self.query, self.key, self.value)))
        self.n_queries, self.n_keys = self.query.shape[-2], self.key.shape[-2]
        self.shape = (*self.lead, self.query.shape[-3], self.n_queries, self.n_keys)  # of the scores
        self.like_scores = self.query.new_zeros(()).expand(self.shape)
        if mask is not None:
            checks.check_mask(who, self.like_scores, mask)
        if lengths is not None:
            lengths = checks.check_lengths(who, self.shape[:-2], lengths)
            checks.check_counts(who, "lengths", lengths, self.n_keys, "count the keys of each item")
        self.mask, self.lengths = mask, lengths
        self.bias = checked_bias(who, bias, self.shape, self.query.dtype)
        self.in_graph = False  # whether the registered operator takes the place of the Function

    def prepared(self, *, keeps_all: bool) -> tuple[Settings | None, tuple[Any, ...]]:
        """What the sparse way takes, or (None, ()) where there is none."""
        smooth, gammas, factor = self._operator()
        if type(smooth) not in NATIVE_OPERATORS or not 0 < self.query.shape[-1] <= MAX_SIZE:
            return None, ()
        parameter: Any = next(iter(smooth.parameters()), None) if not isinstance(smooth, TopK) else None
        table = self.bias.table if isinstance(self.bias, RelativeBias) else self.bias
        tensors = self._tensors(parameter, *gammas, factor)
        self.in_graph = not can_run(tensors)
        if self.in_graph and (keeps_all or not can_be_recorded(tensors)):
            return None, ()
        if 0 in self.like_scores.shape or self.value.shape[-1] == 0:
            return None, ()
        if isinstance(smooth, Tsallis):
            if parameter is None and smooth.alpha == 1:
                return None, ()
        elif parameter is not None and parameter.requires_grad:
            return None, ()  # the gradient of a strength needs the whole row
        if isinstance(parameter, Tensor):
            checks.check_row_parameter("sparse_attention", smooth.learnable or "", parameter, self.like_scores)
            parameter = self._spread(parameter if parameter.dim() else parameter.reshape(1))
        if routing.is_compiling() and any(isinstance(gamma, Tensor) for gamma in gammas):
            return None, ()  # whether it is safe depends on its numbers, which a graph does not know
        if any(float(gamma.detach().min() if isinstance(gamma, Tensor) else gamma) < _SAFE_GAMMA for gamma in gammas):
            return None, ()
        query, scale = self.query, self.scale
        for gamma in gammas:
            if isinstance(gamma, Tensor):
                checks.check_row_parameter("sparse_attention", "gamma", gamma, self.like_scores)
                query = query / gamma.to(query.dtype)
            else:
                scale /= gamma
            table = None if table is None else self._divided(table, gamma)
        if factor is not None:
            query = query * factor.to(query.dtype)
            table = None if table is None else self._multiplied(table, factor)
        relative = isinstance(self.bias, RelativeBias)
        batch = self.lead.numel()
        inputs = tuple(
            x.expand(*self.lead, *x.shape[-3:]).reshape(batch, *x.shape[-3:]).contiguous()
            for x in (query, self.key, self.value)
        )
        bias = None
        if table is not None:
            bias = (self._spread(table.unsqueeze(-2)).squeeze(2) if relative else self._spread(table)).contiguous()
        lengths = None
        if self.lengths is not None:
            heads = self.shape[:-2]
            lengths = self.lengths.reshape(self.lengths.shape + (1,) * (len(heads) - self.lengths.dim())).expand(heads)
            lengths = lengths.long().reshape(-1).clone()
        seed: int | Tensor = torch.randint(1 << 62, ()) if self.dropout > 0 else 0
        mask = None if self.mask is None else self._spread(self.mask).contiguous()
        settings = Settings(
            smooth, scale, bool(self.causal), lengths, mask, relative, self.dropout, seed, keeps_all, []
        )
        return settings, (*inputs, parameter, bias)

    def _tensors(self, *more: Any) -> list[Tensor]:
        """All tensors of the call, and those among `more`."""
        table = self.bias.table if isinstance(self.bias, RelativeBias) else self.bias
        found = (self.query, self.key, self.value, table, self.mask, self.lengths, *more)
        return [x for x in found if isinstance(x, Tensor)]

    def _divided(self, table: Tensor, gamma: float | Tensor) -> Tensor:
        """The bias over γ; a table by distance stays one where γ is the same for all queries."""
        if not isinstance(gamma, Tensor):
            return table / gamma
        if not isinstance(self.bias, RelativeBias) or gamma.dim() == 0:
            return table / gamma.to(table.dtype)
        return table / gamma.to(table.dtype).squeeze(-1)

    def _multiplied(self, table: Tensor, factor: Tensor) -> Tensor:
        """The bias times a factor for each row, which may be 0; −inf stays."""
        factor = factor.to(table.dtype)
        if isinstance(self.bias, RelativeBias):
            factor = factor.squeeze(-1)
        out = table == -torch.inf
        return torch.where(out, table, torch.where(out, 0, table) * factor)

    def _operator(self) -> tuple[Any, list[float | Tensor], Tensor | None]:
        """The innermost operator, the temperatures around it, and what scores are multiplied by."""
        smooth: Any = self.normalizer
        gammas: list[float | Tensor] = []
        factor = None
        if isinstance(smooth, LengthScaled):
            if not can_run(self._tensors(*smooth.parameters())):
                return None, [], None  # keys are counted by reading biases, which other contexts cannot do
            smooth, factor = smooth.normalizer, smooth.factor(self.like_scores, self._key_counts())
        if isinstance(smooth, ArgmaxModule):
            gammas.append(smooth.gamma() if isinstance(smooth.gamma, Above) else smooth.gamma)
            smooth = smooth.regularizer(self.like_scores)
        while type(smooth) is Scaled:
            gammas.append(smooth.gamma)
            smooth = smooth.inner
        if isinstance(self.bias, RelativeBias):
            per_query = [g for g in (*gammas, factor) if isinstance(g, Tensor) and g.dim() > 1 and g.shape[-2] > 1]
            smooth = None if per_query else smooth
        return smooth, [gamma for gamma in gammas if isinstance(gamma, Tensor) or gamma != 1], factor

    def _key_counts(self) -> Tensor:
        """How many keys each query may attend to, broadcasts to (..., Q, 1)."""
        return count_keys(
            self.shape,
            mask=self.mask,
            lengths=self.lengths,
            causal=self.causal,
            bias=self.bias,
            device=self.query.device,
        )

    def _spread(self, tensor: Tensor) -> Tensor:
        """A tensor that broadcasts to the scores, as (batch or 1, heads or 1, Q or 1, K or 1)."""
        return spread(tensor, self.lead)

    def output(self, settings: Settings | None, inputs: tuple[Any, ...]) -> Tensor:
        """The output by the sparse way, or by the dense one where there are no settings."""
        if settings is None:
            return self.dense()[0]
        found = recorded(settings, *inputs) if self.in_graph else SparseAttention.apply(settings, *inputs)
        return self._shaped(found.reshape(*self.lead, *found.shape[1:]))

    def dense(self) -> tuple[Tensor, Tensor]:
        """Output and weights from dense scores: the specification."""
        allowed = attention_mask(
            "sparse_attention", self.like_scores, mask=self.mask, lengths=self.lengths, causal=self.causal
        )
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

    def _shaped(self, output: Tensor) -> Tensor:
        output = output if self.has_heads else output.squeeze(-3)
        return output.to(self.dtype)
