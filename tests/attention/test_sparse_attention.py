"""Sparse attention against dense scores: values, gradients, masks, and rows made to break the 8-bit screening."""

import contextlib
import math

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch import nn

import omegamax as om
from omegamax import routing
from omegamax.attention.masking import causal_mask
from omegamax.attention.relative_bias import RelativeBias, alibi
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights
from omegamax.attention.top_k import TopK
from omegamax.kernels import sparse_attention as kernel

needs_native = pytest.mark.skipif(routing.native is None, reason="the compiled kernels are not there")

NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "entmax(1.3)": om.Tsallis(1.3),
    "entmax(2.6)": om.Tsallis(2.6),
    "top-4": TopK(4),
    "oscarmax": om.Oscar(),
    "oscarmax(0.05)": om.Oscar(0.05),
    "fusedmax": om.Fused(0.1),
    "colder": om.Scaled(om.SquaredNorm(), 0.5),
    "softmax": om.Shannon(),  # by the dense way
}
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


def draw(*shape, dtype=torch.float64, spread=1.0):
    return torch.randn(*shape, dtype=dtype) * spread


def by_hand(query, key, value, normalizer, *, mask=None, bias=None, scale=None):
    """Dense scores, row by row of the definition; heads of keys are repeated."""
    repeats = query.shape[-3] // key.shape[-3]
    key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.einsum("...qd,...kd->...qk", query * scale, key)
    scores = scores if bias is None else scores + bias
    weights = normalizer.argmax(scores) if mask is None else normalizer.argmax(scores, mask=mask)
    return torch.einsum("...qk,...kf->...qf", weights, value)


def leaves(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


@contextlib.contextmanager
def counting(monkeypatch):
    """Notes how often the native forward pass is called, and which blocks it refused."""
    refused = []
    forward = kernel.forward

    def counted(*args, **options):
        answer = forward(*args, **options)
        refused.append(answer.refused)
        return answer

    monkeypatch.setattr(kernel, "forward", counted)
    yield refused


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
    with counting(monkeypatch) as refused:
        sparse_attention(draw(1, 2, 50, 8), draw(1, 2, 300, 8), draw(1, 2, 300, 8), NORMALIZERS[name])
    assert len(refused) == 1


def test_softmax_and_order_one_take_dense_scores(monkeypatch):
    inputs = draw(1, 2, 5, 8), draw(1, 2, 7, 8), draw(1, 2, 7, 8)
    expected = nn.functional.scaled_dot_product_attention(*inputs)
    with counting(monkeypatch) as refused:
        for normalizer in (om.Shannon(), om.Tsallis(1.0), om.Tsallis(1)):
            torch.testing.assert_close(sparse_attention(*inputs, normalizer), expected)
    assert not refused


@needs_native
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3], ids=["constant", "flat", "mixed"])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(1.3)", "top-4", "oscarmax", "fusedmax"])
def test_flat_rows_go_the_dense_way_by_blocks(name, spread, monkeypatch):
    """Some heads are flat and some are not; scores of refused blocks are never held at once."""
    normalizer = NORMALIZERS[name]
    monkeypatch.setattr("omegamax.attention.sparse_attention_function._ELEMENTS", 400 * 100)
    query = draw(2, 2, 150, 12) * torch.tensor([spread, 3.0], dtype=torch.float64).reshape(1, 2, 1, 1)
    inputs = leaves(query, draw(2, 1, 400, 12), draw(2, 1, 400, 6))
    causal = causal_mask(150, 400)
    with counting(monkeypatch) as refused:
        output = sparse_attention(*inputs, normalizer, causal=True)
    if spread == 0 and name != "top-4":
        assert refused[0][:, 0].all() and not refused[0][:, 1].all()
    expected = by_hand(*inputs, normalizer, mask=causal)
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    if spread == 0 and name == "top-4":
        return  # all are equal, and which four are best is a matter of rounding
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@needs_native
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "fusedmax"])
def test_a_budget_that_is_exceeded_changes_nothing(name, monkeypatch):
    inputs = leaves(draw(1, 2, 60, 8), draw(1, 2, 130, 8), draw(1, 2, 130, 8))
    gradient = draw(1, 2, 60, 8)
    kept = sparse_attention(*inputs, NORMALIZERS[name])
    monkeypatch.setattr(kernel, "BUDGET", 1)
    with counting(monkeypatch) as refused:
        again = sparse_attention(*inputs, NORMALIZERS[name])
    assert refused[0].all()
    torch.testing.assert_close(kept, again, atol=1e-12, rtol=1e-10)
    for a, b in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (kept, again))):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(2.6)", "top-4", "oscarmax(0.05)", "fusedmax"])
