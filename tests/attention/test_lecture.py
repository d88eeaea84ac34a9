"""What the lecture on attention states, as tests."""

import math

import pytest
import torch
from torch import nn

import omegamax as om


def test_sinusoids():
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))."""
    for d in (6, 7):
        table = om.attention.SinusoidalPositions()(torch.zeros(40, d, dtype=torch.float64))
        for pos in range(40):
            for i in range(d):
                angle = pos / 10000 ** (2 * (i // 2) / d)
                assert abs(table[pos, i].item() - (math.cos(angle) if i % 2 else math.sin(angle))) < 1e-12


def test_an_unrolled_gru_is_attention():
    """h_T = (Π u) h_0 + Σ_i (1 − u_i) Π_{j>i} u_j h̃_i, and these weights sum to one."""
    n, size = 7, 4
    gru = nn.GRU(3, size, batch_first=True).double()
    x, h0 = torch.randn(1, n, 3, dtype=torch.float64), torch.randn(1, 1, size, dtype=torch.float64)
    states, _ = gru(x, h0)
    before = torch.cat([h0, states[:, :-1]], 1)[0]
    of_x = x[0] @ gru.weight_ih_l0.T + gru.bias_ih_l0
    of_h = before @ gru.weight_hh_l0.T + gru.bias_hh_l0
    (r_x, u_x, c_x), (r_h, u_h, c_h) = of_x.chunk(3, -1), of_h.chunk(3, -1)
    keep = (u_x + u_h).sigmoid()  # u_t, one number per feature
    candidates = torch.tanh(c_x + (r_x + r_h).sigmoid() * c_h)  # h̃_t

    weights = [torch.stack([keep[j] for j in range(n)]).prod(0)]  # of h_0
    for i in range(n):
        weights.append((1 - keep[i]) * torch.stack([keep[j] for j in range(i + 1, n)] or [keep.new_ones(size)]).prod(0))
    weights = torch.stack(weights)  # (n + 1, size): an attention for every feature
    torch.testing.assert_close(weights.sum(0), torch.ones(size, dtype=torch.float64))
    assert (weights > 0).all()
    torch.testing.assert_close((weights * torch.cat([h0[0], candidates])).sum(0), states[0, -1])


def test_the_normalized_weighted_geometric_mean():
    """NWGM of softmaxes = softmax of the expected logits: soft attention's deterministic approximation."""
    logits = torch.randn(5, 8, dtype=torch.float64)  # n_{t,k,i}: one row per place i
    attention = om.sparsemax(torch.randn(5, dtype=torch.float64))  # p(s_i = 1 | a)
    softmaxes = logits.softmax(-1)
    geometric = torch.ones(8, dtype=torch.float64)
    for i in range(5):
        geometric = geometric * softmaxes[i] ** attention[i]
    expected = om.softmax(attention @ logits)
    torch.testing.assert_close(geometric / geometric.sum(), expected)
    unnormalized = torch.stack([logits[i].exp() ** attention[i] for i in range(5)]).prod(0)  # as the lecture writes it
    torch.testing.assert_close(unnormalized / unnormalized.sum(), expected)


# Vaswani et al., "Attention is all you need", table 3: (what differs from the base model, parameters in millions)
TABLE_3 = {
    "base": ({}, 65),
    "(B) d_k = 16": ({"key_size": 16}, 58),
    "(B) d_k = 32": ({"key_size": 32}, 60),
    "(C) N = 2": ({"n_layers": 2}, 36),
    "(C) N = 4": ({"n_layers": 4}, 50),
    "(C) N = 8": ({"n_layers": 8}, 80),
    "(C) d_model = 256": ({"size": 256, "key_size": 32}, 28),
    "(C) d_model = 1024": ({"size": 1024, "key_size": 128}, 168),
    "(C) d_ff = 1024": ({"hidden_size": 1024}, 53),
    "(C) d_ff = 4096": ({"hidden_size": 4096}, 90),
    "big": ({"size": 1024, "hidden_size": 4096, "n_heads": 16}, 213),
}


def millions(**options):
    with torch.device("meta"):  # sizes only
        model = om.Transformer(37000, **options)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize("row", TABLE_3)
def test_parameters_of_the_ablation_table(row):
    options, published = TABLE_3[row]
    assert abs(millions(**options) / published - 1) < 0.07


@pytest.mark.parametrize("n_heads", [1, 4, 16, 32])
def test_the_number_of_heads_costs_nothing(n_heads):
    """Rows (A): the table leaves their numbers empty, they are those of the base model."""
    assert millions(n_heads=n_heads) == millions()
