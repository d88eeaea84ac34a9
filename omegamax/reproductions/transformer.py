"""The Transformer of the lecture: the worked example, sinusoids, masks, and the sizes of its ablation table."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, near, same
from omegamax.reproductions.numerical_checks import largest, normal, seeded

_VOCABULARY = 37_000  # of the published model: pieces shared by both languages

# What differs from the base model in each row of the table that states a number of parameters.
_ROWS: dict[str, dict[str, int]] = {
    "base": {},
    "(B) d_k = 16": {"key_size": 16},
    "(B) d_k = 32": {"key_size": 32},
    "(C) N = 2": {"n_layers": 2},
    "(C) N = 4": {"n_layers": 4},
    "(C) N = 8": {"n_layers": 8},
    "(C) d_model = 256": {"size": 256, "key_size": 32},
    "(C) d_model = 1024": {"size": 1024, "key_size": 128},
    "(C) d_ff = 1024": {"hidden_size": 1024},
    "(C) d_ff = 4096": {"hidden_size": 4096},
    "big": {"size": 1024, "hidden_size": 4096, "n_heads": 16},
}


def worked_example(published: Published) -> Outcome:
    """q₁·k₁ = 112 and q₁·k₂ = 96, divided by √64, through softmax, and the weighted sum."""
    d_k = 64
    query = torch.zeros(1, d_k, dtype=torch.float64)
    query[0, 0] = 8.0
    keys = torch.zeros(2, d_k, dtype=torch.float64)
    keys[:, 0] = torch.tensor([published["q₁·k₁"], published["q₁·k₂"]]) / 8
    values = normal(2, 3)
    scaled = om.ScaledDotProduct()(query, keys)[0]
    attended = om.Attention(om.ScaledDotProduct())(query, keys, values)
    first, second = attended.weights[0].tolist()
    ours = {"q₁·k₁": float(query[0] @ keys[0]), "q₁·k₂": float(query[0] @ keys[1]), "√d_k": math.sqrt(d_k)}
    ours |= {
        "first, divided": float(scaled[0]),
        "second, divided": float(scaled[1]),
        "first weight": first,
        "second weight": second,
    }
    rows = [near(name, value, ours[name], 0.005 if "weight" in name else 1e-9) for name, value in published.items()]
    rows.append(
        same("z₁ and the weighted sum of the values", largest(attended.output[0] - attended.weights[0] @ values))
    )
    return Outcome(rows)


def dot_product(published: Published) -> Outcome:
    """A(Q, K, V) = softmax(QKᵀ)V, vector by vector, and with 1/√d_k as PyTorch computes it."""
    q, k, v = normal(3, 4), normal(5, 4, seed=1), normal(5, 2, seed=2)
    plain, scaled = om.Attention(om.DotProduct())(q, k, v), om.Attention()(q, k, v)
    vectors = [
        sum((row @ key).exp() * value for key, value in zip(k, v)) / sum((row @ key).exp() for key in k) for row in q
    ]
    theirs = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    heads = _heads()
    return Outcome(
        [
            same("vector form", largest(plain.output - torch.stack([torch.as_tensor(vector) for vector in vectors]))),
            same("matrix form softmax(QKᵀ)V", largest(plain.output - (q @ k.T).softmax(-1) @ v)),
            same("softmax(QKᵀ/√d_k)V and PyTorch's", largest(scaled.output - theirs)),
            same("Concat(head₁ ... head_h) W^O and om.MultiheadAttention", heads),
        ]
    )


def _heads() -> float:
    """Returns the largest difference between multi-head attention and its heads computed one by one."""
    with seeded():
        layer = om.MultiheadAttention(8, 2, batch_first=True).double().eval()
    x = normal(1, 5, 8)
    with torch.no_grad():
        w = layer.in_proj_weight.reshape(3, 2, 4, 8)
        b = layer.in_proj_bias.reshape(3, 2, 4)
        heads = []
        for head in range(2):
            q, k, v = (x[0] @ w[part, head].T + b[part, head] for part in range(3))
            heads.append((q @ k.T / 2).softmax(-1) @ v)
        by_hand = layer.out_proj(torch.cat(heads, -1))
        return largest(layer(x, x, x)[0][0] - by_hand)


def causal(published: Published) -> Outcome:
    """In masked self-attention later positions get weight 0 and have no influence."""
    x = normal(6, 4).requires_grad_()
    attended = om.Attention()(x, x, causal=True)
    (influence,) = torch.autograd.grad(attended.output[2].sum(), x)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    with seeded():
        model = om.Transformer(50, 16, n_heads=2, n_layers=6, hidden_size=32).eval()
    source, target = torch.arange(5).unsqueeze(0), torch.arange(7).unsqueeze(0)
    with torch.no_grad():
        before, after = (
            model(source, tokens).logits for tokens in (target, target.clone().index_fill_(1, torch.tensor([6]), 9))
        )
    return Outcome(
        [
            near("weight on later positions", 0, largest(attended.weights[future]), 0),
            near("influence of later positions on the third", 0, largest(influence[3:]), 0),
            same(
                "a decoder's logits before the last token, when it changes", largest(after[:, :6] - before[:, :6]), 1e-6
            ),
        ]
    )


def sinusoids(published: Published) -> Outcome:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(the same)."""
    d, n = 16, 200
    table = om.attention.SinusoidalPositions()(torch.zeros(n, d, dtype=torch.float64))
    by_hand = torch.tensor([[_entry(position, i, d) for i in range(d)] for position in range(n)], dtype=torch.float64)
    return Outcome([same(f"om.attention.SinusoidalPositions and the formula, {n} positions", largest(table - by_hand))])


def _entry(position: int, i: int, d: int) -> float:
    angle = position / 10000 ** (2 * (i // 2) / d)
    return math.cos(angle) if i % 2 else math.sin(angle)


def sizes(published: Published) -> Outcome:
    """Counts the parameters, in millions, of every row of the ablation table."""
    rows = [
        near(name, published[name], _millions(**options), 0.07 * published[name]) for name, options in _ROWS.items()
    ]
    rows += [
        near(f"(A) h = {heads}, as the base model", _millions(), _millions(n_heads=heads), 0)
        for heads in (1, 4, 16, 32)
    ]
    return Outcome(rows)


def _millions(**options: Any) -> float:
    with torch.device("meta"):  # sizes only
        model = om.Transformer(_VOCABULARY, **options)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


def layers(published: Published) -> Outcome:
    """Six encoders, six decoders, residuals with layer normalization: PyTorch's own stack with the same weights."""
    with torch.device("meta"):
        model = om.Transformer(100)
    ours = {"layers of the encoder": len(model.encoder.layers), "layers of the decoder": len(model.decoder.layers)}
    rows = [near(name, value, ours[name], 0) for name, value in published.items()]
    with seeded():
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        theirs = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
        encoder = om.TransformerEncoder(16, n_heads=4, n_layers=2, hidden_size=32).double().eval()
    encoder.load_state_dict(theirs.state_dict())
    x: Tensor = normal(2, 5, 16)
    with torch.no_grad():
        rows.append(same("an encoder with PyTorch's weights and PyTorch's", largest(encoder(x).output - theirs(x))))
    return Outcome(rows)
