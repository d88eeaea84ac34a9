"""Sparse attention with masks, lengths, causal order and biases, against dense scores."""

import math

import pytest
import torch
from sparse_cases import NORMALIZERS, by_hand, draw, leaves, needs_native

import omegamax as om
from omegamax.attention.masking import causal_mask
from omegamax.attention.relative_bias import RelativeBias, alibi
from omegamax.attention.sparse_attention import sparse_attention
from omegamax.kernels import sparse_attention as kernel

MASKS = {
    "keys": lambda: torch.rand(2, 1, 1, 130) > 0.3,
    "queries": lambda: torch.rand(2, 1, 60, 1) > 0.3,
    "pairs": lambda: torch.rand(60, 130) > 0.5,
    "heads": lambda: torch.rand(4, 60, 130) > 0.5,
    "everything": lambda: torch.rand(2, 4, 60, 130) > 0.9,
    "nothing": lambda: torch.zeros(1, dtype=torch.bool),
    "rows": lambda: (torch.rand(60, 130) > 0.5) & (torch.rand(60, 1) > 0.3),
}


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(1.3)", "top-4", "oscarmax", "fusedmax", "softmax"])
@pytest.mark.parametrize("kind", MASKS)
def test_masks(kind, name, backend):
    normalizer = NORMALIZERS[name]
    mask = MASKS[kind]()
    inputs = leaves(draw(2, 4, 60, 8), draw(2, 2, 130, 8), draw(2, 2, 130, 5))
    output = sparse_attention(*inputs, normalizer, mask=mask)
    expected = by_hand(*inputs, normalizer, mask=mask.expand(2, 4, 60, 130))
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-4", "oscarmax", "fusedmax"])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(70, 70), (20, 100), (100, 20), (1, 130)])
def test_causal_and_lengths(n_queries, n_keys, name, backend):
    normalizer = NORMALIZERS[name]
    lengths = torch.tensor([n_keys, 7, 0])
    inputs = leaves(draw(3, 2, n_queries, 8), draw(3, 2, n_keys, 8), draw(3, 2, n_keys, 8))
    output = sparse_attention(*inputs, normalizer, causal=True, lengths=lengths)
    past = torch.arange(n_keys) <= torch.arange(n_queries).unsqueeze(-1) + n_keys - n_queries
    mask = past & (torch.arange(n_keys) < lengths.reshape(3, 1, 1, 1))
    expected = by_hand(*inputs, normalizer, mask=mask.expand(3, 2, n_queries, n_keys))
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    assert not output[2].any()
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("per_head", [False, True], ids=["per item", "per head"])
def test_flat_rows_with_lengths(per_head, backend):
    inputs = leaves(draw(2, 2, 100, 8) * 0, draw(2, 2, 130, 8), draw(2, 2, 130, 8))
    lengths = torch.tensor([[130, 71], [0, 5]]) if per_head else torch.tensor([71, 130])
    within = (torch.arange(130) < lengths.reshape(2, -1, 1, 1)) & causal_mask(100, 130)
    output = sparse_attention(*inputs, om.SquaredNorm(), lengths=lengths, causal=True)
    expected = by_hand(*inputs, om.SquaredNorm(), mask=within)
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    for ours, theirs in zip(*(torch.autograd.grad(o.square().sum(), inputs) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


@needs_native
def test_a_mask_of_padding_is_taken_as_lengths(monkeypatch):
    """Also beside lengths, and only where the kept keys are the first ones."""
    inputs = [draw(2, 2, 50, 8), draw(2, 2, 60, 8), draw(2, 2, 60, 8)]
    lengths, others = torch.tensor([40, 60]), torch.tensor([60, 17])
    padding = (torch.arange(60) < lengths[:, None])[:, None, None]
    seen = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *a, **o: (seen.append(a[4]), forward(*a, **o))[1])
    for mask in (padding, padding.flip(-1), padding[1:]):
        output = sparse_attention(*inputs, om.SquaredNorm(), mask=mask, lengths=others)
        allowed = mask & (torch.arange(60) < others[:, None])[:, None, None]
        torch.testing.assert_close(output, by_hand(*inputs, om.SquaredNorm(), mask=allowed), atol=1e-10, rtol=1e-10)
    assert [rows.mask is None for rows in seen] == [True, False, True]
    assert seen[0].lengths.tolist() == [40, 40, 17, 17]


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "fusedmax"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_what_masked_keys_hold_reaches_nothing(bad, name, backend):
    clean = [draw(2, 2, 60, 8), draw(2, 2, 130, 8), draw(2, 2, 130, 5)]
    lengths = torch.tensor([130, 90])
    dirty = leaves(*clean)
    with torch.no_grad():
        dirty[1][1, :, 90:] = bad
        dirty[2][1, :, 90:] = bad
    right = leaves(*clean)
    gradient = draw(2, 2, 60, 5)
    results = [sparse_attention(*x, NORMALIZERS[name], lengths=lengths) for x in (dirty, right)]
    torch.testing.assert_close(*results, atol=0, rtol=0)
    pairs = zip(torch.autograd.grad(results[0], dirty, gradient), torch.autograd.grad(results[1], right, gradient))
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=0, rtol=0)


