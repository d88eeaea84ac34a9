"""Layers without weights take sparse attention by themselves: the results of dense scores, and no (N, N) tensor."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import omegamax as om
from omegamax import routing
from omegamax.attention import sparse_layers
from omegamax.kernels import sparse_attention as kernel

pytestmark = pytest.mark.skipif(routing.native is None, reason="the compiled kernels are not there")

SMALL = {"n_heads": 2, "n_layers": 1, "hidden_size": 8, "dropout": 0.0}
NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "top-4": om.attention.TopK(4),
    "oscarmax": om.Oscar(0.05),
    "fusedmax": om.Fused(0.1),
    "colder": om.Scaled(om.Tsallis(1.3), 0.5),
    "length-scaled": om.attention.LengthScaled(om.Tsallis(1.5), om.attention.LogLength(2)),
    "learned": om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1)), gamma=om.Above(0.0, start=0.7)),
}


def tokens(x):
    return torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * 7 % 19


def lengths(x):
    """How many of the vectors (batch, N, features) count."""
    return torch.tensor([x.shape[1], 2 * x.shape[1] // 3][-len(x) :])


def some(query, key, *batch):
    """A mask in which some pairs may not meet; one query sees nothing, and nobody sees one key."""
    mask = torch.rand(*batch, query.shape[1], key.shape[1], generator=torch.Generator().manual_seed(1)) > 0.3
    mask[..., 3, :], mask[..., :, 5] = False, False
    return mask


def attention(score, **masks):
    return (
        lambda norm: om.Attention(score(), normalizer=norm),
        lambda m, q, k, need: (
            m(
                q.unflatten(-1, (2, 4)).transpose(1, 2),
                k.unflatten(-1, (2, 4)).transpose(1, 2),
                need_weights=need,
                **{name: make(q, k) if callable(make) else make for name, make in masks.items()},
            ).output
        ),
    )


def multihead(same=True, options=None, **masks):
    def run(m, q, k, need):
        key = q if same else k
        given = {name: make(q, key) if callable(make) else make for name, make in masks.items()}
        return m(q, key, key, need_weights=need, **given)[0]

    return lambda norm: om.MultiheadAttention(8, 2, batch_first=True, normalizer=norm, **options or {}), run


def padding(_, key):
    return torch.arange(key.shape[1]) >= lengths(key)[:, None]


def future(query, _):
    return torch.ones(query.shape[1], query.shape[1], dtype=torch.bool).triu(1)


def stack(kind, call, **options):
    return lambda norm: kind(8, **SMALL, normalizer=norm, **options), call


LAYERS = {
    "attention": attention(om.DotProduct),
    "attention, causal": attention(om.ScaledDotProduct, causal=True, lengths=lambda q, k: lengths(k)),
    "attention, mask": attention(lambda: om.ScaledDotProduct(0.4), mask=lambda q, k: some(q, k)),
    "attention, bilinear": attention(lambda: om.Bilinear(4, 4), causal=True, mask=lambda q, k: some(q, k, 2, 1)),
    "attention, cosine": attention(lambda: om.Cosine(3.0), lengths=lambda q, k: lengths(k)),
    "multihead": multihead(),
    "multihead, padding": multihead(key_padding_mask=padding),
    "multihead, cross": multihead(False, key_padding_mask=padding, attn_mask=lambda q, k: ~some(q, k)),
    "multihead, per head": multihead(False, attn_mask=lambda q, k: ~some(q, k, 4)),
    "multihead, floats": multihead(False, attn_mask=lambda q, k: torch.where(some(q, k), 0.1, -torch.inf)),
    "multihead, causal": multihead(attn_mask=future, is_causal=True),
    "multihead, causal and padded": multihead(attn_mask=future, is_causal=True, key_padding_mask=padding),
    "multihead, extra keys": multihead(
        options={"add_bias_kv": True, "add_zero_attn": True}, attn_mask=future, is_causal=True
    ),
    "encoder": stack(om.TransformerEncoder, lambda m, q, k, need: m(q, need_weights=need).output),
    "encoder, causal": stack(
        om.TransformerEncoder,
        lambda m, q, k, need: m(q, lengths=lengths(q), causal=True, need_weights=need).output,
    ),
    "encoder, mask": stack(
        om.TransformerEncoder,
        lambda m, q, k, need: m(q, mask=some(q, q), causal=True, need_weights=need).output,
        placement=om.attention.PreNorm(),
    ),
    "decoder": stack(
        om.TransformerDecoder,
        lambda m, q, k, need: m(
            q, k, lengths=lengths(q), memory_lengths=lengths(k), need_weights=need
        ).output,
    ),
    "causal transformer": (
        lambda norm: om.CausalTransformer(19, 8, **SMALL, normalizer=norm),
        lambda m, q, k, need: m(tokens(q), lengths=lengths(q), need_weights=need).logits * q.square().mean(),
    ),
    "transformer": (
        lambda norm: om.Transformer(19, 8, **SMALL, normalizer=norm),
        lambda m, q, k, need: m(
            tokens(k), tokens(q), source_lengths=lengths(k), need_weights=need
        ).logits * q.square().mean(),
    ),
    "a long prompt": (
        lambda norm: om.CausalTransformer(19, 8, **SMALL, normalizer=norm),
        lambda m, q, k, need: m.step(
            tokens(q)[:, 40:], m.step(tokens(q)[:, :40], need_weights=need).cache, need_weights=need
        ).output * q.square().mean(),
    ),
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """Notes what each native forward pass was given beside vectors; short sequences take the sparse way too."""
    seen = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *a, **o: (seen.append(a[4]), forward(*a, **o))[1])
    monkeypatch.setattr(sparse_layers, "_FEWEST_KEYS", 1)
    monkeypatch.setattr(sparse_layers, "_FEWEST_QUERIES", 1)
    return seen


def results(layer, run, inputs, need_weights):
    output = run(layer, *inputs, need_weights)
    direction = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    learned = [*inputs, *layer.parameters()]
    return [output, *torch.autograd.grad((output * direction).sum(), learned, allow_unused=True)]


def assert_equal(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            scale = max(1.0, theirs.abs().max().item())
            torch.testing.assert_close(ours.double(), theirs.double(), atol=tolerance * scale, rtol=tolerance)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.thinned(4)
def test_equals_dense_scores_in_value_and_all_gradients(name, normalizer, calls):
    make, run = LAYERS[name]
    layer = make(NORMALIZERS[normalizer]).double()
    inputs = [torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True) for n in (60, 70)]
    expected = results(layer, run, inputs, True)
    assert not calls
    found = results(layer, run, inputs, False)
    assert calls
    assert_equal(found, expected, 1e-10)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.thinned(3)
def test_float32(name, calls):
    make, run = LAYERS[name]
    layer = make(om.Tsallis(1.5))
    inputs = [torch.randn(2, n, 8, requires_grad=True) for n in (60, 70)]
    found = results(layer, run, inputs, False)
    assert calls
    assert_equal(found, results(layer, run, inputs, True), 1e-5)  # the rest of a model rounds as much, in both ways


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize(
    "name", [name for name in LAYERS if "padd" in name or name in ("attention, causal", "decoder")]
)
def test_padding_may_hold_anything(name, bad, calls):
    make, run = LAYERS[name]
    layer = make(om.SquaredNorm()).double()
    inputs = [torch.randn(2, n, 8, dtype=torch.float64) for n in (60, 70)]
    for x in inputs[1:] if "attention" in name else inputs:  # padding is among the queries of stacks
        x[1, lengths(x)[1] :] = bad
    inputs = [x.requires_grad_() for x in inputs]

    def kept(output, *gradients):
        return [output[0], *(x for x in gradients if x is not None)]

    found, expected = (kept(*results(layer, run, inputs, need)) for need in (False, True))
    assert calls and found[0].isfinite().all()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9, equal_nan=True)


GIVE_ALL_PAIRS = ("mask", "bilinear", "extra keys", "cross", "per head", "floats", "prompt")


@pytest.mark.parametrize("name", [name for name in LAYERS if not any(word in name for word in GIVE_ALL_PAIRS)])
def test_nothing_of_the_size_of_all_pairs_is_made(name):
    """Forward and backward; PyTorch's causal mask, a byte for each pair, is made by the caller."""
    make, run = LAYERS[name]
    n = 320
    layer = make(om.SquaredNorm())
    inputs = [torch.randn(1, n, 8, requires_grad=True) for _ in range(2)]

    def largest(need_weights):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            run(layer, *inputs, need_weights).sum().backward()
        return max(abs(event.self_cpu_memory_usage) for event in profiler.events())

    assert largest(True) >= 2 * n * n * 4  # two heads
    assert largest(False) <= n * n


