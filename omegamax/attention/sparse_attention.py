"""Attention whose cost follows the number of weights that are not zero.

    output = argmax_Ω(scale · query keyᵀ + bias) value

Only keys within a window of a row's largest score can have weight under sparsemax, entmax, fusedmax, oscarmax and
top-k softmax. On a CPU, queries and keys are therefore multiplied in 8 bits first, with a rigorous bound of the error,
to find those keys; only their scores are computed in full. The result is exact, the backward pass touches the support
only, and memory grows with Q + K, not with Q · K.
"""

from __future__ import annotations

from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.sparse_attention_call import SparseAttentionCall
from omegamax.attention.sparse_attention_output import SparseAttentionOutput, output_with_weights


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
    """Computes argmax_Ω(scale · query keyᵀ + bias) value from the keys that can have weight.

    On a GPU, Triton kernels compute sparsemax and entmax of a plain order up to 2 in float32 (docs/gpu_kernels.md).

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
    call = SparseAttentionCall(
        query, key, value, normalizer,
        mask=mask, causal=causal, lengths=lengths, bias=bias, scale=scale, dropout=dropout,
    )  # fmt: skip
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
    """Computes `sparse_attention`, and returns its weights too, as a sparse CSR tensor. This takes no extra pass.

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
    call = SparseAttentionCall(
        query, key, value, normalizer,
        mask=mask, causal=causal, lengths=lengths, bias=bias, scale=scale, dropout=dropout,
    )  # fmt: skip
    settings, inputs = call.prepared(keeps_all=True)
    if settings is None:
        output, weights = call.dense()
        rows = weights.detach().reshape(-1, weights.shape[-1])
        row, column = rows.nonzero(as_tuple=True)
        offsets = nn.functional.pad((rows != 0).sum(-1).cumsum(0), (1, 0))
        return output_with_weights(output, offsets, column, rows[row, column], call.n_keys)
    output = call.output(settings, inputs)
    (support,) = settings.found
    return output_with_weights(output, support.offsets, support.indices.long(), support.weights, call.n_keys)


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
    """Computes `sparse_attention`; returns None where it would take dense scores, which layers compute themselves."""
    call = SparseAttentionCall(
        query, key, value, normalizer,
        mask=mask, causal=causal, lengths=None, bias=bias, scale=scale, dropout=dropout,
    )  # fmt: skip
    settings, inputs = call.prepared(keeps_all=False)
    return None if settings is None else call.output(settings, inputs)
