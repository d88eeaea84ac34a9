"""Padding may hold anything: outputs and the gradients of inputs and parameters are those of zeros in its place."""

import pytest
import torch
from torch import nn

import omegamax as om

SPARSE = om.SquaredNorm()
SMALL = {"n_heads": 2, "n_layers": 2, "hidden_size": 4, "dropout": 0.0, "normalizer": SPARSE}
LENGTHS = torch.tensor([5, 3])
THERE = torch.arange(5) < LENGTHS.unsqueeze(-1)  # (batch, keys)
ROWS = THERE.unsqueeze(-2)  # for every query alike
WHITE = torch.where(THERE, 0.0, -torch.inf)
SQUARE = THERE.unsqueeze(-1) & ROWS  # padding neither attends nor is attended to
HEADS = {"batch_first": True, "normalizer": SPARSE}
TREE = om.Smoothed(om.ProjectiveTree(), om.Shannon())


def multihead(masks, **options):
    """Returns attention in which keys and values differ."""
    layer = om.MultiheadAttention(4, 2, **HEADS, **options)
    return layer, lambda query, key: layer(query, key, 2 * key, **masks)[0]


def itself(masks, **options):
    """Returns self-attention, in which some queries are padding; their outputs are ignored."""
    layer = om.MultiheadAttention(4, 2, **HEADS, **options)
    return layer, lambda query, key: torch.where(THERE.unsqueeze(-1), layer(key, key, key, **masks)[0], 0)


def sequence_first(options):
    layer = om.MultiheadAttention(4, 2, normalizer=SPARSE, **options)

    def run(query, key):
        query, key = query.transpose(0, 1), key.transpose(0, 1)
        return layer(query, key, key, key_padding_mask=~THERE)[0]

    return layer, run


def called(layer, **given):
    """Returns a layer of queries and keys."""
    return layer, lambda query, key: layer(query, key, **given)[0]


def stack(layer, **given):
    """Returns a stack; its outputs at padded places, which are queries too, are ignored."""
    return layer, lambda query, key: torch.where(THERE.unsqueeze(-1), layer(key, **given).output, 0)


def decoder(**given):
    layer = om.TransformerDecoder(4, **SMALL)
    return layer, lambda query, key: layer(query, key, **given).output


def stepwise(**given):
    layer = om.TransformerDecoder(4, **SMALL)

    def run(query, key):
        first = layer.step(query[:, :1], layer.start(key, **given))
        return layer.step(query[:, 1:2], first.cache).output

    return layer, run


def hard(estimator):
    layer = om.HardAttention(om.Bilinear(4, 4), normalizer=SPARSE, estimator=estimator)

    def run(query, key):
        glimpses = layer(query, key, lengths=LENGTHS)
        return layer.objective(glimpses.output.sum(-1), glimpses)

    return layer, run


def pointer(**given):
    layer = om.attention.PointerHead(om.Bilinear(4, 4), normalizer=SPARSE)
    return layer, lambda query, key: layer(query, key, **given).probabilities


def pairs():
    layer = om.attention.KeyValueMemory(4, n_hops=2, score=om.Bilinear(4, 4))
    return layer, lambda query, key: layer(query, key, 2 * key, lengths=LENGTHS).output


def grid(**given):
    layer = om.attention.GridAttention(om.Additive(4, 4, 3), normalizer=SPARSE)
    return layer, lambda query, key: layer(query, key.unsqueeze(-3), **given).output


def controller(memory):
    layer = om.attention.MemoryController(4, 2, memory)
    return layer, lambda query, key: layer(key, lengths=LENGTHS).outputs


def ctc():
    layer = om.attention.CTCHead(4, 3)
    targets = torch.tensor([[1, 2], [2, 0]])
    counts = torch.tensor([2, 1])
    return layer, lambda query, key: layer.loss(layer(key, lengths=LENGTHS), targets, LENGTHS, counts)


def window():
    return om.attention.GaussianMixtureAttention(4, 2)


