"""Sparse attention over a sequence whose parts lie in several processes, exactly.

The outputs of softmax attention over parts of the keys can be merged by their log-sum-exp, because the weights of a
part are those of the whole times one number. Sparse weights are not: a key that has weight in its part may have none in
the whole. So the ranks exchange the scores that can matter, which are few, and solve whole rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from omegamax import checks, routing
from omegamax.attention.inputs import in_four_axes, with_one_batch
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.shards.local_support import SHARDED_OPERATORS
from omegamax.attention.shards.ranks import Ranks
from omegamax.attention.shards.sharded_attention_function import ShardedAttention, ShardSettings
from omegamax.attention.shards.whole_problem import WholeProblem
from omegamax.operators.scaled import Scaled
from omegamax.operators.tsallis import Tsallis

_HALVES = (torch.float16, torch.bfloat16)
_WHO = "sharded_attention"


def sharded_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    group: ProcessGroup | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    lengths: Tensor | None = None,
    bias: Tensor | RelativeBias | None = None,
    scale: float | None = None,
) -> Tensor:
    """Computes `sparse_attention` over the queries, keys and values of all ranks of `torch.distributed`.

    Every rank holds a part of the sequence: that of rank 0 comes first, then that of rank 1, and so on. The parts may
    differ in length, and may be empty. All ranks call this function at once, and all of them run the backward pass.
    What they send each other grows with the length of the sequence and with the number of weights that are not zero,
    and never with Q · K. Without `torch.distributed` there is one rank.

    It takes `SquaredNorm`, `Tsallis` above order 1 and `TopK`, also inside `Scaled` and as layers (`om.Entmax()`, ...).
    For any other normalizer use `attention_over_heads`. The gradient can be taken once; differentiating twice raises.

    Mask, lengths, bias and the parameters of the normalizer are those of the whole sequence, the same on every rank.
    Their gradients are parts, as those of all parameters that ranks share: the sum over the ranks is the gradient.

    Arguments:
        query: (..., heads, Q of this rank, size)
        key: (..., kv heads, K of this rank, size); each head of the keys serves heads / kv heads heads of the queries
        value: (..., kv heads, K of this rank, features)
        normalizer: what turns scores into weights
        group: the processes that share the sequence; None takes all
        mask: boolean, broadcasts to (..., heads, Q, K) of all ranks; True means "may attend"
        causal: whether query i sees only keys up to i, counted over all ranks, and from the end where there are fewer
            queries than keys
        lengths: how many keys each item has in all ranks together, integers shaped as the leading axes
        bias: added to the scores: broadcasts to (..., heads, Q, K) of all ranks, or is a `RelativeBias` for them
        scale: what products are multiplied by; None is 1/√size

    Returns the output for the queries of this rank, (..., heads, Q of this rank, features).

    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> sharded_attention(query, key, torch.eye(3), SquaredNorm(), scale=1.0)  # one process: all is here
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    return _attend(
        group, query, key, value, normalizer, mask=mask, causal=causal, lengths=lengths, bias=bias, scale=scale
    )


@routing.outside_graphs
def _attend(group: ProcessGroup | None, query: Any, key: Any, value: Any, normalizer: Any, **options: Any) -> Tensor:
    """Puts a call into the form of `ShardedAttention`: four axes, temperatures in the queries, own keys only."""
    whole = WholeProblem(_WHO, Ranks(_WHO, group), query, key, value, normalizer, **options)
    operator, gammas = _operator(whole, normalizer)
    dtype = torch.float32 if whole.dtype in _HALVES else whole.dtype
    query, key, value = (with_one_batch(x.to(dtype), whole.lead) for x in (whole.query, whole.key, whole.value))
    bias, scale = _own_bias(whole, gammas), whole.scale
    bias = None if bias is None else bias.to(dtype).contiguous()
    for gamma in gammas:
        if isinstance(gamma, Tensor):
            query = query / _own_rows(whole, gamma.to(dtype))
            bias = None if bias is None else bias / (gamma if bias.dim() == 4 else gamma.squeeze(-1)).to(dtype)
        else:
            scale, bias = scale / gamma, None if bias is None else bias / gamma
    parameter = None
    if isinstance(operator, Tsallis) and isinstance(operator.alpha, Tensor):
        parameter = _row_parameter(whole, "alpha", operator.alpha)
    settings = ShardSettings(
        whole.ranks, operator, scale, _limit(whole), _own_lengths(whole), _own_mask(whole), whole.query_counts
    )
    with torch.autocast(query.device.type, enabled=False):
        output = ShardedAttention.apply(settings, whole.anchor(), query, key, value, parameter, bias)
    return whole.shaped(output.reshape(*whole.lead, *output.shape[1:]))