@pytest.mark.parametrize("name", ["attention, causal", "multihead, padding", "decoder", "transformer"])
def test_masks_travel_as_causal_and_lengths(name, calls):
    make, run = LAYERS[name]
    run(make(om.SquaredNorm()), torch.randn(2, 60, 8), torch.randn(2, 70, 8), False)
    assert all(rows.mask is None for rows in calls)
    assert any(rows.lengths is not None for rows in calls)
    assert any(rows.causal for rows in calls) == ("multihead" not in name)


def test_inside_a_layer_of_pytorch(calls):
    """Its masks are numbers to add; its hint says that one of them is causal."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    layer.self_attn = om.MultiheadAttention(8, 2, batch_first=True, normalizer=om.SquaredNorm())
    x = torch.randn(2, 60, 8)
    stack = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    output = stack(x, mask=future(x, x), src_key_padding_mask=padding(x, x), is_causal=True)
    (rows,) = calls
    assert rows.causal and rows.lengths.tolist() == [60, 60, 40, 40] and rows.mask is None and rows.bias is None
    expected = stack(x, mask=future(x, x), src_key_padding_mask=padding(x, x), is_causal=False)
    assert not calls[1].causal and calls[1].bias is None
    torch.testing.assert_close(output[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output[1, :40], expected[1, :40], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["attention, causal", "multihead, padding", "encoder, causal"])
def test_transforms_take_dense_scores(name, calls):
    make, run = LAYERS[name]
    layer = make(om.SquaredNorm()).double()
    query, key = (torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True) for n in (10, 12))

    def total(query):
        return run(layer, query, key, False).square().sum()

    (expected,) = torch.autograd.grad(total(query), query)
    calls.clear()
    torch.testing.assert_close(torch.func.grad(total)(query.detach()), expected)
    tangent = torch.randn_like(query)
    _, along = torch.func.jvp(total, (query.detach(),), (tangent,))
    torch.testing.assert_close(along, (expected * tangent).sum())
    many = torch.func.vmap(total)(query.detach().expand(3, *query.shape))
    assert not calls
    torch.testing.assert_close(many, total(query).expand(3))


def test_short_sequences_and_few_queries_take_dense_scores(monkeypatch):
    seen = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *a, **o: (seen.append(a[0].shape[2]), forward(*a, **o))[1])
    layer = om.Attention(normalizer=om.SquaredNorm())
    top = om.Attention(normalizer=om.attention.TopK(3))
    for n_queries, n_keys in ((100, 100), (1, 1000), (300, 300)):
        query, key = torch.randn(n_queries, 8), torch.randn(n_keys, 8)
        assert layer(query, key, need_weights=True).weights is not None
        assert layer(query, key, need_weights=False).weights is None
    assert seen == [300]
    top(torch.randn(50, 8), torch.randn(50, 8), need_weights=False)
    assert seen == [300, 50]


@pytest.mark.parametrize("normalizer", [om.Shannon(), om.Softmax(), om.Fusedmax(strength=om.Above(0.0, start=0.1))])
def test_what_is_not_sparse_takes_dense_scores(normalizer, calls):
    query = torch.randn(2, 40, 8)
    layer = om.MultiheadAttention(8, 2, batch_first=True, normalizer=normalizer)
    torch.testing.assert_close(layer(query, query, query, need_weights=False)[0], layer(query, query, query)[0])
    assert not calls


def test_somebody_who_watches_the_normalizer_sees_weights(calls):
    seen = []
    layer = om.Attention(normalizer=om.Sparsemax())
    layer.normalizer.register_forward_hook(lambda module, args, weights: seen.append(weights.shape))
    layer(torch.randn(40, 8), torch.randn(50, 8), need_weights=False)
    assert seen == [(40, 50)] and not calls


@pytest.mark.parametrize("name", ["attention", "multihead", "encoder", "decoder", "causal transformer", "transformer"])
def test_a_second_derivative_raises_and_says_what_to_do(name, calls):
    make, run = LAYERS[name]
    layer = make(om.SquaredNorm()).double()
    inputs = [torch.randn(2, 40, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    weight = next(iter(layer.parameters()), inputs[1])
    for need_weights in (False, True):
        output = run(layer, *inputs, need_weights)
        (grad,) = torch.autograd.grad(output.square().sum(), weight, create_graph=True)
        if need_weights:
            assert torch.autograd.grad(grad.square().sum(), weight)[0].isfinite().all()
        else:
            with pytest.raises(RuntimeError, match="need_weights=True"):
                torch.autograd.grad(grad.square().sum(), weight)


def test_dropout_is_on_in_training_only(calls):
    layer = om.Attention(normalizer=om.SquaredNorm(), dropout=0.5)
    query, key = torch.randn(200, 8), torch.randn(200, 8)
    value = torch.ones(200, 1)
    torch.manual_seed(0)
    kept = layer(query, key, value, need_weights=False).output
    torch.manual_seed(0)
    torch.testing.assert_close(layer(query, key, value, need_weights=False).output, kept)
    assert kept.std() > 0.1 and abs(kept.mean() - 1) < 0.2  # weights are dropped, and the others made larger
    torch.testing.assert_close(layer.eval()(query, key, value, need_weights=False).output, value)
    assert len(calls) == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["attention, causal", "multihead, padding", "encoder, causal", "decoder"])
def test_half_types(name, dtype, calls):
    """Under autocast, and with inputs and parameters of that type: the types of dense scores, and close to float32."""
    make, run = LAYERS[name]
    layer = make(om.Tsallis(1.5))
    inputs = [torch.randn(2, n, 8, requires_grad=True) for n in (60, 70)]
    expected = run(layer, *inputs, True)
    with torch.autocast("cpu", dtype):
        dense, found = run(layer, *inputs, True), run(layer, *inputs, False)
    assert found.dtype is dense.dtype
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    found.float().sum().backward()
    assert inputs[0].grad.isfinite().all()
    found = run(layer.to(dtype), *(x.detach().to(dtype) for x in inputs), False)
    assert found.dtype is dtype and len(calls) > 1
    torch.testing.assert_close(found.float(), expected, atol=0.15, rtol=0.15)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant, calls):
    layer = om.TransformerEncoder(8, **{**SMALL, "dropout": 0.3}, normalizer=om.Entmax15())
    x = torch.randn(2, 60, 8, requires_grad=True)

    def vectors(x):
        return layer(x).output

    both = []
    for run in (vectors, lambda x: checkpoint(vectors, x, use_reentrant=reentrant)):
        torch.manual_seed(0)
        layer.zero_grad()
        x.grad = None
        run(x).square().sum().backward()
        both.append([x.grad, *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(both[0], both[1], atol=0, rtol=0)
    assert len(calls) == 3  # plainly, and twice with checkpoints


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["attention, causal", "multihead, causal and padded", "encoder, causal", "decoder", "transformer"]
)
def test_one_graph_of_torch_compile(name, calls):
    """The graph holds the operator of sparse attention, and gives what eager mode gives."""
    make, run = LAYERS[name]
    layer = make(om.SquaredNorm()).double()
    inputs = [torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True) for n in (60, 70)]
    targets = []

    def backend(graph, example):
        targets.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend=backend)
    found = results(layer, lambda *args: compiled(*args), inputs, False)
    assert any("omegamax.sparse_attention" in target for target in targets)
    assert_equal(found, results(layer, run, inputs, False), 1e-12)