CASES = {
    "hopfield": called(om.attention.HopfieldMemory(normalizer=SPARSE, n_steps=2), lengths=LENGTHS),
    "multihead": multihead({"key_padding_mask": ~THERE}),
    "multihead, added": multihead({"key_padding_mask": WHITE}),
    "multihead, attn_mask": multihead({"attn_mask": ~ROWS.expand(2, 3, 5).repeat_interleave(2, 0)}),
    "multihead, both": multihead({"key_padding_mask": ~THERE, "attn_mask": torch.randn(3, 5)}),
    "multihead, bias_kv and zeros": multihead({"key_padding_mask": ~THERE}, add_bias_kv=True, add_zero_attn=True),
    "multihead, kdim": multihead({"key_padding_mask": ~THERE}, kdim=4, vdim=4),
    "multihead, key_size": multihead({"key_padding_mask": ~THERE}, key_size=3),
    "multihead, sequence first": sequence_first({}),
    "multihead, itself": itself({"key_padding_mask": ~THERE}),
    "multihead, itself, bias_kv": itself({"key_padding_mask": ~THERE}, add_bias_kv=True),
    "multihead, itself, key_size": itself({"key_padding_mask": ~THERE}, key_size=3),
    "multihead, itself, square": itself({"attn_mask": ~SQUARE.repeat_interleave(2, 0)}),
    "multihead, itself, white": itself({"attn_mask": torch.where(SQUARE, 0.0, -torch.inf).repeat_interleave(2, 0)}),
    "attention": called(om.Attention(om.Additive(4, 4, 3), normalizer=SPARSE), lengths=LENGTHS),
    "attention, mask": called(om.Attention(om.Bilinear(4, 4)), mask=ROWS),
    "structured, chain": called(
        om.Attention(om.Bilinear(4, 4), normalizer=om.attention.ChainNormalizer()), lengths=LENGTHS
    ),
    "structured, matching": called(
        om.Attention(om.Bilinear(4, 4), normalizer=om.SparseMAP(om.Matching())), lengths=LENGTHS
    ),
    "window": called(window(), lengths=LENGTHS),
    "window, normalized": called(om.attention.GaussianMixtureAttention(4, 2, normalizer=om.Shannon()), mask=ROWS),
    "mixed": called(om.attention.MixedAttention(om.Bilinear(4, 4), window(), normalizer=SPARSE), lengths=LENGTHS),
    "mixed, mask": called(om.attention.MixedAttention(om.Additive(4, 4, 3), window()), mask=ROWS),
    "location-aware": called(om.attention.LocationAware(4, 4, normalizer=SPARSE), lengths=LENGTHS),
    "location-aware, mask": called(om.attention.LocationAware(4, 4), mask=ROWS),
    "coverage": called(om.attention.CoverageAttention(4, 4), lengths=LENGTHS),
    "coverage, fertility": called(om.attention.CoverageAttention(4, 4, max_fertility=2.0), lengths=LENGTHS),
    "monotonic": called(om.attention.MonotonicAttention(om.Bilinear(4, 4)), lengths=LENGTHS),
    "monotonic, sparse": called(om.attention.MonotonicAttention(om.Additive(4, 4, 3), regularizer=SPARSE), mask=ROWS),
    "monotonic, hard": called(om.attention.MonotonicAttention(om.Bilinear(4, 4)).eval(), lengths=LENGTHS),
    "marginalize": hard(om.attention.Marginalize()),
    "reinforce": hard(om.attention.Reinforce(n_samples=2, baseline=om.attention.MovingAverage(), entropy_bonus=0.1)),
    "straight-through": hard(om.attention.StraightThrough()),
    "grid": grid(sizes=torch.tensor([[1, 5], [1, 3]])),
    "grid, mask": grid(mask=THERE[:, None, None]),
    "pointer": pointer(lengths=LENGTHS),
    "key-value memory": pairs(),
    "turing": controller(om.attention.TuringMemory(5, n_slots=4, width=3, normalizer=SPARSE)),
    "dnc": controller(om.attention.DNCMemory(5, n_slots=4, width=3, normalizer=SPARSE)),
    "ctc": ctc(),
    "encoder": stack(om.TransformerEncoder(4, **SMALL), lengths=LENGTHS),
    "encoder, before": stack(
        om.TransformerEncoder(4, placement=om.attention.PreNorm(), **SMALL), lengths=LENGTHS, causal=True
    ),
    "encoder, positions": stack(
        om.TransformerEncoder(4, positions=om.attention.LearnedPositions(5, 4), **SMALL), lengths=LENGTHS
    ),
    "encoder, trees": stack(
        om.TransformerEncoder(4, **{**SMALL, "normalizer": om.attention.TreeNormalizer(TREE)}), lengths=LENGTHS
    ),
    "encoder, mask": stack(om.TransformerEncoder(4, **SMALL), mask=ROWS),
    "encoder, square": stack(om.TransformerEncoder(4, placement=om.attention.PreNorm(), **SMALL), mask=SQUARE),
    "decoder": decoder(memory_lengths=LENGTHS),
    "decoder, mask": decoder(memory_mask=ROWS),
    "decoder, steps": stepwise(memory_lengths=LENGTHS),
    "decoder, steps, mask": stepwise(memory_mask=ROWS),
}
ANYTHING = [torch.nan, torch.inf, -torch.inf]


