"""Attention of a few queries over a `KeyCache`: the 8-bit copy of the keys finds those that can have weight."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.key_counts import count_keys_before
from omegamax.attention.key_storage import KeyStorage
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.sparse_attention import _Call, _csr
from omegamax.attention.sparse_attention_function import NATIVE_OPERATORS, Settings, _strides
from omegamax.attention.top_k import TopK
from omegamax.kernels import key_cache as kernel
from omegamax.kernels.sparse_attention import MAX_SIZE, OSCAR, Strides, can_run
from omegamax.operators.tsallis import Tsallis

MOST_QUERIES = 16  # of a head in one call: more of them are worth the time of sparse_attention's own quantisation
_SAFE_GAMMA = 1e-6


class CachedOutput(NamedTuple):
    """What attention over a cache returns."""

    output: Tensor  # (..., heads, Q, features)
    weights: Tensor | None  # sparse CSR, (rows, K)
    share_read: float  # of the pages of keys, how many were read


class CachedCall(_Call):
    """A call of attention over a cache, whose keys and values stay where they are."""

    def __init__(
        self,
        query: Tensor,
        storage: KeyStorage,
        batch: tuple[int, ...],
        lengths: tuple[int, ...],
        limits: list[list[int]],
        normalizer: Normalizer,
        mask: Tensor | None,
        causal: bool,
        scale: float | None,
    ) -> None:
        self.dtype, self.has_heads = query.dtype, True
        self.query = query.float() if query.dtype in (torch.float16, torch.bfloat16) else query
        self.storage, self.item_lengths, self.limits = storage, lengths, limits
        self.key, self.value = storage.key, storage.value
        self.normalizer, self.mask, self.causal, self.bias, self.lengths = normalizer, mask, causal, None, None
        self.scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
        self.lead = torch.Size(batch)
        self.n_queries, self.n_keys = query.shape[-2], max(lengths, default=0)
        self.shape = (*batch, query.shape[-3], self.n_queries, self.n_keys)
        self.like_scores = self.query.new_zeros(()).expand(self.shape)

    def run(self, *, keeps_all: bool) -> CachedOutput | None:
        """Output and perhaps weights; None where there is no native way."""
        smooth, gammas, factor = self._operator()
        if type(smooth) not in NATIVE_OPERATORS or not 0 < self.query.shape[-1] <= MAX_SIZE:
            return None
        parameter = next(iter(smooth.parameters()), None) if not isinstance(smooth, TopK) else None
        tensors = self._tensors(parameter, *gammas, factor)
        if self.n_queries > MOST_QUERIES or 0 in self.shape or not can_run([*tensors, self.storage.key]):
            return None
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return None
        if isinstance(smooth, Tsallis) and parameter is None and smooth.alpha == 1:
            return None
        if self.storage.value.shape[-1] == 0:
            return None
        query, scale = self.query, self.scale
        for gamma in gammas:
            if float(gamma.min() if isinstance(gamma, Tensor) else gamma) < _SAFE_GAMMA:
                return None
            if isinstance(gamma, Tensor):
                checks.check_row_parameter("KeyCache.attend", "gamma", gamma, self.like_scores)
                query = query / gamma.to(query.dtype)
            else:
                scale /= gamma
        if factor is not None:
            query = query * factor.to(query.dtype)
        if isinstance(parameter, Tensor):
            checks.check_row_parameter("KeyCache.attend", smooth.learnable or "", parameter, self.like_scores)
            parameter = self._spread(parameter if parameter.dim() else parameter.reshape(1))
        query = query.reshape(self.lead.numel(), *query.shape[-3:]).contiguous()
        settings = Settings(smooth, scale, False, None, None, False, 0.0, 0, keeps_all, [])
        return self._decode(settings, query, parameter)

    def _tensors(self, *more: Any) -> list[Tensor]:
        return [x for x in (self.query, self.mask, *more) if isinstance(x, Tensor)]

    def _key_counts(self) -> Tensor:
        limits = torch.tensor(self.limits).reshape(*self.lead, 1, self.n_queries, 1)
        return count_keys_before(limits, self.n_queries, self.n_keys, mask=self.mask)

    def _decode(self, settings: Settings, query: Tensor, parameter: Tensor | None) -> CachedOutput:
        operator = settings.row_operator(parameter, query.shape)
        limits = torch.tensor(self.limits)
        shape = (*query.shape[:3], self.n_keys)
        mask = strides = n_allowed = None
        if self.mask is not None:
            mask = self._spread(self.mask).contiguous()
            strides = Strides(mask, 0, _strides(mask.expand(shape)))
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
        output = self._shaped(found.output.reshape(*self.lead, *found.output.shape[1:]))
        weights = None
        if found.support is not None:
            weights = _csr(found.support.offsets, found.support.indices.long(), found.support.weights, self.n_keys)
        n_pages = sum(-(-length // kernel.PAGE) for length in self.item_lengths) * self.storage.kv_heads
        n_rows = query.shape[1] // self.storage.kv_heads * self.n_queries
        n_passes = -(-n_rows // kernel.TILE)
        return CachedOutput(output, weights, found.n_pages_read / max(1, n_pages * n_passes))

    def _answer_refused(
        self,
        settings: Settings,
        query: Tensor,
        parameter: Tensor | None,
        mask: Tensor | None,
        found: kernel.DecodeOutput,
    ) -> None:
        """Rows in which many keys may have weight, or in which numbers are not finite, from their dense scores."""
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


def allowed_keys(limits: list[list[int]], batch: tuple[int, ...], n_keys: int, device: torch.device) -> Tensor:
    """Which keys each query sees, (..., 1, Q, K)."""
    table = torch.tensor(limits, device=device).reshape(*batch, 1, -1, 1)
    return torch.arange(n_keys, device=device) < table


def support_sizes(weights: Tensor, shape: tuple[int, ...]) -> Tensor:
    """How many weights of each row are not zero."""
    return weights.crow_indices().diff().reshape(shape)
