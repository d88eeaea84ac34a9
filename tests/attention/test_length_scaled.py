"""The temperature by length against its formula, written out row by row, and in every attention layer."""

import math

import pytest
import torch
from sparse_cases import needs_native
from torch import nn

import omegamax as om
from omegamax import routing
from omegamax.attention import AdaptiveLogLength, LengthScale, LengthScaled, LogLength, RelativeBias, alibi
from omegamax.attention.key_counts import count_keys
from omegamax.attention.masking import attention_mask, causal_mask
from omegamax.attention.shards.attention_over_heads import _of_heads
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights
from omegamax.kernels import sparse_attention as kernel

INNER = {
    "softmax": om.Shannon(),
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "fusedmax": om.Fused(0.1),
    "top-3": om.attention.TopK(3),
    "colder": om.Scaled(om.SquaredNorm(), 0.5),
    "layer": om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1))).double(),
}


def scales(n_heads=None):
    """Both published scales, whose heads differ."""
    both = LogLength(n_heads, s=0.7), AdaptiveLogLength(n_heads, beta=0.3, exponent=1.4, delta=0.5)
    generator = torch.Generator().manual_seed(1)
    for scale in both:
        for parameter in scale.parameters():
            parameter.data += 0.2 * torch.rand(parameter.shape, generator=generator)
    return {"log": both[0].double(), "adaptive": both[1].double()}


def factor_by_hand(scale, head, n):
    """f(n) of a head, in plain numbers."""

    def of_head(parameter):
        return float(parameter.detach().flatten()[head if parameter.dim() else 0])

    if isinstance(scale, LogLength):
        return of_head(scale.s) * math.log(n)
    beta = math.log1p(math.exp(of_head(scale.beta.raw)))
    return scale.delta + (beta * math.log(n) ** of_head(scale.exponent) if n > 1 else 0.0)


def by_hand(inner, scale, scores, mask):
    """Weights of scores (items, heads, Q, K), one row at a time, each without its masked keys."""
    weights = torch.zeros_like(scores)
    mask = mask.expand(scores.shape)
    for item, head, query in torch.cartesian_prod(*map(torch.arange, scores.shape[:-1])).tolist():
        seen = mask[item, head, query]
        n = int(seen.sum())
        if n == 0:
            continue
        row = factor_by_hand(scale, head, n) * scores[item, head, query, seen]
        if isinstance(inner, nn.Module):
            order = inner.alpha().flatten()[head]
            weights[item, head, query, seen] = om.entmax(row, alpha=order)
        else:
            weights[item, head, query, seen] = inner.argmax(row)
    return weights


MASKS = {
    "none": lambda: torch.ones(7, 9, dtype=torch.bool),
    "causal": lambda: causal_mask(7, 9),
    "before the first key": lambda: causal_mask(9, 7)[:7, :7],
    "keys": lambda: torch.rand(2, 1, 1, 9) > 0.4,
    "pairs": lambda: torch.rand(2, 2, 7, 9) > 0.6,
}


@pytest.mark.parametrize("kind", ["log", "adaptive"])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("masked", MASKS)
def test_equals_the_formula_row_by_row(masked, inner, kind):
    mask, scale = MASKS[masked](), scales(2)[kind]
    scores = torch.randn(2, 2, 7, mask.shape[-1], dtype=torch.float64)
    found = LengthScaled(INNER[inner], scale)(scores, mask)
    torch.testing.assert_close(found, by_hand(INNER[inner], scale, scores, mask))
    same = LengthScaled(INNER[inner], scale)(scores.masked_fill(~mask, -torch.inf))  # −inf is the same as masked
    torch.testing.assert_close(same, found)


def test_the_published_special_cases():
    torch.manual_seed(0)
    scores = torch.randn(3, 20, dtype=torch.float64)
    ssmax = LengthScaled(om.Shannon(), LogLength(s=0.8).double())(scores)
    powers = 20.0 ** (0.8 * scores)  # n^(s z), the paper's own form
    torch.testing.assert_close(ssmax, powers / powers.sum(-1, keepdim=True))

    sharper = AdaptiveLogLength(beta=0.8, exponent=1.0, delta=0.0).double()
    torch.testing.assert_close(LengthScaled(om.Shannon(), sharper)(scores), ssmax)
    steady = AdaptiveLogLength(beta=0.8, exponent=0.0, delta=1.0).double()
    torch.testing.assert_close(LengthScaled(om.Tsallis(1.5), steady)(scores), om.entmax15(1.8 * scores))


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_the_largest_weight_of_softmax_fades_and_of_the_scaled_one_does_not(n):
    scores = torch.full((n,), -2.0)
    scores[-1] = 3.0  # the example of the paper's first figure
    plain, scaled = om.softmax(scores)[-1], LengthScaled(om.Shannon(), LogLength(s=0.43))(scores)[-1]
    torch.testing.assert_close(plain, torch.tensor(1 / (1 + (n - 1) * math.exp(-5))))
    assert scaled > 0.93
    assert n < 1000 or plain < 0.15


