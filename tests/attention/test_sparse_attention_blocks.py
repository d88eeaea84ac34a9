"""Sparse attention where most keys have weight, and where many keys nearly have: dense blocks, and how few are left."""

import math

import pytest
import torch
from sparse_cases import NORMALIZERS, by_hand, draw, leaves, noted_refusals
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.attention.masking import causal_mask
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights
from omegamax.attention.top_k import TopK
from omegamax.kernels import sparse_attention as kernel

pytestmark = pytest.mark.skipif(routing.native is None, reason="the compiled kernels are not there")

NAMES = ["sparsemax", "entmax15", "entmax(1.3)", "entmax(2.6)", "oscarmax", "fusedmax"]
CLOSE = {torch.float32: {"atol": 1e-5, "rtol": 1e-5}, torch.float64: {"atol": 1e-10, "rtol": 1e-10}}


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3], ids=["constant", "flat", "mixed"])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(1.3)", "top-4", "oscarmax", "fusedmax"])
def test_flat_rows_go_the_dense_way_by_blocks(name, spread, monkeypatch):
    """Some heads are flat and some are not; scores of refused blocks are never held at once."""
    normalizer = NORMALIZERS[name]
    monkeypatch.setattr("omegamax.attention.sparse_attention_function._ELEMENTS", 400 * 100)
    query = draw(2, 2, 150, 12) * torch.tensor([spread, 3.0], dtype=torch.float64).reshape(1, 2, 1, 1)
    inputs = leaves(query, draw(2, 1, 400, 12), draw(2, 1, 400, 6))
    causal = causal_mask(150, 400)
    with noted_refusals(monkeypatch) as refused:
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


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "fusedmax"])
def test_a_budget_that_is_exceeded_changes_nothing(name, monkeypatch):
    inputs = leaves(draw(1, 2, 60, 8), draw(1, 2, 130, 8), draw(1, 2, 130, 8))
    gradient = draw(1, 2, 60, 8)
    kept = sparse_attention(*inputs, NORMALIZERS[name])
    monkeypatch.setattr(kernel, "BUDGET", 1)
    with noted_refusals(monkeypatch) as refused:
        again = sparse_attention(*inputs, NORMALIZERS[name])
    assert refused[0].all()
    torch.testing.assert_close(kept, again, atol=1e-12, rtol=1e-10)
    for a, b in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (kept, again))):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "dtype"),
    # The slope of entmax(2.6) grows without bound towards a weight of zero: scores rounded to float32 show there. From
    # scores that float32 holds exactly the gradients are right, which test_sparse_attention.py checks.
    [(name, dtype) for name in NAMES for dtype in CLOSE if name != "entmax(2.6)" or dtype is torch.float64],
    ids=str,
)
def test_dense_blocks_equal_dense_attention(name, dtype, arch, monkeypatch):
    """Every instruction set, sizes that fill no vector, heads that share keys, and all that is added or left out."""
    normalizer = NORMALIZERS[name]
    sizes = (2, 4, 61, 21), (2, 2, 139, 21), (2, 2, 139, 9)
    query, key, value = (draw(*size, dtype=dtype) for size in sizes)
    bias, mask = draw(4, 61, 139, dtype=dtype) * 1e-3, torch.rand(61, 139) > 0.1
    gradient = draw(2, 4, 61, 9, dtype=dtype)
    past = torch.arange(139) <= torch.arange(61).unsqueeze(-1) + 78
    for options, allowed in (({}, None), ({"mask": mask, "causal": True}, (mask & past).expand(2, 4, 61, 139))):
        ours, theirs = (
            leaves(query * 1e-3, key, value, bias),
            leaves(*(x.double() for x in (query * 1e-3, key, value, bias))),
        )
        with noted_refusals(monkeypatch) as refused:
            output = sparse_attention(*ours[:3], normalizer, bias=ours[3], **options)
        assert name == "entmax(2.6)" or refused[0].all()  # whose weights are few even there
        expected = by_hand(*theirs[:3], normalizer, mask=allowed, bias=theirs[3])
        torch.testing.assert_close(output.double(), expected, **CLOSE[dtype])
        pairs = zip(
            torch.autograd.grad(output, ours, gradient), torch.autograd.grad(expected, theirs, gradient.double())
        )
        for ours_, theirs_ in pairs:
            torch.testing.assert_close(
                ours_.double(), theirs_, atol=10 * CLOSE[dtype]["atol"], rtol=CLOSE[dtype]["rtol"]
            )


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "oscarmax", "fusedmax"])
def test_dense_blocks_give_the_same_bits_for_any_number_of_threads(name, dropout, monkeypatch):
    inputs = leaves(*(draw(1, 2 if i == 0 else 1, 530, 16, dtype=torch.float32) for i in range(3)))
    inputs[0].data[:, :, :400] *= 1e-4  # flat rows, and others
    gradient = draw(1, 2, 530, 16, dtype=torch.float32)

    def compute():
        torch.default_generator.manual_seed(3)
        with noted_refusals(monkeypatch) as refused:
            output = sparse_attention(*inputs, NORMALIZERS[name], dropout=dropout)
        assert refused[0].any() and not refused[0].all()
        return output, *torch.autograd.grad(output, inputs, gradient)

    same_with_any_threads(compute)


