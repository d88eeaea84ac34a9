"""Hugging Face transformers: every normalizer as an `attn_implementation`.

    register()
    model = AutoModel.from_pretrained(path, attn_implementation="sparsemax")       or model.set_attn_implementation(...)
    check(model)                                                                   raises where softmax would stay

A model calls attention by name with (module, query, key, value, mask) and more; the function that `register` puts there
computes argmax_Ω(scaling · query keyᵀ + position_bias + mask) value. The mask is made under the same name: without it
the library drops padding and causality in silence. Where nobody asks for weights (`output_attentions`), long sequences
take `sparse_attention`, which is differentiable once. Saved models keep their attention; see `saved_attention.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from omegamax import checks, operator_table, registry
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.sparse_layers import may_be_sparse, sparse_output
from omegamax.extras import how_to_install
from omegamax.integrations import saved_attention
from omegamax.integrations.attention_call import read_mask, wants_weights

_REGISTERED: dict[
    str, Callable[..., tuple[Tensor, Tensor | None]]
] = {}  # under each name, and under that in saved files
_NORMALIZERS: dict[str, Normalizer] = {}
_MEANT_FOR_OTHERS = ("eager", "sdpa", "flash", "flex", "paged")  # transformers looks for these inside a name


def register(name: str | None = None, normalizer: Normalizer | None = None) -> tuple[str, ...]:
    """Makes normalizers available as `attn_implementation`, and returns their names.

    `register()` takes all named operators but groupmax, whose groups belong to one row; `register("sparsemax")` takes
    one of them; `register("mine", normalizer)` takes any normalizer of `Attention` under a name of your choice, and
    replaces what you registered under it before. A normalizer that is a layer is shared by all models of that name and
    belongs to none of them: to train it, set it as the attribute `normalizer` of the model's attention modules instead,
    which goes before the registered one.

    From then on `save_pretrained` writes the attention and its parameters into config.json, and `from_pretrained`
    restores them; it raises where it cannot.

    Arguments:
        name: the `attn_implementation`; None registers every named operator
        normalizer: what turns scores into weights; None takes the operator of that name
    """
    if name is None:
        if normalizer is not None:
            raise TypeError('register: a normalizer must have a name, got None; use register("mine", normalizer)')
        names = [facts.function for facts in operator_table.ungrouped()]
        chosen: dict[str, Normalizer] = {each: registry.regularizer(each) for each in names}
    else:
        chosen = {name: registry.regularizer(name) if normalizer is None else normalizer}
    functions, masks, eager_mask = _hooks()
    for key, smooth in chosen.items():
        check_normalizer("register", smooth)
        _check_name(key, taken=set(functions()) - set(_REGISTERED))
        _NORMALIZERS[key] = smooth
        attend = _attention(smooth)
        for known_as in (key, saved_attention.PREFIX + key):
            _REGISTERED[known_as] = attend
            functions.register(known_as, attend)
            masks.register(known_as, eager_mask)  # the one mask function that never leaves causality to the attention
    saved_attention.install(_NORMALIZERS, register)
    return tuple(chosen)


def _hooks() -> tuple[Any, Any, Any]:
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, eager_mask
    except ImportError as error:
        raise ImportError(
            "omegamax.integrations.transformers: transformers 5.17 or newer is needed, got none or an older one; "
            + how_to_install("hf")
        ) from error
    return AttentionInterface, AttentionMaskInterface, eager_mask


def generation_cache() -> Any:
    """Makes a cache for one call of `generate`, whose steps over long pasts read keys in 8 bits; see `KeyCache`.

    model.generate(**words, past_key_values=generation_cache())

    It serves models whose attention is a sparse normalizer that was registered, on a CPU. The tokens are those of the
    library's own cache. An encoder-decoder takes two, `EncoderDecoderCache(generation_cache(), generation_cache())`.
    Models with sliding windows need the library's own.
    """
    _hooks()  # says how to install the library
    from omegamax.integrations.generation_cache import GenerationCache

    return GenerationCache()


def _check_name(name: str, *, taken: set[str]) -> None:
    if not re.fullmatch(r"[A-Za-z][\w.\-]*", name) or any(word in name for word in _MEANT_FOR_OTHERS):
        raise ValueError(
            f"register: name must be a word without {', '.join(_MEANT_FOR_OTHERS)}, which transformers reads as "
            f"requests for its own attention, got {name!r}; choose another"
        )
    if name in taken:
        raise ValueError(f"register: name must be free, got {name!r}, which another library registered; choose another")


def _attention(normalizer: Normalizer) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attend(
        module: nn.Module,
        query: Tensor,  # (batch, heads, Q, size)
        key: Tensor,  # (batch, heads or a divisor of it, K, size)
        value: Tensor,
        attention_mask: Tensor | None,  # broadcasts to (batch, heads, Q, K): additive, or True = may attend
        scaling: float | None = None,
        dropout: float = 0.0,
        position_bias: Tensor | None = None,  # T5: added to the scores
        softcap: float | None = None,  # Gemma 2: scores are squeezed into (−softcap, softcap)
        s_aux: Tensor | None = None,  # gpt-oss: the score, per head, of attending to nothing
        cache: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output (batch, Q, heads, size) and weights (batch, heads, Q, K), None where nobody wants them."""
        if cache is not None:
            raise ValueError(
                "omegamax.integrations.transformers: attention must see whole sequences, got the paged cache of "
                "continuous batching; use model.generate"
            )
        own = getattr(module, "normalizer", None)
        used = own if isinstance(own, Normalizer) else normalizer
        if softcap is None and s_aux is None and not wants_weights(module, options):
            share = dropout if module.training else 0.0
            output = None
            if hasattr(key, "_omegamax_key_cache") and share == 0 and position_bias is None:
                from omegamax.integrations.generation_cache import cached_output

                output = cached_output(query, key, value, used, attention_mask, scaling)
            if output is None:
                output = _sparse_output(query, key, value, used, attention_mask, position_bias, scaling, share)
            if output is not None:
                return output.transpose(1, 2).contiguous(), None
        scores = _scores(query, key, scaling)
        if position_bias is not None:
            scores = scores + position_bias.to(scores.dtype)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores, allowed = _masked(scores, attention_mask)
        if s_aux is not None:
            nothing = s_aux.to(scores.dtype).reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
            scores = torch.cat([scores, nothing], -1)
            allowed = None if allowed is None else nn.functional.pad(allowed, (0, 1), value=True)
        weights = normalize(used, scores, allowed)
        weights = weights[..., : key.shape[-2]].to(value.dtype)
        weights = nn.functional.dropout(weights, dropout, module.training)
        return _average(weights, value), weights

    return attend


