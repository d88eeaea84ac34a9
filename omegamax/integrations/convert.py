"""Gives every `nn.MultiheadAttention` of a model a normalizer, and changes nothing else."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from omegamax import checks
from omegamax.attention.multihead import MultiheadAttention
from omegamax.attention.normalizers import Normalizer, check_normalizer


def convert(module: nn.Module, normalizer: Normalizer) -> list[str]:
    """Makes every `nn.MultiheadAttention` in the module a `MultiheadAttention` with this normalizer.

    It happens in place: the attention stays the same object, with its weights, options, device, dtype, mode and hooks,
    so that optimizers and other references to it stay valid. A normalizer that is a layer is copied, so that every
    attention learns parameters of its own. Attention that is converted already gets the new normalizer. An
    `nn.TransformerEncoder` stops making nested tensors in eval, which only its fused softmax could read.

    Returns the names of what was converted, as `module.named_modules()` has them ("" is the module itself). A module
    without any `nn.MultiheadAttention`, as most Hugging Face models are, raises: those take `transformers.register()`.

    Arguments:
        module: the model, or the part of it, that attends
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer

    >>> encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    >>> convert(encoder, SquaredNorm())
    ['layers.0.self_attn', 'layers.1.self_attn']
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"convert: module must be an nn.Module, got {type(module).__name__}; pass the model that attends"
        )
    check_normalizer("convert", normalizer)
    converted = []
    for name, child in module.named_modules():
        if isinstance(child, nn.TransformerEncoder):
            child.use_nested_tensor = False  # decided when it was built: batches as only the fused softmax reads them
        if type(child) in (nn.MultiheadAttention, MultiheadAttention):
            _change_class(child, normalizer)
            converted.append(name)
        elif isinstance(child, nn.MultiheadAttention):
            checks.warn(
                f"convert: {name or 'the module'} must be nn.MultiheadAttention itself, got {type(child).__name__}, "
                "which may compute something else and was left alone; convert before wrapping, or replace it by hand",
            )
    if not converted:
        raise ValueError(_nothing_found(module))
    return converted


def _nothing_found(module: nn.Module) -> str:
    kind = type(module).__name__
    if callable(getattr(module, "set_attn_implementation", None)):
        remedy = (
            "a Hugging Face model attends by name: call om.integrations.transformers.register() and "
            'model.set_attn_implementation("sparsemax")'
        )
    else:
        remedy = "replace its attention by om.MultiheadAttention or om.Attention by hand"
    return f"convert: module must contain an nn.MultiheadAttention, got {kind}, which has none; {remedy}"


def _change_class(attention: Any, normalizer: Normalizer) -> None:
    """Changes the class of an existing layer, and sets what `MultiheadAttention.__init__` adds to PyTorch's."""
    if isinstance(normalizer, nn.Module):
        normalizer = copy.deepcopy(normalizer).to(next(attention.parameters()).device).train(attention.training)
    attention.__class__ = MultiheadAttention
    attention._qkv_same_embed_dim = False  # keeps the fused softmax of eval off; see MultiheadAttention
    attention.normalizer = normalizer
