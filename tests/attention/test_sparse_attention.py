"""Sparse attention against dense scores: values, gradients, what learns, weights in CSR form, bad input."""

import math

import pytest
import torch
from sparse_cases import NORMALIZERS, TOLERANCES, by_hand, draw, leaves, needs_native, noted_refusals
from torch import nn

import omegamax as om
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", NORMALIZERS)
def test_equals_dense_attention_in_value_and_all_gradients(name, dtype, backend):
    normalizer = NORMALIZERS[name]
    inputs = [draw(2, 3, 70, 20), draw(2, 3, 150, 20), draw(2, 3, 150, 9)]
    gradient = draw(2, 3, 70, 9).to(dtype)
    ours = leaves(*(x.to(dtype) for x in inputs))
    theirs = leaves(*inputs)
    output, expected = sparse_attention(*ours, normalizer), by_hand(*theirs, normalizer)
    assert output.dtype is dtype
    close = {"atol": TOLERANCES[dtype], "rtol": TOLERANCES[dtype]}
    torch.testing.assert_close(output.double(), expected, **close)
    found = torch.autograd.grad(output, ours, gradient)
    right = torch.autograd.grad(expected, theirs, gradient.double())
    for ours_, theirs_ in zip(found, right):
        torch.testing.assert_close(ours_.double(), theirs_, atol=10 * close["atol"], rtol=close["rtol"])


@needs_native
@pytest.mark.parametrize("name", [name for name in NORMALIZERS if name != "softmax"])
def test_takes_the_native_way(name, monkeypatch):
    with noted_refusals(monkeypatch) as refused:
        sparse_attention(draw(1, 2, 50, 8), draw(1, 2, 300, 8), draw(1, 2, 300, 8), NORMALIZERS[name])
    assert len(refused) == 1


def test_softmax_and_order_one_take_dense_scores(monkeypatch):
    inputs = draw(1, 2, 5, 8), draw(1, 2, 7, 8), draw(1, 2, 7, 8)
    expected = nn.functional.scaled_dot_product_attention(*inputs)
    with noted_refusals(monkeypatch) as refused:
        for normalizer in (om.Shannon(), om.Tsallis(1.0), om.Tsallis(1)):
            torch.testing.assert_close(sparse_attention(*inputs, normalizer), expected)
    assert not refused


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(2.6)", "top-4", "oscarmax(0.05)", "fusedmax"])
@pytest.mark.thinned(3)
def test_gradcheck(name, backend):
    inputs = leaves(draw(1, 4, 5, 3), draw(1, 2, 6, 3), draw(1, 2, 6, 4))
    bias = leaves(draw(4, 5, 6))[0]
    normalizer = NORMALIZERS[name]
    assert torch.autograd.gradcheck(lambda *x: sparse_attention(*x[:3], normalizer, bias=x[3]), (*inputs, bias))


@pytest.mark.parametrize("alpha", [2.2, 2.6, 4.0])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_the_smallest_weights_have_exact_gradients_in_float32(alpha, gap, backend):
    """Above order 2 the slope p^(2 − α) grows without bound towards p = 0. Products with ones have exact scores."""
    normalizer, query = om.Tsallis(alpha), torch.ones(1, 1, 1)
    key, value, gradient = 0.3 * torch.randn(1, 64, 1), torch.randn(1, 64, 8), torch.randn(1, 1, 8)
    key[0, :8, 0] = key.amin() - 10  # below the threshold
    scores = key.flatten().double()
    weights = normalizer.argmax(scores)
    threshold = scores.max() - weights.max() ** (alpha - 1) / (alpha - 1)
    key[0, 3, 0] = float(threshold) + gap  # just above it
    grads = []
    for dtype in (torch.float32, torch.float64):
        inputs = leaves(query.to(dtype), key.to(dtype), value.to(dtype))
        output = sparse_attention(*inputs, normalizer, scale=1.0)
        grads.append(torch.autograd.grad(output, inputs, gradient.to(dtype)))
    assert 0 < normalizer.argmax(key.flatten().double())[3] < weights.max()
    for found, expected in zip(*grads):
        torch.testing.assert_close(found.double(), expected, atol=1e-5 * float(expected.abs().max()), rtol=0)


