"""Every layer as one graph of torch.compile and in half types: the values and gradients that it has otherwise."""

import pytest
import torch

import omegamax as om

SPARSE = om.SquaredNorm()
SMALL = {"n_heads": 2, "n_layers": 1, "hidden_size": 4, "dropout": 0.0, "normalizer": SPARSE}
LENGTHS = torch.tensor([5, 3])
TOKENS, WORDS = torch.arange(6).reshape(2, 3), torch.arange(12).reshape(2, 3, 2) % 9


def hard(estimator):
    """Returns hard attention and its objective, with sums of the outputs as log-likelihoods."""
    attention = om.HardAttention(normalizer=SPARSE, estimator=estimator)

    def run(query, key):
        glimpses = attention(query, key, lengths=LENGTHS)
        return attention.objective(glimpses.output.sum(-1), glimpses)

    return attention, run


def plain(layer, run):
    return layer, lambda query, key: run(layer, query, key)


# Whatever was imported before. Rows with many equal keys are nearly hard under sparsemax: half types may change them.
torch.manual_seed(0)
LAYERS = {
    "marginalize": hard(om.attention.Marginalize()),
    "hopfield": plain(
        om.attention.HopfieldMemory(normalizer=SPARSE, n_steps=2),
        lambda model, query, key: model(query, key, lengths=LENGTHS).output,
    ),
    "turing": plain(
        om.attention.MemoryController(4, 2, om.attention.TuringMemory(5, n_slots=4, width=3, normalizer=SPARSE)),
        lambda model, query, key: model(key[:, :2], lengths=torch.tensor([2, 1])).outputs,
    ),
    "dnc": plain(
        om.attention.MemoryController(4, 2, om.attention.DNCMemory(5, n_slots=4, width=3, normalizer=SPARSE)),
        lambda model, query, key: model(key[:, :2], lengths=torch.tensor([2, 1])).outputs,
    ),
    "reinforce": hard(om.attention.Reinforce(n_samples=2, baseline=om.attention.MovingAverage(), entropy_bonus=0.1)),
    "turing without some slots": plain(
        om.attention.MemoryController(4, 2, om.attention.TuringMemory(5, n_slots=4, width=3)),
        lambda model, query, key: model(query[:, :1], model.initial(2, like=query, mask=torch.arange(4) < 3)).outputs,
    ),
    "straight-through": hard(om.attention.StraightThrough()),
    "sometimes soft": hard(om.attention.SometimesSoft(om.attention.Reinforce())),
    "soft start": hard(om.attention.SoftStart(om.attention.Reinforce(baseline=om.attention.OthersMean()), 3)),
    "causal transformer": plain(
        om.CausalTransformer(9, 4, **SMALL),
        lambda model, query, key: model.step(TOKENS[:, 2:], model.step(TOKENS[:, :2]).cache).output * query.sum(),
    ),
    "key-value memory": plain(
        om.attention.KeyValueMemory(4, n_hops=2, normalizer=SPARSE), lambda m, q, k: m(q, k, k, lengths=LENGTHS).output
    ),
    "memory network": plain(
        om.attention.MemoryNetwork(om.attention.AdjacentEmbeddings(9, 4), normalizer=SPARSE),
        lambda m, q, k: m(WORDS, TOKENS).scores * q.sum(),
    ),
    "attention": plain(
        om.Attention(om.Cosine(), normalizer=SPARSE), lambda m, q, k: m(q, k, lengths=LENGTHS, causal=True).output
    ),
    "sparse attention": plain(  # long enough for the sparse way
        om.Attention(normalizer=SPARSE),
        lambda m, q, k: m(q.repeat(1, 12, 1), k.repeat(1, 60, 1), lengths=60 * LENGTHS, need_weights=False).output,
    ),
    "sparse heads": plain(
        om.TransformerDecoder(4, **SMALL),
        lambda m, q, k: m(q.repeat(1, 86, 1), k.repeat(1, 60, 1), memory_lengths=60 * LENGTHS).output,
    ),
    "window": plain(om.attention.GaussianMixtureAttention(4, 2), lambda m, q, k: m(q, k, lengths=LENGTHS).output),
    "mixed": plain(
        om.attention.MixedAttention(om.DotProduct(), om.attention.GaussianMixtureAttention(4, 2), normalizer=SPARSE),
        lambda m, q, k: m(q, k, lengths=LENGTHS).output,
    ),
    "location-aware": plain(
        om.attention.LocationAware(4, 4, normalizer=SPARSE), lambda m, q, k: m(q, k, lengths=LENGTHS).output
    ),
    "coverage": plain(
        om.attention.CoverageAttention(4, 4, max_fertility=2.0), lambda m, q, k: m(q, k, lengths=LENGTHS).output
    ),
    "monotonic": plain(
        om.attention.MonotonicAttention(regularizer=SPARSE), lambda m, q, k: m(q, k, lengths=LENGTHS).output
    ),
    "hard monotonic": plain(om.attention.MonotonicAttention().eval(), lambda m, q, k: m(q, k, lengths=LENGTHS).output),
    "grid": plain(
        om.attention.GridAttention(normalizer=SPARSE),
        lambda m, q, k: m(q, k[:, :4].unflatten(1, (2, 2)), sizes=torch.tensor([[2, 2], [1, 2]])).output,
    ),
    "draw": plain(om.attention.DrawAttention(4, patch_size=2), lambda m, q, k: m(k.unsqueeze(1), q[:, 0])),
    "glimpse": plain(om.attention.GlimpseSensor(patch_size=2), lambda m, q, k: m(k.unsqueeze(1), q[:, 0, :2])),
    "pointer": plain(
        om.attention.PointerHead(normalizer=SPARSE), lambda m, q, k: m(q, k, lengths=LENGTHS).probabilities
    ),
    "copy": plain(
        om.attention.CopyHead(4, 4, 4, 7),
        lambda m, q, k: m(q, q, q, om.softmax(q @ k.mT), torch.arange(10).reshape(2, 5) % 8, n_extra=1).probabilities,
    ),
    "encoder": plain(om.TransformerEncoder(4, **SMALL), lambda m, q, k: m(k, lengths=LENGTHS, causal=True).output),
    "decoder": plain(om.TransformerDecoder(4, **SMALL), lambda m, q, k: m(q, k, memory_lengths=LENGTHS).output),
}


