"""Rows that are as bad as they can be for products in 8 bits: no key of the support is lost, in any instruction set."""

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from sparse_cases import NORMALIZERS, TOLERANCES, by_hand, draw, leaves, needs_native
from threads import same_with_any_threads

from omegamax import routing
from omegamax.attention.sparse_attention import sparse_attention


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

    def compute():
        torch.default_generator.manual_seed(3)
        output = sparse_attention(*inputs, NORMALIZERS[name], dropout=dropout)
        return output, *torch.autograd.grad(output, inputs, gradient)

    same_with_any_threads(compute)