@needs_native
@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_nan_spoils_its_own_rows_only(spread):
    query, key, value = draw(1, 2, 60, 8, spread=spread), draw(1, 2, 130, 8), draw(1, 2, 130, 5)
    mask = torch.ones(60, 130, dtype=torch.bool)
    mask[:30, 100] = False
    expected = sparse_attention(query, key, value, om.SquaredNorm(), mask=mask)
    key[0, 0, 100, 3] = math.nan  # allowed for the last thirty queries of the first head
    query[0, 1, 5, 2] = math.nan
    inputs = leaves(query, key, value)
    output = sparse_attention(*inputs, om.SquaredNorm(), mask=mask)
    spoilt = torch.zeros(2, 60, dtype=torch.bool)
    spoilt[0, 30:] = True
    spoilt[1, 5] = True
    assert output[0][spoilt].isnan().all()
    torch.testing.assert_close(output[0][~spoilt], expected[0][~spoilt])
    (grad_query,) = torch.autograd.grad(output, inputs[:1], torch.ones_like(output))
    assert grad_query[0][spoilt].isnan().all() and grad_query[0][~spoilt].isfinite().all()


BIASES = {
    "dense": (2, 4, 30, 70),
    "shared": (30, 70),
    "key": (1, 70),
    "key of an item": (2, 1, 1, 70),
    "query": (4, 30, 1),
}


@pytest.mark.parametrize("kind", BIASES)
@pytest.mark.parametrize("spread", [1.0, 0.0], ids=["sparse", "flat"])
def test_bias_and_its_gradient(kind, spread, backend):
    inputs = leaves(draw(2, 4, 30, 8, spread=spread), draw(2, 2, 70, 8), draw(2, 2, 70, 5))
    bias = leaves(draw(*BIASES[kind], spread=0.01 if spread == 0 else 1))[0]
    output = sparse_attention(*inputs, om.Tsallis(1.5), bias=bias)
    expected = by_hand(*inputs, om.Tsallis(1.5), bias=bias)
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, (*inputs, bias), gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 0.0], ids=["sparse", "flat"])
def test_bias_by_distance_and_its_gradient(spread, backend):
    inputs = leaves(draw(2, 4, 30, 8, spread=spread), draw(2, 2, 70, 8), draw(2, 2, 70, 5))
    slopes = (torch.tensor([0.5, 0.25, 0.1, 0.01], dtype=torch.float64) * max(spread, 0.01)).requires_grad_()
    table = leaves(draw(4, 99, spread=max(spread, 0.01)))[0]
    distance = (torch.arange(70) - torch.arange(30).unsqueeze(-1) - 40).abs()
    gradient = draw(2, 4, 30, 5)
    by_slope = -slopes.reshape(4, 1, 1) * distance
    by_table = torch.stack([table[:, 29 - i : 99 - i] for i in range(30)], 1)
    for bias, dense, learns in ((alibi(slopes, 30, 70), by_slope, slopes), (RelativeBias(table), by_table, table)):
        output = sparse_attention(*inputs, om.SquaredNorm(), bias=bias)
        expected = by_hand(*inputs, om.SquaredNorm(), bias=dense)
        torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
        for ours, theirs in zip(*(torch.autograd.grad(o, (*inputs, learns), gradient) for o in (output, expected))):
            torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


def test_huge_negative_bias_is_like_a_mask():
    inputs = [draw(1, 2, 20, 8, dtype=torch.float32), *(draw(1, 2, 90, 8, dtype=torch.float32) for _ in range(2))]
    mask = torch.rand(20, 90) > 0.5
    masked = sparse_attention(*inputs, om.SquaredNorm(), mask=mask)
    for low in (-1e9, -torch.inf):
        bias = torch.zeros(20, 90).masked_fill(~mask, low)
        torch.testing.assert_close(sparse_attention(*inputs, om.SquaredNorm(), bias=bias), masked)