def _sparse_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    attention_mask: Tensor | None,
    position_bias: Tensor | None,
    scaling: float | None,
    dropout: float,
) -> Tensor | None:
    """Computes the output (batch, heads, Q, size) without dense scores; None where that is impossible or slower."""
    if not may_be_sparse(normalizer, query.shape[-2], key.shape[-2]):
        return None
    mask = read_mask(attention_mask, key.shape[-2])
    bias = mask.bias
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    return sparse_output(
        query, key, value, normalizer, mask=mask.allowed, causal=mask.causal, bias=bias, scale=scaling, dropout=dropout
    )


def _scores(query: Tensor, key: Tensor, scaling: float | None) -> Tensor:
    """Scores queries; heads that share their keys are rows of one product, so keys are never repeated."""
    batch, heads, n_queries, size = query.shape
    scale = max(1, size) ** -0.5 if scaling is None else scaling
    rows = (query * scale).reshape(batch, key.shape[1], heads // key.shape[1] * n_queries, size)
    return (rows @ key.transpose(-1, -2)).view(batch, heads, n_queries, key.shape[-2])


def _average(weights: Tensor, value: Tensor) -> Tensor:
    batch, heads, n_queries, n_keys = weights.shape
    rows = weights.reshape(batch, value.shape[1], heads // value.shape[1] * n_queries, n_keys)
    return (rows @ value).view(batch, heads, n_queries, value.shape[-1]).transpose(1, 2).contiguous()


def _masked(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Adds the mask to the scores, and returns what it allows; transformers writes −inf as the least finite number."""
    if mask is None:
        return scores, None
    mask = mask[..., : scores.shape[-1]]  # a static cache is longer than what it holds
    if mask.dtype is torch.bool:
        return scores, mask
    return scores + mask.to(scores.dtype), mask > torch.finfo(mask.dtype).min / 2


def check(model: nn.Module, **inputs: Any) -> tuple[str, ...]:
    """Raises if the model would ignore what was registered; returns the names of the modules that use it.

    Some models (DeBERTa, Longformer, XLNet) accept any `attn_implementation` and compute softmax all the same. This
    runs the model once, without gradients, on `inputs` or on a few words or an image of its own, and counts the calls;
    it warns where only a part of the attention is reached.

    Arguments:
        model: a Hugging Face model whose `attn_implementation` is one that was registered
        inputs: keyword arguments of the model, where it takes neither words nor an image
    """
    names = {id(module): name for name, module in model.named_modules()}
    callers: list[str] = []
    functions, _, _ = _hooks()
    asked = {getattr(getattr(part, "config", None), "_attn_implementation", None) for part in model.modules()}
    if not asked & set(_REGISTERED):
        shown = ", ".join(sorted(str(name) for name in asked - {None})) or "none"
        raise ValueError(
            f"check: attn_implementation must be one that omegamax registered, got {shown}; call register() and then "
            'model.set_attn_implementation("sparsemax")'
        )
    counter = _SoftmaxCounter()

    def spied(attend: Callable[..., tuple[Tensor, Tensor | None]]) -> Callable[..., tuple[Tensor, Tensor | None]]:
        def spy(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
            callers.append(names.get(id(module), type(module).__name__))
            with counter.paused():
                return attend(module, *args, **kwargs)

        return spy

    training = [part for part in model.modules() if part.training]
    try:
        for name, attend in _REGISTERED.items():
            functions.register(name, spied(attend))
        model.eval()
        with torch.no_grad(), counter:
            model(**(inputs or _small_inputs(model)))
    finally:
        for name, attend in _REGISTERED.items():
            functions.register(name, attend)
        for part in training:
            part.training = True
    kind = type(model).__name__
    if not callers:
        raise ValueError(
            f"check: {kind} must call the attention it was given, got no call and {counter.n_softmax} softmax of its "
            "own; this architecture ignores attn_implementation, so use another, or replace its attention modules"
        )
    if counter.n_softmax:
        checks.warn(
            f"check: all attention of {kind} must be reached, got {len(callers)} calls beside {counter.n_softmax} "
            "softmax of its own; see which modules are missing from the names that check returns",
        )
    return tuple(dict.fromkeys(callers))


class _SoftmaxCounter(TorchDispatchMode):
    """Counts the softmax attentions that a model computes for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.n_softmax = 0
        self._pauses = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        is_weights = name == "aten::_softmax" and args[0].dim() > 3  # a classifier's or a router's has fewer axes
        if not self._pauses and (is_weights or "scaled_dot_product" in name or "multi_head_attention" in name):
            self.n_softmax += 1
        return func(*args, **(kwargs or {}))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops counting inside the with block."""
        self._pauses += 1
        yield
        self._pauses -= 1


def _small_inputs(model: Any) -> dict[str, Tensor]:
    """Returns small inputs to run the model on."""
    main, config = getattr(model, "main_input_name", "input_ids"), model.config
    if main == "pixel_values" and hasattr(config, "image_size"):
        size = config.image_size
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        return {main: torch.zeros(1, getattr(config, "num_channels", 3), height, width, device=model.device)}
    if main != "input_ids":
        raise ValueError(
            f"check: inputs must be given for {type(model).__name__}, whose main input is {main}, got none; call "
            f"check(model, {main}=...)"
        )
    words = {name: tensor.to(model.device) for name, tensor in model.dummy_inputs.items()}
    if getattr(config, "is_encoder_decoder", False):
        words.setdefault("decoder_input_ids", words["input_ids"])
    return words