@pytest.mark.parametrize("exponent", [-2.0, 0.0, 0.5, 1.0])
def test_rows_with_one_key_and_without_keys(exponent):
    """(log 1)^γ is 0 for every γ; nothing is NaN, and such rows send no gradient."""
    for scale in (LogLength(), AdaptiveLogLength(exponent=exponent, delta=0.3)):
        scores = torch.randn(3, 4, requires_grad=True)
        mask = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 1]]).bool()
        expected = 0.0 if isinstance(scale, LogLength) else 0.3
        torch.testing.assert_close(scale(torch.tensor([[0], [1]])).flatten(), torch.full((2,), expected))
        weights = LengthScaled(om.Shannon(), scale)(scores, mask)
        assert weights[0].tolist() == [0, 0, 0, 0] and weights[1].tolist() == [0, 1, 0, 0]
        grads = torch.autograd.grad(weights[..., 0].sum() + weights[..., 1].sum(), [scores, *scale.parameters()])
        assert all(grad.isfinite().all() for grad in grads)
        assert not grads[0][:2].any() and grads[0][2].any()


def test_nothing_at_all():
    for shape in ((0, 4), (3, 0), (2, 0, 3, 4)):
        assert LengthScaled(om.SquaredNorm())(torch.zeros(shape)).shape == shape