def test_an_order_for_each_head_learns_in_dense_blocks():
    alpha = torch.tensor([1.0, 1.3, 1.5, 2.0], dtype=torch.float64).reshape(4, 1, 1).requires_grad_()
    inputs = leaves(draw(1, 4, 60, 6) * 1e-3, draw(1, 2, 90, 6), draw(1, 2, 90, 5))
    output, expected = sparse_attention(*inputs, om.Tsallis(alpha)), by_hand(*inputs, om.Tsallis(alpha))
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, (alpha, *inputs), gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=str)
def test_what_masked_values_hold_reaches_no_dense_block(bad):
    clean = [draw(1, 1, 60, 8) * 1e-4, draw(1, 1, 200, 8), draw(1, 1, 200, 5)]
    mask = torch.ones(200, dtype=torch.bool)
    mask[50:60] = False
    right, dirty = leaves(*clean), leaves(*clean)
    with torch.no_grad():
        dirty[2][:, :, 50:60] = bad
    outputs = [sparse_attention(*x, om.SquaredNorm(), mask=mask) for x in (right, dirty)]
    torch.testing.assert_close(*outputs)
    gradient = draw(1, 1, 60, 5)
    for ours, theirs in zip(*(torch.autograd.grad(o, x, gradient) for o, x in zip(outputs, (right, dirty)))):
        torch.testing.assert_close(ours, theirs)


def rotated(scores, dtype, noise, size=16):
    """A query and keys with the given products, hidden in numbers that 8 bits hold badly."""
    generator = torch.Generator().manual_seed(7)
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    rest = noise * torch.randn(len(scores), size - 1, generator=generator, dtype=torch.float64)
    key = torch.cat([scores.double().unsqueeze(-1), rest], -1) @ basis.T
    return basis[:, :1].T.to(dtype).expand(3, size).contiguous(), key.to(dtype)


def fused_rows(n):
    """Runs at the edge: what they gain is nearly what their ends cost, alone, in pairs, at both ends and when long."""
    ripple = 1e-3 * torch.sin(torch.arange(n) * 1.7)
    rows = {"peaks": ripple.clone(), "pairs": ripple.clone(), "long": ripple.clone(), "ends": ripple.clone()}
    rows["peaks"][::7] += 1.0
    rows["pairs"][::9] += 0.95
    rows["pairs"][1::9] += 0.9
    rows["long"][10 : 10 + n // 3] += 0.30
    rows["long"][n // 2 :: 11] += 0.5
    rows["ends"][:3] += 0.9
    rows["ends"][-3:] += 0.9
    rows["ends"][n // 2] += 1.0
    rows["slope"] = torch.linspace(0, 1, n)
    rows["saw"] = (torch.arange(n) % 5) * 0.12
    return rows


@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    "normalizer",
    [
        om.Fused(0.0),
        om.Fused(0.02),
        om.Fused(0.1),
        om.Fused(1.0),
        om.Fused(20.0),
        om.Oscar(),
        om.Oscar(2e-3),
        om.Oscar(0.1),
    ],
    ids=str,
)
def test_no_key_is_lost_at_the_edge_of_a_structured_window(normalizer, dtype, noise, arch):
    for scores in fused_rows(300).values():
        query, key = rotated(scores, dtype, noise)
        for dropped in (None, torch.arange(300) % 13 != 4):  # masked keys make their neighbours adjacent
            exact = query.double() @ key.double().T
            weights = sparse_attention(query, key, torch.eye(300, dtype=dtype), normalizer, scale=1.0, mask=dropped)
            mask = None if dropped is None else dropped.expand(3, 300)
            expected = normalizer.argmax(exact) if mask is None else normalizer.argmax(exact, mask=mask)
            atol = 2e-6 * (1 + noise) if dtype is torch.float32 else 1e-11
            torch.testing.assert_close(weights.double(), expected, atol=10 * atol, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("normalizer", [om.Fused(0.1), om.Fused(0.02), om.Oscar(), om.Oscar(5e-3)], ids=str)
def test_structured_windows_are_narrow_and_lose_nothing(normalizer, spread, monkeypatch):
    """Scores like those of a model: the support is small, so no block may be refused, and all gradients are exact."""
    inputs = leaves(draw(1, 2, 50, 32) * spread, draw(1, 2, 700, 32), draw(1, 2, 700, 8))
    with noted_refusals(monkeypatch) as refused:
        output = sparse_attention(*inputs, normalizer)
    expected = by_hand(*inputs, normalizer)
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    if spread >= 0.3 and normalizer.strength != 5e-3:  # which makes one cluster of nearly all keys
        assert not refused[0].any()
    gradient = draw(*output.shape)
    for ours, theirs in zip(*(torch.autograd.grad(o, inputs, gradient) for o in (output, expected))):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("k", [1, 3, 32, 150, 400])
@pytest.mark.parametrize("kind", ["equal", "few numbers", "normal", "close"])
def test_the_best_are_those_of_a_stable_sort(kind, k, arch):
    """Of equal scores the first keys are taken."""
    scores = {
        "equal": torch.zeros(300),
        "few numbers": torch.randint(0, 3, (300,)).float(),
        "normal": torch.randn(300),
        "close": 1 + torch.randint(0, 40, (300,)).float() * 2**-23,
    }[kind]
    query, key = torch.ones(2, 1), scores.unsqueeze(-1)
    found = sparse_attention_with_weights(query, key, torch.eye(300), TopK(k), scale=1.0)
    expected = TopK(k).argmax(scores)
    torch.testing.assert_close(found.weights.to_dense(), expected.expand(2, 300))
    assert torch.equal(found.output != 0, (expected != 0).expand(2, 300))
