"""Attention whose queries may attend to nothing, or whose padding holds NaN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from omegamax.attention import Attention, MultiheadAttention, ScaledDotProduct
from omegamax.reproductions.upstream.case import Finding, find


def _numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _same_layer(kind: Any, embed_dim: int, num_heads: int, **options: Any) -> Any:
    """Makes a layer with parameters that depend on the shapes only, so that both packages have the same."""
    layer = nn.utils.skip_init(kind, embed_dim, num_heads, **options)
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = 0.3 * _numbers(*parameter.shape, seed=number)
    return layer


def _count_nan(tensors: Any) -> int:
    return sum(int(tensor.isnan().sum()) for tensor in tensors)


def _is_zero(count: int) -> bool:
    return count == 0


def masked_rows() -> list[Finding]:
    """Sliding-window attention over a padded batch: the last queries of the shorter item have no keys."""
    place = torch.arange(5)
    window = (place.unsqueeze(-1) - place).abs() > 1  # True: may not attend
    padding = place >= torch.tensor([[5], [2]])

    def run(kind: Any) -> tuple[Any, Tensor]:
        layer = _same_layer(kind, 8, 2, batch_first=True)
        output, _ = layer(x := _numbers(2, 5, 8), x, x, key_padding_mask=padding, attn_mask=window)
        output[~padding].square().sum().backward()
        return layer, output

    def in_output(kind: Any) -> int:
        return _count_nan([run(kind)[1]])

    def in_gradients(kind: Any) -> int:
        return _count_nan(parameter.grad for parameter in run(kind)[0].parameters())

    theirs, ours = nn.MultiheadAttention, MultiheadAttention
    return [
        find("NaN in the output", "0", lambda: in_output(theirs), lambda: in_output(ours), _is_zero),
        find("NaN in gradients", "0", lambda: in_gradients(theirs), lambda: in_gradients(ours), _is_zero),
    ]


def masked_head() -> list[Finding]:
    """The third of three heads is masked."""
    mask = torch.tensor([False, False, True]).reshape(3, 1, 1).expand(3, 5, 5)

    def run(kind: Any, need_weights: bool) -> Tensor:
        layer = _same_layer(kind, 3, 3, batch_first=True)
        output: Tensor = layer(x := _numbers(1, 5, 3), x, x, attn_mask=mask, need_weights=need_weights)[0]
        return output.detach()

    def difference(kind: Any) -> float:
        """How far the output with weights is from the one without; NaN where one is."""
        return float((run(kind, True) - run(kind, False)).abs().max())

    return [
        find(
            "NaN in the output, with weights",
            "0",
            lambda: _count_nan([run(nn.MultiheadAttention, True)]),
            lambda: _count_nan([run(MultiheadAttention, True)]),
            _is_zero,
        ),
        find(
            "output with weights − without",
            "0",
            lambda: difference(nn.MultiheadAttention),
            lambda: difference(MultiheadAttention),
            lambda found: found < 1e-6,
            lambda found: f"{found:.6g}",
        ),
    ]


def masks_and_dropout() -> list[Finding]:
    """A row without keys, dropout 0.5, training."""
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[0] = True

    def run(kind: Any) -> int:
        layer = _same_layer(kind, 8, 2, dropout=0.5, batch_first=True, bias=False).train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            output, weights = layer(_numbers(2, 3, 8), k := _numbers(2, 4, 8, seed=1), k, attn_mask=mask)
        return _count_nan([output, weights])

    return [
        find("NaN", "0", lambda: run(nn.MultiheadAttention), lambda: run(MultiheadAttention), _is_zero),
    ]


def sdpa_masked_rows() -> list[Finding]:
    """One query of three may attend to nothing."""
    mask = torch.tensor([[True, True, False], [False, False, False], [False, True, True]])
    x = _numbers(1, 3, 4)

    def nan_of(attend: Any) -> int:
        leaf = x.clone().requires_grad_()
        output = attend(leaf)
        output.square().sum().backward()
        return _count_nan([output, leaf.grad])

    def theirs() -> int:
        return nan_of(lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=mask))

    def ours() -> int:
        return nan_of(lambda q: Attention(ScaledDotProduct())(q, q, q, mask=mask).output)

    return [find("NaN in output and gradient", "0", theirs, ours, _is_zero)]


def nan_in_padding() -> list[Finding]:
    """The second key and value are NaN, and masked."""
    mask = torch.tensor([[True, False], [True, False]])
    x = torch.arange(8.0).reshape(1, 2, 4)
    dirty = x.clone()
    dirty[0, 1] = torch.nan

    def theirs() -> int:
        return _count_nan([F.scaled_dot_product_attention(x, dirty, dirty, attn_mask=mask)])

    def ours() -> int:
        return _count_nan([Attention(ScaledDotProduct())(x, dirty, dirty, mask=mask).output])

    return [find("NaN in the output", "0", theirs, ours, _is_zero)]