def test_a_nan_spoils_its_own_row_and_nothing_where_it_is_masked():
    layer = LengthScaled(om.SquaredNorm())
    scores = torch.randn(3, 4)
    expected = layer(scores, torch.tensor([True, True, True, False]))
    scores[:, 3] = torch.nan
    torch.testing.assert_close(layer(scores, torch.tensor([True, True, True, False])), expected)
    scores[:, 3], scores[1, 2] = 0.0, torch.nan
    assert layer(scores).isnan().any(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("size", [1e30, 1e-30, -1e30])
def test_huge_and_tiny_scores(size):
    scores = torch.tensor([[1.0, 0.5, -1.0]]) * size
    weights = LengthScaled(om.SquaredNorm())(scores)
    torch.testing.assert_close(weights, om.sparsemax(0.43 * math.log(3) * scores.double()).float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_rounded_once(dtype):
    """The factor is computed in float32, also where the parameters are half: they cannot count to 3000."""
    scores = (0.1 * torch.randn(2, 3001)).to(dtype)
    layer = LengthScaled(om.SquaredNorm(), LogLength(s=0.5))
    found = layer.to(dtype)(scores)
    assert found.dtype is dtype
    expected = om.sparsemax(0.5 * math.log(3001) * scores.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-2, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("kind", ["log", "adaptive"])
@pytest.mark.parametrize("inner", ["softmax", "sparsemax", "entmax15", "layer"])
def test_gradcheck_of_scores_and_parameters(inner, kind):
    normalizer = LengthScaled(INNER[inner], scales(2)[kind])
    names = [name for name, _ in normalizer.named_parameters()]

    def run(scores, *values):
        return torch.func.functional_call(normalizer, dict(zip(names, values)), (scores, causal_mask(4, 5)))

    scores = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        run, (scores, *(p.detach().clone().requires_grad_() for p in normalizer.parameters()))
    )


MASKED = {
    "nothing": {},
    "causal": {"causal": True},
    "lengths": {"lengths": torch.tensor([3, 60])},
    "no keys": {"lengths": torch.tensor([0, 1]), "causal": True},
    "key mask": {"mask": torch.rand(2, 1, 1, 90, generator=torch.Generator().manual_seed(0)) > 0.3, "causal": True},
    "one row": {"mask": torch.rand(90, generator=torch.Generator().manual_seed(0)) > 0.3},
    "pairs": {"mask": torch.rand(2, 1, 70, 90, generator=torch.Generator().manual_seed(0)) > 0.6},
    "all": {
        "mask": torch.rand(70, 90, generator=torch.Generator().manual_seed(0)) > 0.3,
        "lengths": torch.tensor([40, 90]),
        "causal": True,
    },
}


@pytest.mark.parametrize("masked", MASKED)
@pytest.mark.parametrize("shape", [(2, 4, 70, 90), (2, 1, 300, 90)], ids=["more keys", "more queries"])
def test_counts_are_those_of_the_mask(masked, shape):
    given = dict(MASKED[masked])
    if "mask" in given and given["mask"].dim() > 1 and given["mask"].shape[-2] > 1:
        shape = (*shape[:2], 70, 90)
    scores = torch.zeros(()).expand(shape)
    allowed = attention_mask("test", scores, **given)
    expected = torch.full((1,), 90) if allowed is None else allowed.expand(shape).sum(-1, keepdim=True)
    found = count_keys(shape, **given)
    assert torch.equal(found.expand(*shape[:-1], 1), expected.expand(*shape[:-1], 1))


def test_counts_leave_out_biases_of_minus_infinity():
    window = torch.where(torch.arange(-69, 90).abs() < 11, 0.0, -torch.inf).unsqueeze(0)
    keys = torch.where(torch.arange(90) % 3 == 0, -torch.inf, 1.0).unsqueeze(0)
    for bias, dense in ((RelativeBias(window), RelativeBias(window).dense(70, 90)), (keys, keys)):
        for given in MASKED.values():
            allowed = attention_mask("test", torch.zeros(()).expand(2, 4, 70, 90), **given)
            allowed = (dense != -torch.inf) & (True if allowed is None else allowed)
            found = count_keys((2, 4, 70, 90), bias=bias, **given)
            expected = allowed.expand(2, 4, 70, 90).sum(-1, keepdim=True)
            assert torch.equal(found.expand(expected.shape), expected)


def test_counts_of_causal_rows_need_no_matrix():
    n = 1 << 17  # a matrix would have 16 GB
    keys = torch.ones(1, n, dtype=torch.bool)
    counts = count_keys((1, 1, n, n), mask=keys, lengths=torch.tensor([n - 5]), causal=True)
    assert counts.flatten()[[0, 7, n - 6, n - 1]].tolist() == [1, 8, n - 5, n - 5]


@pytest.mark.parametrize("kind", ["log", "adaptive"])
@pytest.mark.parametrize("masked", MASKED)
@pytest.mark.parametrize("inner", ["sparsemax", "entmax15", "fusedmax", "top-3", "colder", "layer", "softmax"])
def test_sparse_attention_equals_dense_attention(inner, masked, kind, backend):
    """Values and all gradients, also those of s, β, γ, of an order that learns and of a bias for each key."""
    torch.manual_seed(0)
    scale = scales(2)[kind]
    normalizer = LengthScaled(INNER[inner], scale)
    inputs = [torch.randn(2, 2, n, f, dtype=torch.float64, requires_grad=True) for n, f in ((70, 6), (90, 6), (90, 5))]
    bias = torch.randn(2, 1, 90, dtype=torch.float64, requires_grad=True)
    output = sparse_attention(*inputs, normalizer, bias=bias, **MASKED[masked])
    scores = inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(6) + bias
    allowed = attention_mask("test", scores, **MASKED[masked])
    expected = normalizer(scores, allowed) @ inputs[2]
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    gradient = torch.randn_like(output)
    learned = [*inputs, bias, *normalizer.parameters()]
    pairs = (torch.autograd.grad(o, learned, gradient) for o in (output, expected))
    for ours, theirs in zip(*pairs):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@needs_native
@pytest.mark.parametrize("inner", [name for name in INNER if name != "softmax"])
def test_sparse_attention_goes_the_native_way(inner, monkeypatch):
    calls = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *args, **options: calls.append(1) or forward(*args, **options))
    inputs = [torch.randn(1, 2, 50, 8, dtype=torch.float64) for _ in range(3)]
    normalizer = LengthScaled(INNER[inner], scales(2)["adaptive"])
    sparse_attention(*inputs, normalizer, causal=True, lengths=torch.tensor([40]))
    found = sparse_attention_with_weights(*inputs, normalizer, bias=alibi(torch.rand(2).double(), 50, 50))
    assert len(calls) == 2
    scores = inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(8)
    assert found.weights.shape == (100, 50) and found.output.shape == (*scores.shape[:-1], 8)


def test_biases_by_distance_of_causal_rows():
    """Every row multiplies the same table by another number: dense scores, and the same result."""
    normalizer = LengthScaled(om.SquaredNorm(), scales(2)["log"])
    inputs = [torch.randn(1, 2, 30, 8, dtype=torch.float64) for _ in range(3)]
    slopes = torch.tensor([0.5, 0.1], dtype=torch.float64)
    scores = inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(8) + alibi(slopes, 30, 30).dense(30, 30)
    expected = normalizer(scores, causal_mask(30, 30)) @ inputs[2]
    found = sparse_attention(*inputs, normalizer, causal=True, bias=alibi(slopes, 30, 30))
    torch.testing.assert_close(found, expected)
    counts = torch.arange(1, 31).unsqueeze(-1)  # as published: the queries are scaled, the bias is not
    scaled = sparse_attention(
        normalizer.scale(counts) * inputs[0], *inputs[1:], om.SquaredNorm(), causal=True, bias=alibi(slopes, 30, 30)
    )
    bias = alibi(slopes, 30, 30).dense(30, 30)
    products = normalizer.scale(counts) * (inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(8))
    expected = om.SquaredNorm().argmax(products + bias, mask=causal_mask(30, 30)) @ inputs[2]
    torch.testing.assert_close(scaled, expected)


def test_every_attention_layer_takes_it_and_it_learns():
    x = torch.randn(2, 6, 8)
    scaled = LengthScaled(om.SquaredNorm(), AdaptiveLogLength(2))
    options = {"n_heads": 2, "n_layers": 2, "hidden_size": 8, "normalizer": scaled}
    layers = {
        "attention": (om.Attention(normalizer=LengthScaled(om.SquaredNorm())), lambda m: m(x, x, causal=True).output),
        "heads": (om.MultiheadAttention(8, 2, batch_first=True, normalizer=scaled), lambda m: m(x, x, x)[0]),
        "encoder": (om.TransformerEncoder(8, **options), lambda m: m(x, lengths=torch.tensor([6, 2])).output),
        "causal": (om.CausalTransformer(5, 8, **options), lambda m: m(torch.arange(5).expand(2, 5)).logits),
    }
    for name, (model, run) in layers.items():
        run(model).square().sum().backward()
        learned = {key: p for key, p in model.named_parameters() if "scale" in key}
        assert learned and all(p.grad is not None and p.grad.any() for p in learned.values()), name
    assert len(learned) == 4  # each of the two layers has its own β and γ


def test_steps_with_a_cache_see_the_same_numbers_of_keys():
    scaled = LengthScaled(om.SquaredNorm(), LogLength(2, s=2.0))
    model = om.CausalTransformer(9, 8, n_heads=2, n_layers=2, hidden_size=8, normalizer=scaled).eval()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 8]])
    whole, cache = model(tokens).logits, None
    for i in range(6):
        output, cache, *_ = model.step(tokens[:, i : i + 1], cache)
        torch.testing.assert_close(output, whole[:, i : i + 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_a_key_cache_counts_the_keys_of_each_query(masked):
    """Items of different lengths, two queries at the end of each; as sparse_attention of all keys does."""
    normalizer = LengthScaled(om.SquaredNorm(), scales(2)["adaptive"])
    key, value = (torch.randn(2, 2, 40, 6, dtype=torch.float64) for _ in range(2))
    query, lengths = torch.randn(2, 2, 2, 6, dtype=torch.float64), torch.tensor([40, 17])
    mask = torch.rand(2, 1, 1, 40) > 0.3 if masked else None
    cache = om.attention.KeyCache()
    cache.append(key, value, lengths=lengths)
    with torch.no_grad():
        found = cache.attend(query, normalizer, mask=mask)
        for item, n in enumerate(lengths.tolist()):
            seen = None if mask is None else mask[item, ..., :n]
            expected = sparse_attention(
                query[item], key[item, :, :n], value[item, :, :n], normalizer, causal=True, mask=seen
            )
            torch.testing.assert_close(found[item], expected)


def test_long_sequences_of_layers_take_the_sparse_way_and_hooks_do_not(monkeypatch):
    calls = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *args, **options: calls.append(1) or forward(*args, **options))
    x = torch.randn(1, 300, 4)
    inner = om.Sparsemax()
    attention = om.MultiheadAttention(4, 2, batch_first=True, normalizer=LengthScaled(inner, LogLength(2, s=2.0)))
    mask = ~causal_mask(300, 300)
    dense = attention(x, x, x, attn_mask=mask)[0]
    sparse = attention(x, x, x, attn_mask=mask, need_weights=False)[0]
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-5)
    assert len(calls) == (routing.native is not None)
    inner.register_forward_hook(lambda *_: None)
    attention(x, x, x, attn_mask=mask, need_weights=False)
    assert len(calls) == (routing.native is not None)