def results(run, inputs, layer):
    torch.manual_seed(3)
    for parameter in layer.parameters():
        parameter.grad = None
    found = run(*inputs)
    found.square().sum().backward()
    return [found.detach(), *(None if p.grad is None else p.grad.clone() for p in (*inputs, *layer.parameters()))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.thinned(3)
def test_half_types(name, dtype):
    """Under autocast, and with inputs and parameters of that type."""
    layer, run = LAYERS[name]
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    inputs = [torch.randn(2, n, 4, requires_grad=True) for n in (3, 5)]

    def drawn(*given):
        torch.manual_seed(3)
        layer.load_state_dict(state)
        return run(*given)

    expected = drawn(*inputs).detach()
    with torch.autocast("cpu", dtype):
        found = drawn(*inputs)
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    found.float().sum().backward()
    assert inputs[0].grad is None or inputs[0].grad.isfinite().all()
    layer.zero_grad()
    try:
        layer.to(dtype)
        found = drawn(*(x.to(dtype) for x in inputs))
    finally:
        layer.float()
        layer.load_state_dict(state)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_one_graph(name):
    layer, run = LAYERS[name]
    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    for scale in (1.0, 4.0):  # other numbers have another support
        inputs = [scale * torch.randn(2, n, 4) for n in (3, 5)]
        both = []
        for each in (run, compiled):
            layer.load_state_dict(state)  # a baseline remembers
            leaves = [x.clone().requires_grad_() for x in inputs]
            both.append(results(each, leaves, layer))
        torch.testing.assert_close(both[1], both[0], atol=1e-5, rtol=1e-4)