def test_the_order_learns(backend):
    """One α per head, also through 1, 1.5 and 2; and the temperature of a layer."""
    alpha = torch.tensor([1.2, 1.5, 2.0, 2.4], dtype=torch.float64).reshape(4, 1, 1).requires_grad_()
    inputs = leaves(draw(2, 4, 30, 6), draw(2, 4, 90, 6), draw(2, 4, 90, 5))
    output = sparse_attention(*inputs, om.Tsallis(alpha))
    expected = by_hand(*inputs, om.Tsallis(alpha))
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, (alpha, *inputs), gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)

    flat = om.Tsallis(torch.full((4, 1, 1), 1.0, dtype=torch.float64).requires_grad_())
    torch.testing.assert_close(sparse_attention(*inputs, flat), by_hand(*inputs, om.Shannon()), atol=1e-10, rtol=1e-10)


def test_layers_learn_their_temperature_and_order(backend):
    layer = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1)), gamma=om.Above(0.0, start=0.7, shape=(2, 1, 1)))
    layer = layer.double()
    inputs = leaves(draw(1, 2, 20, 6), draw(1, 2, 50, 6), draw(1, 2, 50, 5))
    bias = leaves(draw(2, 1, 50))[0]
    table = leaves(draw(2, 69))[0]
    wanted = (*inputs, *layer.parameters())
    scores = torch.einsum("...qd,...kd->...qk", inputs[0] / math.sqrt(6), inputs[1])
    for added, dense, more in ((bias, bias, bias), (RelativeBias(table), RelativeBias(table).dense(20, 50), table)):
        output = sparse_attention(*inputs, layer, bias=added)
        expected = layer(scores + dense) @ inputs[2]
        torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
        gradient = draw(*output.shape)
        pairs = zip(
            torch.autograd.grad(output, (*wanted, more), gradient),
            torch.autograd.grad(expected, (*wanted, more), gradient, retain_graph=True),
        )
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype, backend):
    inputs = [draw(2, 2, 30, 16).to(dtype) for _ in range(3)]
    output = sparse_attention(*inputs, om.SquaredNorm())
    assert output.dtype is dtype
    torch.testing.assert_close(output, sparse_attention(*(x.float() for x in inputs), om.SquaredNorm()).to(dtype))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize("features", [1, 7, 64, 100])
def test_any_head_size(size, features):
    inputs = leaves(draw(1, 1, 13, size), draw(1, 1, 77, size), draw(1, 1, 77, features))
    output, expected = sparse_attention(*inputs, om.SquaredNorm()), by_hand(*inputs, om.SquaredNorm())
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_batch_axes_broadcast_and_may_be_absent(backend):
    query, key, value = draw(2, 1, 4, 20, 8), draw(3, 2, 50, 8), draw(2, 3, 2, 50, 5)
    expanded = [x.expand(2, 3, *x.shape[-3:]) for x in (query, key, value)]
    expected = by_hand(*expanded, om.SquaredNorm())
    torch.testing.assert_close(sparse_attention(query, key, value, om.SquaredNorm()), expected)
    mask = torch.rand(2, 1, 1, 1, 50) > 0.5
    masked = by_hand(*expanded, om.SquaredNorm(), mask=mask.expand(2, 3, 4, 20, 50))
    torch.testing.assert_close(sparse_attention(query, key, value, om.SquaredNorm(), mask=mask), masked)
    plain = sparse_attention(query[0, 0, 0], key[0, 0], value[0, 0, 0], om.SquaredNorm())
    torch.testing.assert_close(plain, expected[0, 0, 0])