@pytest.mark.parametrize("masked", ["causal", "pairs"])
@pytest.mark.parametrize("n_heads", [None, 2])
def test_processes_that_share_heads_take_their_parameters(n_heads, masked):
    normalizer = LengthScaled(om.Tsallis(torch.tensor([1.3, 1.8]).reshape(2, 1, 1)), scales(n_heads)["adaptive"])
    scores, mask = torch.randn(2, 2, 7, 9, dtype=torch.float64), MASKS[masked]()
    whole = normalizer(scores, mask)
    for own in (slice(0, 1), slice(1, 2)):
        part = _of_heads(normalizer, own)
        found = part(scores[:, own], mask if mask.dim() == 2 else mask[:, own])
        torch.testing.assert_close(found, whole[:, own])
        assert {id(p) for p in normalizer.scale.parameters()} <= {id(p) for p in part.parameters()}  # they learn


def test_saved_and_loaded():
    ours, theirs = (LengthScaled(om.Entmax(), AdaptiveLogLength(3, beta=beta)) for beta in (0.2, 0.9))
    theirs.load_state_dict(ours.state_dict())
    assert set(ours.state_dict()) == {"scale.beta.raw", "scale.exponent"}
    scores = torch.randn(3, 4, 5)
    assert torch.equal(ours(scores), theirs(scores))