def everything(layer, run, query, key):
    """The output and every gradient."""
    torch.manual_seed(3)
    layer.zero_grad()
    query, key = query.clone().requires_grad_(), key.clone().requires_grad_()
    output = run(query, key)
    output.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    return {"output": output.detach(), "query": query.grad, "key": key.grad, **gradients}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thinned(3)
def test_padding_is_inert(name):
    layer, run = CASES[name]
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    empty = torch.where(THERE.unsqueeze(-1), key, 0)
    expected = everything(layer, run, query, empty)
    assert expected["output"].isfinite().all()
    for held in ANYTHING:
        layer.load_state_dict(state)  # a baseline remembers
        found = everything(layer, run, query, torch.where(THERE.unsqueeze(-1), key, held))
        torch.testing.assert_close(found, expected, msg=lambda text, held=held: f"{held}: {text}")


@pytest.mark.parametrize("name", ["multihead", "attention", "mixed", "location-aware", "monotonic", "decoder", "ctc"])
def test_padding_may_be_too_large_to_multiply(name):
    """Memory that was never written holds such numbers: finite, and infinite after a product."""
    layer, run = CASES[name]
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    expected = everything(layer, run, query, torch.where(THERE.unsqueeze(-1), key, 0))
    found = everything(layer, run, query, torch.where(THERE.unsqueeze(-1), key, 3e38))
    torch.testing.assert_close(found, expected)


NOWHERE = torch.ones(2, 3, 5, dtype=torch.bool)
NOWHERE[1, 2] = False
IDLE = {
    "attention": called(om.Attention(om.Bilinear(4, 4)), mask=NOWHERE),
    "pointer": pointer(mask=NOWHERE),
    "location-aware": called(om.attention.LocationAware(4, 4), mask=NOWHERE),
    "monotonic": called(om.attention.MonotonicAttention(om.Bilinear(4, 4)), mask=NOWHERE),
    "grid": grid(mask=NOWHERE.unsqueeze(-2)),
    "multihead": multihead({"attn_mask": ~NOWHERE.repeat_interleave(2, 0)}),
}


@pytest.mark.parametrize("name", IDLE)
@pytest.mark.parametrize("held", ANYTHING)
def test_a_query_that_may_attend_to_nothing_is_inert(name, held):
    layer, run = IDLE[name]
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    asks = NOWHERE.any(-1, keepdim=True)
    expected, found = (everything(layer, run, torch.where(asks, query, x), key) for x in (0.0, held))
    torch.testing.assert_close(found, expected)


def test_a_finite_query_at_a_padded_place_is_a_query_as_in_pytorch():
    theirs, ours = nn.MultiheadAttention(4, 2, batch_first=True), om.MultiheadAttention(4, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 4)
    for found, expected in zip(*(layer(x, x, x, key_padding_mask=~THERE) for layer in (ours, theirs))):
        torch.testing.assert_close(found, expected)


def test_nothing_is_copied_without_a_mask(monkeypatch):
    layer = om.MultiheadAttention(4, 2, **HEADS)
    seen = []
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *by: (seen.append(x), linear(x, *by))[1])
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    layer(query, key, key)
    assert seen[0] is query
    assert seen[1] is key
    assert seen[2] is key