@needs_native
@pytest.mark.parametrize("spread", [1.0, 0.0], ids=["sparse", "flat"])
def test_dropout_drops_weights_and_the_backward_pass_drops_the_same(spread):
    query, key = draw(2, 2, 60, 8, spread=spread), draw(2, 2, 200, 8)
    value = torch.eye(200, dtype=torch.float64).expand(2, 2, 200, 200).contiguous()
    plain = sparse_attention(query, key, value, om.Tsallis(1.5))
    share = 0.3

    def seeded(*inputs):
        torch.default_generator.manual_seed(11)
        return sparse_attention(*inputs, om.Tsallis(1.5), dropout=share)

    dropped = seeded(query, key, value)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], plain[kept] / (1 - share))
    assert abs(float(kept.sum() / (plain != 0).sum()) - (1 - share)) < 0.05
    assert not torch.equal(dropped, sparse_attention(query, key, value, om.Tsallis(1.5), dropout=share))
    inputs = leaves(query[:1, :1, :4], key[:1, :1, :9], value[:1, :1, :9, :9])
    assert torch.autograd.gradcheck(seeded, tuple(inputs))


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "fusedmax", "softmax"])
def test_weights_in_csr_form(name, backend):
    inputs = leaves(draw(2, 3, 50, 8), draw(2, 3, 90, 8), draw(2, 3, 90, 5))
    found = sparse_attention_with_weights(*inputs, NORMALIZERS[name])
    scores = torch.einsum("...qd,...kd->...qk", inputs[0].detach() / math.sqrt(8), inputs[1].detach())
    expected = NORMALIZERS[name].argmax(scores)
    assert found.weights.layout is torch.sparse_csr and not found.weights.requires_grad
    torch.testing.assert_close(found.weights.to_dense(), expected.reshape(300, 90), atol=1e-10, rtol=1e-10)
    assert torch.equal(found.support_sizes, (expected != 0).sum(-1))
    torch.testing.assert_close(found.output, expected @ inputs[2])
    found.output.sum().backward()
    assert inputs[0].grad is not None


@needs_native
def test_weights_of_flat_rows_are_kept_too():
    inputs = [
        torch.zeros(1, 1, 60, 8),
        draw(1, 1, 700, 8, dtype=torch.float32),
        draw(1, 1, 700, 8, dtype=torch.float32),
    ]
    found = sparse_attention_with_weights(*inputs, om.SquaredNorm())
    torch.testing.assert_close(found.weights.to_dense(), torch.full((60, 700), 1 / 700))


@pytest.mark.parametrize("shape", [(0, 2, 5, 4), (1, 0, 5, 4), (1, 2, 0, 4)])
def test_nothing_to_do(shape, backend):
    query = draw(*shape)
    key = draw(*shape[:2], 7, 4) if shape[1] else draw(shape[0], 1, 7, 4)
    assert sparse_attention(query, key, key, om.SquaredNorm()).shape == query.shape
    assert not sparse_attention(draw(1, 1, 5, 4), draw(1, 1, 0, 4), draw(1, 1, 0, 3), om.SquaredNorm()).any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"query": [1.0]}, TypeError, "query must be a Tensor"),
        ({"query": torch.zeros(4)}, ValueError, "query must have the shape"),
        ({"key": torch.zeros(1, 2, 7, 5)}, ValueError, "features of one size"),
        ({"value": torch.zeros(1, 2, 6, 4)}, ValueError, "one value per key"),
        ({"value": torch.zeros(1, 2, 7, 4).double()}, TypeError, "share their dtype"),
        ({"key": torch.zeros(1, 3, 7, 4)}, ValueError, "same number of heads"),
        ({"query": torch.zeros(3, 2, 5, 4), "key": torch.zeros(2, 2, 7, 4)}, ValueError, "batch axes"),
        ({"normalizer": "sparsemax"}, TypeError, "normalizer must be"),
        ({"mask": torch.zeros(5, 6, dtype=torch.bool)}, ValueError, "mask must broadcast"),
        ({"mask": torch.zeros(5, 7)}, TypeError, "mask must be boolean"),
        ({"lengths": torch.tensor([8])}, ValueError, "lengths must lie between"),
        ({"lengths": torch.tensor([3, 3])}, ValueError, "lengths must match"),
        ({"bias": torch.zeros(5, 6)}, ValueError, "bias must broadcast"),
        ({"bias": RelativeBias(torch.zeros(2, 7))}, ValueError, "bias must broadcast"),
        ({"scale": math.inf}, ValueError, "scale must be finite"),
        ({"dropout": 1.0}, ValueError, "dropout must lie"),
    ],
)
def test_refusals(change, error, message):
    arguments = {
        "query": torch.zeros(1, 2, 5, 4),
        "key": torch.zeros(1, 2, 7, 4),
        "value": torch.zeros(1, 2, 7, 4),
        "normalizer": om.SquaredNorm(),
    }
    with pytest.raises(error, match=message):
        sparse_attention(**(arguments | change))