def test_a_scale_of_your_own():
    class Root(LengthScale):
        def forward(self, counts):
            return counts.sqrt()

    scores = torch.randn(4, 9)
    torch.testing.assert_close(LengthScaled(om.SquaredNorm(), Root())(scores), om.sparsemax(3 * scores))


@pytest.mark.slow
def test_torch_compile():
    layer = LengthScaled(om.SquaredNorm(), AdaptiveLogLength(2))
    scores, mask = torch.randn(2, 4, 5, requires_grad=True), causal_mask(4, 5)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scores, mask), layer(scores, mask))
    for ours, theirs in zip(
        torch.autograd.grad(compiled(scores, mask)[..., 0].sum(), [scores, *layer.parameters()]),
        torch.autograd.grad(layer(scores, mask)[..., 0].sum(), [scores, *layer.parameters()]),
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_other_contexts_take_dense_scores():
    """Where numbers cannot be read, keys are counted from dense scores: torch.compile and torch.func."""
    normalizer = LengthScaled(om.SquaredNorm(), LogLength(2))
    inputs = [torch.randn(3, 2, 6, 4) for _ in range(3)]
    bias = torch.where(torch.rand(6) > 0.7, -torch.inf, 0.0).unsqueeze(0)

    def run(query, key, value):
        return sparse_attention(query, key, value, normalizer, causal=True, bias=bias)

    expected = run(*inputs)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.vmap(run)(*inputs), expected, atol=1e-5, rtol=1e-5)
    _, along = torch.func.jvp(run, tuple(inputs), tuple(inputs))
    assert along.isfinite().all() and along.any()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LengthScaled(om.SparseMAP(om.Matching())), ValueError, "must be one of rows"),
        (lambda: LengthScaled(om.SquaredNorm(), 2.0), TypeError, "scale must be a LengthScale, got float"),
        (lambda: LengthScaled("sparsemax"), TypeError, "om.SquaredNorm()"),
        (lambda: LogLength(0), ValueError, "n_heads must be at least 1"),
        (lambda: LogLength(s=math.inf), ValueError, "s must be finite"),
        (lambda: AdaptiveLogLength(beta=0.0), ValueError, "must exceed 0"),
        (lambda: AdaptiveLogLength(exponent=math.nan), ValueError, "exponent must be finite"),
        (lambda: LengthScaled(om.Shannon(), LogLength(3))(torch.zeros(2, 4, 5)), ValueError, "3 heads"),
        (lambda: LengthScaled(om.Shannon(), LogLength(3))(torch.zeros(4, 5)), ValueError, "3 heads"),
        (lambda: LengthScaled(om.Shannon())(torch.zeros(4, 5), torch.ones(4, 5)), TypeError, "mask must be boolean"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()
