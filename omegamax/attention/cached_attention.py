"""Attention of a few queries over a `KeyCache`: the 8-bit copy of the keys finds those that can have weight."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.inputs import at_least_float32, in_four_axes
from omegamax.attention.key_counts import count_keys_before
from omegamax.attention.key_storage import KeyStorage, check_query, count_new
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.normalizers import Normalizer, check_normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.row_normalizer import take_apart
from omegamax.attention.sparse_attention_function import Settings
from omegamax.attention.top_k import TopK
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.kernels import key_cache as kernel
from omegamax.kernels.sparse_attention import OSCAR, Strides, Support, can_run

MOST_QUERIES = 16  # of a head in one call: more of them are worth the time of sparse_attention's own quantisation
_WHO = "KeyCache.attend"


class CachedOutput(NamedTuple):
    """The result of attention over a cache."""

    output: Tensor  # (..., heads, Q, features)
    support: Support | None  # the weights that are not zero, where they are wanted
    share_read: float  # of the pages of keys, how many were read


class CachedCall:
    """The arguments of `KeyCache.attend`, checked. Keys and values stay where they are.

    Arguments:
        storage: the memory of the cache
        batch: the leading axes of keys and values
        item_lengths: how many keys of the storage each item has
        query: (*batch, heads, Q, size)
        normalizer: what turns scores into weights
        causal: whether the last query sees all keys of its item, and each query before it one key less
        lengths: how many of the Q queries each item has
        mask: boolean, broadcasts to (*batch, heads, Q, K); True means "may attend"
        bias: added to the scores
        scale: what products are multiplied by; None is 1/√size
    """

    def __init__(
        self,
        storage: KeyStorage,
        batch: tuple[int, ...],
        item_lengths: tuple[int, ...],
        query: Tensor,
        normalizer: Normalizer,
        *,
        causal: bool,
        lengths: Tensor | None,
        mask: Tensor | None,
        bias: Tensor | RelativeBias | None,
        scale: float | None,
    ) -> None:
        check_query(query, storage, batch)
        check_whole_sequence(_WHO, query)
        check_normalizer(_WHO, normalizer)
        if scale is not None:
            checks.check_finite(_WHO, "scale", scale, "leave it out for 1 / √size")
        self.storage, self.item_lengths, self.lead = storage, item_lengths, torch.Size(batch)
        self.dtype, self.query = query.dtype, at_least_float32(query)
        self.normalizer, self.causal, self.mask, self.bias = normalizer, causal, mask, bias
        self.scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
        self.n_queries, self.n_keys = query.shape[-2], max(item_lengths, default=0)
        self.counts = count_new(_WHO, batch, self.n_queries, lengths)  # queries of each item
        self.limits = self._limits()  # how many keys each query of each item sees
        self.shape = (*batch, query.shape[-3], self.n_queries, self.n_keys)  # of the scores
        self.like_scores = self.query.new_zeros(()).expand(self.shape)
        if mask is not None:
            checks.check_mask(_WHO, self.like_scores, mask)

    def run(self, *, keeps_all: bool) -> CachedOutput | None:
        """Computes the output, and the support if all of it is wanted; returns None where there is no native way."""
        if self.bias is not None or self.n_queries > MOST_QUERIES:
            return None
        if 0 in self.shape or self.storage.value.shape[-1] == 0:
            return None
        smooth = self.normalizer
        if isinstance(smooth, LengthScaled) and not can_run(self._tensors(*smooth.parameters())):
            return None
        parts = take_apart(smooth, self.like_scores, self._count_keys)
        if not parts.has_kernel(self.query.shape[-1]):
            return None
        parameter = parts.parameter
        tensors = self._tensors(parameter, *parts.gammas, parts.factor)
        if not can_run([*tensors, self.storage.key]) or not parts.is_safe():
            return None
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return None
        query, scale = parts.applied(_WHO, self.query, self.scale, self.like_scores)
        if parameter is not None:
            checks.check_row_parameter(_WHO, parts.operator.learnable or "", parameter, self.like_scores)
            parameter = in_four_axes(parameter, self.lead)
        query = query.reshape(self.lead.numel(), *query.shape[-3:]).contiguous()
        return self._decode(Settings(parts.operator, scale, keeps_all=keeps_all), query, parameter)

    def options(self) -> dict[str, Any]:
        """Returns the keywords with which `sparse_attention` of all keys computes the same."""
        options = {"bias": self.bias, "scale": self.scale}
        all_alike = len(set(self.item_lengths)) <= 1 and all(count == self.n_queries for count in self.counts)
        if all_alike:
            return {"mask": self.mask, "causal": self.causal, **options}
        limits = torch.tensor(self.limits, device=self.query.device).reshape(*self.lead, 1, -1, 1)
        seen = torch.arange(self.n_keys, device=self.query.device) < limits  # (..., 1, Q, K)
        return {"mask": seen if self.mask is None else seen & self.mask, **options}

    def _limits(self) -> list[list[int]]:
        """Counts the keys that each query of each item sees."""
        return [
            [
                0 if i >= count else max(0, length - count + i + 1) if self.causal else length
                for i in range(self.n_queries)
            ]
            for length, count in zip(self.item_lengths, self.counts)
        ]

    def _tensors(self, *more: Any) -> list[Tensor]:
        return [x for x in (self.query, self.mask, *more) if isinstance(x, Tensor)]

    def _count_keys(self) -> Tensor:
        limits = torch.tensor(self.limits).reshape(*self.lead, 1, self.n_queries, 1)
        return count_keys_before(limits, self.n_queries, self.n_keys, mask=self.mask)

    def _decode(self, settings: Settings, query: Tensor, parameter: Tensor | None) -> CachedOutput:
        operator = settings.row_operator(parameter, query.shape)
        limits = torch.tensor(self.limits)
        shape = (*query.shape[:3], self.n_keys)
        mask = strides = n_allowed = None
        if self.mask is not None:
            mask = in_four_axes(self.mask, self.lead).contiguous()
            strides = Strides.of(mask.expand(shape))
            if operator.kind == OSCAR:
                seen = torch.arange(self.n_keys) < limits[:, None, :, None]
                n_allowed = (seen & mask).sum(-1).expand(shape[:3]).contiguous()
        found = kernel.decode(
            query,
            self.storage.key,
            self.storage.value,
            self.storage.quantise(),
            self.n_keys,
            operator,
            scale=settings.scale,
            limits=limits,
            mask=strides,
            n_allowed=n_allowed,
            wants_support=settings.keeps_all,
            may_refuse=not settings.keeps_all,
        )
        if found.refused.any():
            self._answer_refused(settings, query, parameter, mask, found)
        output = found.output.reshape(*self.lead, *found.output.shape[1:]).to(self.dtype)
        n_pages = sum(-(-length // kernel.PAGE) for length in self.item_lengths) * self.storage.kv_heads
        n_rows = query.shape[1] // self.storage.kv_heads * self.n_queries
        n_passes = -(-n_rows // kernel.TILE)
        return CachedOutput(output, found.support, found.n_pages_read / max(1, n_pages * n_passes))

    def _answer_refused(
        self,
        settings: Settings,
        query: Tensor,
        parameter: Tensor | None,
        mask: Tensor | None,
        found: kernel.DecodeOutput,
    ) -> None:
        """Computes rows in which many keys may have weight, or numbers are not finite, from their dense scores."""
        repeats = query.shape[1] // self.storage.kv_heads
        shape = (*query.shape[:3], self.n_keys)
        for item, head, row in found.refused.nonzero().tolist():
            place, limit = item * self.storage.kv_heads + head // repeats, self.limits[item][row]
            key = self.storage.key[place, :limit].to(query.dtype)
            scores = (query[item, head, row] * settings.scale) @ key.T
            if mask is not None:
                scores = scores.masked_fill_(~mask.expand(shape)[item, head, row, :limit], -torch.inf)
            operator = settings.operator
            if parameter is not None and not isinstance(operator, TopK):
                operator = operator.with_parameters((parameter.expand(*shape[:3], 1)[item, head, row : row + 1],))
            weights = operator.argmax(scores.unsqueeze(0)).squeeze(0)
            value = self.storage.value[place, :limit]
            average = weights @ value.to(query.dtype)
            if not average.isfinite().all():  # what values without weight hold must not count
                support = weights.ne(0).nonzero().squeeze(-1)
                average = weights[support] @ value[support].to(query.dtype)
            found.output[item, head, row] = average
