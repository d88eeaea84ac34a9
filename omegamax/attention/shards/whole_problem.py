"""Checks a call of attention over several ranks on all of them at once, and keeps what each knows of the whole."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.attention.inputs import check_inputs, checked_bias, with_heads
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.normalizers import Normalizer, check_normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.row_normalizer import gamma_of
from omegamax.attention.shards.ranks import Ranks
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.modules import ArgmaxModule
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax

_EAGER = (routing.Context.NATIVE, routing.Context.PLAIN, routing.Context.AUTOGRAD)


class WholeProblem:
    """The own parts of the sequence, the lengths of all parts, and what is the same on every rank.

    Arguments:
        who: the name that speaks in errors
        ranks: the processes that hold the parts
        query: (..., heads, own queries, size)
        key: (..., kv heads, own keys, size)
        value: (..., kv heads, own keys, features)
        normalizer: what turns scores into weights
        mask: boolean, broadcasts to (..., heads, Q, K) of all ranks
        causal: whether query i sees only keys up to i
        lengths: how many keys each item has in all ranks
        bias: broadcasts to (..., heads, Q, K) of all ranks, or a `RelativeBias`
        scale: what products are multiplied by; None is 1/√size
    """

    def __init__(
        self,
        who: str,
        ranks: Ranks,
        query: Any,
        key: Any,
        value: Any,
        normalizer: Any,
        *,
        mask: Any,
        causal: bool,
        lengths: Any,
        bias: Any,
        scale: float | None,
    ) -> None:
        self.who, self.ranks = who, ranks
        error, facts, numbers = None, {}, [0, 0, 0]
        self.shared: list[Tensor] = []  # tensors that may learn, the same on every rank
        try:
            _check(who, query, key, value, normalizer, scale)
        except (TypeError, ValueError, RuntimeError) as refusal:
            error = refusal
        else:
            table = bias.table if isinstance(bias, RelativeBias) else bias
            self.shared = [tensor for tensor in (table, *_tensors(normalizer)) if isinstance(tensor, Tensor)]
            numbers = [query.shape[-2], key.shape[-2], int(routing.needs_grad(query, key, value, *self.shared))]
            facts = _facts(query, key, value, normalizer, mask=mask, causal=causal, lengths=lengths, bias=bias)
            facts["scale"] = scale
        rows = ranks.agree(who, facts, numbers, error)
        self.query_counts, self.key_counts = [row[0] for row in rows], [row[1] for row in rows]
        self.records = any(row[2] for row in rows)  # whether some rank will ask for a gradient
        self.dtype, self.has_heads = query.dtype, query.dim() > 2
        self.query, self.key, self.value = map(with_heads, (query, key, value))
        self.lead = torch.broadcast_shapes(*(x.shape[:-3] for x in (self.query, self.key, self.value)))
        self.shape = (*self.lead, self.query.shape[-3], sum(self.query_counts), sum(self.key_counts))
        self.like_scores = torch.zeros((), dtype=self.dtype, device=query.device).expand(self.shape)
        self.causal = bool(causal)
        self.scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
        if mask is not None:
            checks.check_mask(who, self.like_scores, mask)
        if lengths is not None:
            lengths = checks.check_lengths(who, self.shape[:-2], lengths)
            checks.check_counts(who, "lengths", lengths, self.shape[-1], "count the keys of each item in all ranks")
        self.mask, self.lengths = mask, lengths
        self.bias = checked_bias(who, bias, self.shape, query.dtype)

    def normalizer_of_rows(self, normalizer: Normalizer) -> Normalizer:
        """Replaces a layer, also inside `LengthScaled`, by the operator that it holds now."""
        if isinstance(normalizer, LengthScaled):
            return LengthScaled(self.normalizer_of_rows(normalizer.normalizer), normalizer.scale)
        if not isinstance(normalizer, ArgmaxModule):
            return normalizer
        gamma = gamma_of(normalizer)
        smooth = normalizer.regularizer(self.like_scores)
        return smooth if not isinstance(gamma, Tensor) and gamma == 1 else Scaled(smooth, gamma)

    def anchor(self) -> Tensor:
        """Returns a number that requires a gradient if any rank does: all must take part in the backward pass."""
        return torch.zeros((), requires_grad=self.records)

    def shaped(self, output: Tensor) -> Tensor:
        """Gives the output the axes and the type of the queries."""
        return (output if self.has_heads else output.squeeze(-3)).to(self.dtype)


def _check(who: str, query: Any, key: Any, value: Any, normalizer: Any, scale: Any) -> None:
    check_inputs(who, query, key, value)
    check_whole_sequence(who, query, key, value)
    check_normalizer(who, normalizer)
    if scale is not None:
        checks.check_finite(who, "scale", scale, "leave it out for 1 / √size")
    context = routing.context(query, key, value)
    if context not in _EAGER:
        raise RuntimeError(
            f"{who}: processes can exchange plain tensors in eager mode only, got tensors in the context "
            f"{context.name}; call it outside of torch.func, forward mode and dispatch modes"
        )


def _facts(query: Tensor, key: Tensor, value: Tensor, normalizer: Any, **others: Any) -> dict[str, Any]:
    """Lists what must be the same on every rank."""
    facts: dict[str, Any] = {
        f"{name} without its length": (*x.shape[:-2], x.shape[-1])
        for name, x in (("query", query), ("key", key), ("value", value))
    }
    facts["dtype"], facts["normalizer"] = str(query.dtype), type(normalizer).__name__
    for name, other in others.items():
        other = other.table if isinstance(other, RelativeBias) else other
        facts[name] = tuple(other.shape) if isinstance(other, Tensor) else other
    return facts


def _tensors(normalizer: Any) -> list[Tensor]:
    """Lists the tensors of a normalizer that may learn."""
    if isinstance(normalizer, nn.Module):
        return list(normalizer.parameters())
    if isinstance(normalizer, Scaled):
        return [t for t in (normalizer.gamma, *_tensors(normalizer.inner)) if isinstance(t, Tensor)]
    parameters = getattr(normalizer, "parameters", None) if isinstance(normalizer, SmoothMax) else None
    return [t for t in parameters() if isinstance(t, Tensor)] if callable(parameters) else []
