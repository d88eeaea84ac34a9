"""Softmax by PyTorch's fused attention equals that from dense scores, or is not taken."""

import math

import pytest
import torch

import omegamax as om
from omegamax.attention.fused_softmax import fused_softmax


def inputs(n_queries=6, n_keys=6, **options):
    generator = torch.Generator().manual_seed(0)
    shapes = ((n_queries, 4), (n_keys, 4), (n_keys, 5))
    return [torch.randn(2, 3, *shape, generator=generator, **options).requires_grad_() for shape in shapes]


def by_hand(query, key, value, *, allowed=None, scale=0.5):
    scores = query @ key.transpose(-1, -2) * scale
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return torch.softmax(scores, -1) @ value


def masks(n_queries, n_keys):
    generator = torch.Generator().manual_seed(1)
    mixed = torch.rand(2, 1, n_queries, n_keys, generator=generator) < 0.7
    mixed[..., 0] = True
    padding = torch.arange(n_keys) < torch.tensor([n_keys, 3])[:, None, None, None]
    return {"none": None, "mixed": mixed, "padding": padding}


@pytest.mark.parametrize("kind", ["none", "mixed", "padding"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(6, 6), (2, 6), (1, 6)])
def test_it_is_the_softmax_of_dense_scores(kind, causal, sizes):
    tensors, mask = inputs(*sizes, dtype=torch.float64), masks(*sizes)[kind]
    allowed = torch.ones(sizes, dtype=torch.bool)
    if causal:  # counted from the end
        allowed = allowed.tril(sizes[1] - sizes[0])
    if mask is not None:
        allowed = allowed & mask
    output = fused_softmax(*tensors, om.Shannon(), mask=mask, causal=causal)
    expected = by_hand(*tensors, allowed=allowed)
    torch.testing.assert_close(output, expected)
    one_head = fused_softmax(
        *(x[:, 0] for x in tensors), om.Shannon(), mask=None if mask is None else mask[:, 0], causal=causal
    )
    torch.testing.assert_close(one_head, expected[:, 0])
    gradient = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad(x, tensors, gradient) for x in (output, expected))):
        torch.testing.assert_close(one, other)


@pytest.fixture
def fused_calls(monkeypatch):
    """Runs something, and counts how often it calls PyTorch's fused attention."""
    fused, calls = torch.nn.functional.scaled_dot_product_attention, []

    def counted(*tensors, **options):
        calls.append(tensors)
        return fused(*tensors, **options)

    def run(something):
        calls.clear()
        something()
        return len(calls)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    return run


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_long_sequences_in_layers_take_it_unless_weights_are_wanted(gamma, fused_calls):
    normalizer = om.Shannon() if gamma == 1 else om.Scaled(om.Shannon(), gamma=gamma)
    stack = om.TransformerEncoder(8, n_heads=2, n_layers=2, hidden_size=8, dropout=0.0, normalizer=normalizer)
    x = torch.randn(2, 256, 8, requires_grad=True)
    lengths = torch.tensor([256, 100])
    for options in ({"causal": True}, {}, {"lengths": lengths}, {"lengths": lengths, "causal": True}):
        outputs = [stack(x, need_weights=need, **options).output for need in (False, True)]
        torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
        grads = [torch.autograd.grad(output.square().sum(), [x, *stack.parameters()]) for output in outputs]
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        assert fused_calls(lambda options=options: stack(x, **options)) == 2
        assert fused_calls(lambda options=options: stack(x, need_weights=True, **options)) == 0
    assert fused_calls(lambda: stack(x[:, :100])) == 0  # short ones keep their second derivative
    dropping = om.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
    assert fused_calls(lambda: dropping(x, x, x, need_weights=False)) == 0
    assert fused_calls(lambda: dropping.eval()(x, x, x, need_weights=False)) == 1


def test_a_second_derivative_raises():
    layer, x = om.Attention(), torch.randn(2, 256, 8, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x, x, need_weights=False).output.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative"):
        first.sum().backward()
    (first,) = torch.autograd.grad(layer(x, x).output.sum(), x, create_graph=True)
    first.sum().backward()


def test_temperatures_divide_scores():
    tensors = inputs()
    normalizer = om.Scaled(om.Scaled(om.Shannon(), gamma=0.5), gamma=4.0)
    torch.testing.assert_close(fused_softmax(*tensors, normalizer), by_hand(*tensors, scale=0.25))
    torch.testing.assert_close(fused_softmax(*tensors, normalizer, scale=3.0), by_hand(*tensors, scale=1.5))


def test_nan_in_a_key_that_nobody_may_read_takes_dense_scores():
    query, key, value = (x.detach() for x in inputs())
    for spoiled in (key, value):
        spoiled[0, 0, 5, 0] = math.nan
        assert fused_softmax(query, key, value, om.Shannon(), causal=True) is None
        assert fused_softmax(query, key, value, om.Shannon(), mask=masks(6, 6)["padding"]) is None
        spoiled[0, 0, 5, 0] = 0.0
    assert fused_softmax(query, key, value, om.Shannon(), causal=True) is not None


def test_queries_that_see_nothing_take_dense_scores():
    tensors = inputs(3, 6)
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[1] = False
    assert fused_softmax(*tensors, om.Shannon(), mask=mask) is None
    first = torch.tensor([[False] * 5 + [True]])  # the first two queries may not see the last key yet
    assert fused_softmax(*tensors, om.Shannon(), mask=first) is not None
    assert fused_softmax(*tensors, om.Shannon(), mask=first, causal=True) is None
    assert fused_softmax(*inputs(7, 6), om.Shannon(), causal=True) is None


def test_what_is_not_plain_softmax_takes_dense_scores():
    tensors = inputs()
    for normalizer in (om.SquaredNorm(), om.Tsallis(1.5), om.Softmax(), om.Scaled(om.SquaredNorm(), gamma=2.0)):
        assert fused_softmax(*tensors, normalizer) is None
    gamma = torch.ones(3, 1, 1, requires_grad=True)
    assert fused_softmax(*tensors, om.Scaled(om.Shannon(), gamma=gamma)) is None
    assert fused_softmax(*(x.half() for x in tensors), om.Shannon()) is None
    assert fused_softmax(tensors[0].double(), *tensors[1:], om.Shannon()) is None
    assert fused_softmax(*inputs(0, 6), om.Shannon()) is None
    assert fused_softmax(*(x[0, 0] for x in tensors), om.Shannon()) is None
    assert fused_softmax(*(x[None] for x in tensors), om.Shannon()) is None
    assert fused_softmax(tensors[0], *(x[:1] for x in tensors[1:]), om.Shannon()) is None
    assert torch.func.vmap(lambda q: torch.tensor(fused_softmax(q, *tensors[1:], om.Shannon()) is None))(
        torch.stack([tensors[0], tensors[0]])
    ).all()