def _operator(whole: WholeProblem, normalizer: Normalizer) -> tuple[Any, list[float | Tensor]]:
    """Returns the innermost operator and its temperatures; tensors are (batch or 1, heads or 1, Q or 1, 1)."""
    smooth: Any = whole.normalizer_of_rows(normalizer)
    gammas: list[float | Tensor] = []
    while type(smooth) is Scaled:
        gamma = smooth.gamma
        gammas.append(_row_parameter(whole, "gamma", gamma) if isinstance(gamma, Tensor) else gamma)
        smooth = smooth.inner
    order_is_one = isinstance(smooth, Tsallis) and not isinstance(smooth.alpha, Tensor) and smooth.alpha == 1
    if type(smooth) not in SHARDED_OPERATORS or order_is_one:
        raise ValueError(
            f"{_WHO}: normalizer must be SquaredNorm, Tsallis above order 1 or TopK, whose rows depend on the few "
            f"scores near the largest alone, got {type(smooth).__name__}; use om.attention.attention_over_heads, which "
            "takes any normalizer"
        )
    return smooth, gammas


def _row_parameter(whole: WholeProblem, name: str, parameter: Tensor) -> Tensor:
    checks.check_row_parameter(_WHO, name, parameter, whole.like_scores)
    return in_four_axes(parameter, whole.lead)


def _own_rows(whole: WholeProblem, parameter: Tensor) -> Tensor:
    """Takes what belongs to the own queries of a tensor (batch or 1, heads or 1, Q or 1, 1)."""
    if parameter.shape[2] == 1:
        return parameter
    rank = whole.ranks.rank
    return parameter.narrow(2, sum(whole.query_counts[:rank]), whole.query_counts[rank])


def _first_key(whole: WholeProblem) -> int:
    return sum(whole.key_counts[: whole.ranks.rank])


def _n_own_keys(whole: WholeProblem) -> int:
    return whole.key_counts[whole.ranks.rank]


def _own_keys(whole: WholeProblem, tensor: Tensor) -> Tensor:
    """Takes what belongs to the own keys of a tensor that broadcasts to the scores."""
    own = tensor if tensor.shape[-1] == 1 else tensor.narrow(-1, _first_key(whole), _n_own_keys(whole))
    return in_four_axes(own, whole.lead).contiguous()


def _own_mask(whole: WholeProblem) -> Tensor | None:
    if whole.mask is None:
        return None
    return _own_keys(whole, whole.mask if whole.mask.dim() else whole.mask.reshape(1))


def _own_bias(whole: WholeProblem, gammas: list[float | Tensor]) -> Tensor | None:
    """Returns (batch or 1, heads or 1, Q or 1, own keys or 1), or a table by distance (..., Q + own keys − 1)."""
    bias, n_queries, n_keys = whole.bias, whole.shape[-2], _n_own_keys(whole)
    if not isinstance(bias, RelativeBias):
        return None if bias is None else _own_keys(whole, bias if bias.dim() else bias.reshape(1))
    table = bias.table.narrow(-1, _first_key(whole), max(0, n_queries + n_keys - 1))
    if any(isinstance(gamma, Tensor) and gamma.shape[2] > 1 for gamma in gammas):
        # A temperature for each query makes the bias more than a table.
        return in_four_axes(RelativeBias(table).dense(n_queries, n_keys), whole.lead)
    return in_four_axes(table.unsqueeze(-2), whole.lead).squeeze(2)


def _own_lengths(whole: WholeProblem) -> Tensor | None:
    if whole.lengths is None:
        return None
    lengths, heads = whole.lengths.to(whole.query.device), whole.shape[:-2]
    lengths = lengths.reshape(lengths.shape + (1,) * (len(heads) - lengths.dim())).expand(heads).reshape(-1).long()
    return (lengths - _first_key(whole)).clamp(0, _n_own_keys(whole))


def _limit(whole: WholeProblem) -> int | None:
    """Returns how many of the own keys the first query sees, and query i sees i more; below 0 it sees none."""
    n_queries, n_keys = whole.shape[-2:]
    return n_keys - n_queries + 1 - _first_key(whole) if whole.causal else None