@pytest.mark.thinned(3)
def test_gradcheck(name, backend):
    inputs = leaves(draw(1, 4, 5, 3), draw(1, 2, 6, 3), draw(1, 2, 6, 4))
    bias = leaves(draw(4, 5, 6))[0]
    normalizer = NORMALIZERS[name]
    assert torch.autograd.gradcheck(lambda *x: sparse_attention(*x[:3], normalizer, bias=x[3]), (*inputs, bias))


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


# Rows that are as bad as they can be for 8 bits.


def adversarial(kind, n_keys, size, dtype):
    """Keys, and queries for which many scores lie at the edge of the window."""
    generator = torch.Generator().manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key = normal(40, size), normal(n_keys, size)
    if kind == "half levels":  # every number lies in the middle between two levels
        key = (torch.randint(-126, 126, (n_keys, size), generator=generator) + 0.5) / 127
        key[:, 0] = 1
        query = (torch.randint(-126, 126, (40, size), generator=generator) + 0.5) / 127
        query[:, 0] = 1
    elif kind == "one large number":  # all others are below half a level
        key[:, 0], query[:, 0] = 1000, 0.001
    elif kind == "large keys in few groups":
        key[::70] *= 1e4
    elif kind == "large query":
        query *= 1e4
    elif kind == "large keys":
        key *= 1e5
        query /= 1e5
    elif kind == "equal":
        key = key[:1].expand(n_keys, size).clone()
    elif kind == "nearly equal":
        key = key[:1] + normal(n_keys, size) * 1e-6
    elif kind == "edge":  # scores exactly at the edge of the window of sparsemax and of entmax15
        key = torch.zeros(n_keys, size, dtype=torch.float64)
        key[:, 0] = torch.tensor([1.0, 0.0, -1.0, 0.5], dtype=torch.float64).repeat(-(-n_keys // 4))[:n_keys]
        query = torch.zeros(40, size, dtype=torch.float64)
        query[:, 0] = torch.tensor([1.0, 2.0], dtype=torch.float64).repeat(20)
    elif kind == "denormal":
        tiny = torch.finfo(dtype).tiny
        key, query = key * tiny * 0.01, query
    elif kind == "tiny":
        key, query = key * 1e-20, query * 1e-20
    elif kind == "zero":
        key = torch.zeros_like(key)
    elif kind == "huge":
        key, query = key * 1e9, query * 1e9
    return query.to(dtype), key.to(dtype)


KINDS = [
    "half levels",
    "one large number",
    "large keys in few groups",
    "large query",
    "large keys",
    "equal",
    "nearly equal",
    "edge",
    "denormal",
    "tiny",
    "zero",
    "huge",
]


@needs_native
@pytest.mark.parametrize("fine", [True, False], ids=["8 bits", "7 bits"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(1.3)", "oscarmax", "fusedmax", "top-4"])
def test_no_key_of_the_support_is_lost(name, dtype, kind, fine, arch):
    """The exact solver on the scores as the kernel computes them, which one query at a time with all keys gives."""
    normalizer = NORMALIZERS[name]
    query, key = adversarial(kind, 200, 16, dtype)
    value = torch.eye(200, dtype=dtype)  # the output is the weights
    routing.native.allow_vnni(fine)
    try:
        weights = sparse_attention(query, key, value, normalizer, scale=1.0)
    finally:
        routing.native.allow_vnni(True)
    scores = query.double() @ key.double().T
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(40, dtype=dtype), atol=1e-5, rtol=0)
    # Scores are products in their own type: what their rounding does to weights is not held against the screening.
    rounding = 4 * torch.finfo(dtype).eps * (query.double().abs() @ key.double().abs().T).amax(-1, keepdim=True)
    if name == "top-4":
        least = scores.sort(-1, descending=True).values[:, 3:4]
        assert ((weights > 0).sum(-1) <= 4).all()
        lost = (scores > least + 2 * rounding) & (weights == 0)
        gap = (scores - scores.amax(-1, keepdim=True)).exp()  # weights that softmax cannot show
        assert not (lost & (gap > 1e-6)).any()
        return
    expected = normalizer.argmax(scores)
    tolerance = (TOLERANCES[dtype] + 200 * rounding).expand_as(expected)
    assert ((weights.double() - expected).abs() <= tolerance.clamp(max=1.0)).all()


@needs_native
@hypothesis.given(data=st.data())
def test_random_problems(data):
    """Random sizes, spreads, masks and operators against dense scores in float64."""
    sizes = st.integers(1, 70)
    n_queries, n_keys, size, features = (data.draw(sizes) for _ in range(4))
    heads, kv_heads = data.draw(st.sampled_from([(1, 1), (4, 2), (3, 1)]))
    normalizer = NORMALIZERS[data.draw(st.sampled_from(sorted(set(NORMALIZERS) - {"softmax"})))]
    torch.default_generator.manual_seed(data.draw(st.integers(0, 2**31)))
    spread = data.draw(st.sampled_from([0.01, 0.3, 1.0, 3.0, 30.0]))
    inputs = leaves(
        draw(2, heads, n_queries, size, spread=spread),
        draw(2, kv_heads, n_keys, size),
        draw(2, kv_heads, n_keys, features),
    )
    options, mask = {}, torch.ones(2, heads, n_queries, n_keys, dtype=torch.bool)
    if data.draw(st.booleans()):
        options["mask"] = torch.rand(n_queries, n_keys) > data.draw(st.sampled_from([0.1, 0.9]))
        mask = mask & options["mask"]
    if data.draw(st.booleans()):
        options["causal"] = True
        mask = mask & (torch.arange(n_keys) <= torch.arange(n_queries).unsqueeze(-1) + n_keys - n_queries)
    if data.draw(st.booleans()):
        options["lengths"] = torch.randint(0, n_keys + 1, (2,))
        mask = mask & (torch.arange(n_keys) < options["lengths"].reshape(2, 1, 1, 1))
    output = sparse_attention(*inputs, normalizer, **options)
    expected = by_hand(*inputs, normalizer, mask=mask)
    torch.testing.assert_close(output, expected, atol=1e-9, rtol=1e-9)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-7)


@needs_native
@pytest.mark.parametrize("fine", [True, False], ids=["8 bits", "7 bits"])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "fusedmax"])
def test_every_instruction_set(name, fine, arch):
    inputs = [draw(1, 2, 50, 24), draw(1, 2, 500, 24), draw(1, 2, 500, 24)]
    routing.native.allow_vnni(fine)
    try:
        single = sparse_attention(*(x.float() for x in inputs), NORMALIZERS[name])
        torch.testing.assert_close(single.double(), by_hand(*inputs, NORMALIZERS[name]), atol=2e-5, rtol=1e-5)
    finally:
        routing.native.allow_vnni(True)


