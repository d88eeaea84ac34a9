"""Reads what a Hugging Face model asks of its attention: which pairs count, and whether anybody wants the weights."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.masking import causal_mask


class AttentionMask(NamedTuple):
    """A mask of transformers as sparse attention takes it."""

    allowed: Tensor | None  # broadcasts to (batch, heads, Q, K), True = may attend; None where everything is allowed
    causal: bool  # whether the future is left out too; `allowed` is then (batch or 1, 1, 1, K) or None
    bias: Tensor | None  # added to scores


_last: tuple[weakref.ref[Tensor], int, int, AttentionMask] | None = None  # all layers of a model get one mask


def read_mask(mask: Tensor | None, n_keys: int) -> AttentionMask:
    """Finds the causal mask and the padding in a mask (batch or 1, heads or 1, Q, at least K), by its numbers.

    Transformers writes −inf as the least finite number. The mask is compared once in a forward pass, not once in every
    layer.
    """
    global _last
    if mask is None:
        return AttentionMask(None, False, None)
    if not checks.is_readable(mask):
        return _unread(mask[..., :n_keys])
    if _last is not None and _last[0]() is mask and _last[1:3] == (mask._version, n_keys):
        return _last[3]
    found = _recognised(mask[..., :n_keys])
    _last = weakref.ref(mask), mask._version, n_keys, found
    return found


def _unread(mask: Tensor) -> AttentionMask:
    """Takes the mask as it is, where its numbers cannot be looked at."""
    if mask.dtype is torch.bool:
        return AttentionMask(mask, False, None)
    allowed = mask > torch.finfo(mask.dtype).min / 2
    return AttentionMask(allowed, False, torch.where(allowed, mask, 0))


def _recognised(mask: Tensor) -> AttentionMask:
    allowed, _, bias = _unread(mask)
    assert allowed is not None
    if bias is not None and not bias.any() and not bias.requires_grad:
        bias = None
    keys = allowed[..., -1:, :]  # the last query sees every key that is not padding
    padding = None if bool(keys.all()) else keys
    if mask.dim() == 4 and mask.shape[1] == 1:
        if torch.equal(allowed, keys.expand_as(allowed)):
            return AttentionMask(padding, False, bias)
        if torch.equal(allowed, keys & causal_mask(*allowed.shape[-2:], device=mask.device)):
            return AttentionMask(padding, True, bias)
    return AttentionMask(allowed, False, bias)


def wants_weights(module: nn.Module, options: dict[str, Any]) -> bool:
    """Says whether the caller may look at the weights.

    A model that decides by `output_attentions` what it records sets a collector around its forward pass. Without one,
    or with another version of transformers, nobody knows, and weights are wanted.

    Arguments:
        module: the attention module that calls
        options: what it passes beside tensors
    """
    if options.get("output_attentions") or getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:
        return True
    collected = _active_collector.get()
    return collected is None or any("attention" in name for name in collected)