@needs_native
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "oscarmax"])
@pytest.mark.thinned(3)
def test_the_same_bits_for_any_number_of_threads(name, dropout):
    inputs = leaves(*(draw(2, 4 if i == 0 else 2, 1100, 16, dtype=torch.float32) for i in range(3)))
    inputs[0].data[0, 0] *= 0  # a flat head
    gradient = draw(2, 4, 1100, 16, dtype=torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.default_generator.manual_seed(3)
            output = sparse_attention(*inputs, NORMALIZERS[name], dropout=dropout)
            sparse_rows = output[:, 1:]
            grads = torch.autograd.grad(sparse_rows, inputs, gradient[:, 1:])
            results.append([sparse_rows, *grads])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert torch.equal(a[:, 1:], b[:, 1:])


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


@needs_native
def test_memory_does_not_grow_with_the_square(monkeypatch):
    """The support is kept within its budget, and dense blocks are small."""
    inputs = leaves(*(draw(1, 1, 4000, 8, dtype=torch.float32) for _ in range(3)))
    for spread in (1.0, 0.0):
        saved = []
        with counting(monkeypatch) as refused, torch.autograd.graph.saved_tensors_hooks(saved.append, lambda x: x):
            sparse_attention(inputs[0] * spread, *inputs[1:], om.SquaredNorm())
        assert sum(tensor.numel() for tensor in saved) < 4000 * 300
        assert bool(refused[0].all()) == (spread == 0)


def test_a_second_derivative_raises(backend):
    inputs = leaves(draw(1, 1, 5, 3), draw(1, 1, 6, 3), draw(1, 1, 6, 4))
    output = sparse_attention(*inputs, om.SquaredNorm())
    for total in (output.square().sum(), output.sum()):
        (grad,) = torch.autograd.grad(total, inputs[:1], create_graph=True)
        if backend == "native":
            with pytest.raises(RuntimeError, match="can be taken once"):
                torch.autograd.grad(grad.sum(), inputs[0], allow_unused=True)
        else:
            assert torch.autograd.grad(grad.sum(), inputs[0], retain_graph=True)[0].isfinite().all()


def test_other_contexts_take_dense_scores(backend):
    inputs = [draw(1, 2, 6, 4), draw(1, 2, 9, 4), draw(1, 2, 9, 4)]
    normalizer = om.Tsallis(1.5)

    def total(*x):
        return sparse_attention(*x, normalizer).square().sum()

    learning = leaves(*inputs)
    expected = torch.autograd.grad(by_hand(*learning, normalizer).square().sum(), learning)
    for ours, theirs in zip(torch.func.grad(total, argnums=(0, 1, 2))(*inputs), expected):
        torch.testing.assert_close(ours, theirs)
    tangents = [draw(*x.shape) for x in inputs]
    _, along = torch.func.jvp(total, tuple(inputs), tuple(tangents))
    torch.testing.assert_close(along, sum((t * g).sum() for t, g in zip(tangents, expected)))
    batched = torch.func.vmap(lambda q: sparse_attention(q, *inputs[1:], normalizer))(torch.stack([inputs[0]] * 3))
    torch.testing.assert_close(batched[1], by_hand(*inputs, normalizer))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(inputs[0], tangents[0])
        moved = torch.autograd.forward_ad.unpack_dual(total(dual, *inputs[1:])).tangent
    torch.testing.assert_close(moved, (tangents[0] * expected[0]).sum())
    hessian = torch.func.hessian(lambda q: total(q, *inputs[1:]))(inputs[0])
    assert hessian.isfinite().all()


@pytest.mark.parametrize("spread", [1.0, 0.0], ids=["sparse", "flat"])
def test_autocast_changes_nothing_inside(spread, backend):
    """Blocks of dense products would otherwise hold half precision where kernels read float32."""
    inputs = leaves(*(draw(1, 2, 100, 8, dtype=torch.float32) * s for s in (spread, 1.0, 1.0)))
    gradient = draw(1, 2, 100, 8, dtype=torch.float32)
    expected = sparse_attention(*inputs, om.Tsallis(1.5))
    right = torch.autograd.grad(expected, inputs, gradient)
    tolerance = 0.0 if backend == "native" else 0.1  # dense scores are rounded as all products are
    with torch.autocast("cpu", torch.bfloat16):
        output = sparse_attention(*inputs, om.Tsallis(1.5))
        found = torch.autograd.grad(output, inputs, gradient.to(output.dtype))
    for ours, theirs in zip((output, *found), (expected, *right)):
        torch.testing.assert_close(ours.float(), theirs, atol=tolerance, rtol=tolerance)


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


def test_checkpointing_computes_it_again():
    inputs = leaves(draw(1, 2, 60, 4), draw(1, 2, 90, 4), draw(1, 2, 90, 4))
    plain = sparse_attention(*inputs, om.SquaredNorm())
    again = torch.utils.checkpoint.checkpoint(
        lambda *x: sparse_attention(*x, om.SquaredNorm()), *inputs, use_reentrant=False
    )
    for a, b in zip(*(torch.autograd.grad(o.square().sum(), inputs) for o in (plain, again))):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


@pytest.mark.parametrize("shape", [(0, 2, 5, 4), (1, 0, 5, 4), (1, 2, 0, 4)])
def test_nothing_to_do(shape, backend):
    query = draw(*shape)
    key = draw(*shape[:2], 7, 4) if shape[1] else draw(shape[0], 1, 7, 4)
    assert sparse_attention(query, key, key, om.SquaredNorm()).shape == query.shape
    assert not sparse_attention(draw(1, 1, 5, 4), draw(1, 1, 0, 4), draw(1, 1, 0, 3), om.SquaredNorm()).any()


def test_top_k():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, -torch.inf]])
    torch.testing.assert_close(TopK(2).argmax(scores), torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]))
    torch.testing.assert_close(TopK(9).argmax(scores), scores.softmax(-1))
    torch.testing.assert_close(TopK(2).max(scores), 3 + torch.log(torch.tensor([2.0])))
    assert not TopK(2).argmax(scores, mask=torch.tensor(False)).any()
    weights = TopK(3).argmax(scores)
    value = (weights[:, :4] * scores[:, :4]).sum(-1) - TopK(3).omega(weights)
    torch.testing.assert_close(TopK(3).max(scores), value)
    assert TopK(2).omega(weights).isinf().all()
    scores = draw(4, 7).requires_grad_()
    assert torch.autograd.gradcheck(TopK(3).max, scores)
    (gradient,) = torch.autograd.grad(TopK(3).max(scores).sum(), scores)
    torch.testing.assert_close(gradient, TopK(3).argmax(scores))


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
