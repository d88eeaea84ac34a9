"""Sparse attention by Triton == attention from dense scores in float64: outputs, gradients, blocks left out."""

import pytest
import torch

import omegamax as om
from omegamax.kernels.sparse_attention import Rows, Strides
from omegamax.kernels.triton import attention_backward, attention_forward

INF, NAN = torch.inf, torch.nan
SCALE = 0.7
ORDERS = [2.0, 1.5, 1.3]


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    for module in (attention_forward, attention_backward):
        monkeypatch.setattr(module, "tile_sizes", lambda size, value_size: (16, 16))


def inputs(*, n_queries=19, n_keys=37, heads=2, key_heads=1, size=5, value_size=3, batch=1, spread=2.0):
    return (
        spread * torch.randn(batch, heads, n_queries, size),
        torch.randn(batch, key_heads, n_keys, size),
        torch.randn(batch, key_heads, n_keys, value_size),
    )


def dense(query, key, value, alpha, *, allowed=None, bias=None, grad_output):
    """Output and gradients of queries, keys, values and scores, in float64, by the definition."""
    leaves = [x.double().requires_grad_() for x in (query, key, value)]
    repeats = query.shape[1] // key.shape[1]
    q, k, v = leaves[0], *(x.repeat_interleave(repeats, 1) for x in leaves[1:])
    scores = SCALE * q @ k.mT
    scores = scores if bias is None else scores + bias.double()
    scores.retain_grad()
    weights = om.Tsallis(alpha).argmax(scores, mask=allowed)
    output = weights @ v
    output.backward(grad_output.double())
    return output.detach(), [x.grad for x in leaves], scores.grad, weights.detach()


def compare(tensors, alpha, rows, *, allowed=None, bias=None, atol=2e-5):
    """Runs the kernels and the definition; returns the state, the gradients and the dense weights."""
    output_shape = (*tensors[0].shape[:-1], tensors[2].shape[-1])
    grad_output = torch.randn(output_shape)
    state = attention_forward.forward(*tensors, alpha, rows)
    found = attention_backward.backward(*tensors, grad_output, state, alpha, rows, wants_scores=True)
    output, grads, grad_scores, weights = dense(*tensors, alpha, allowed=allowed, bias=bias, grad_output=grad_output)
    close = {"atol": atol, "rtol": 1e-4}
    torch.testing.assert_close(state.output.double(), output, **close)
    for grad, expected in zip(found[:3], grads):
        torch.testing.assert_close(grad.double(), expected, **close)
    torch.testing.assert_close(found.scores.double(), grad_scores, **close)
    return state, found, weights


@pytest.mark.parametrize("alpha", [*ORDERS, 1.05])
def test_plain_attention_with_grouped_queries(alpha):
    compare(inputs(heads=4, key_heads=2), alpha, Rows(SCALE))


@pytest.mark.parametrize("alpha", ORDERS)
def test_every_way_to_leave_pairs_out_and_a_bias(alpha):
    """A mask with a row of nothing, the future, lengths per item and an added bias, all at once."""
    tensors = inputs(batch=2)
    shape = (2, 2, 19, 37)
    mask = torch.rand(2, 1, 19, 37) < 0.7
    mask[0, 0, 3] = False
    bias = torch.randn(1, 2, 19, 37)
    lengths = torch.tensor([37, 37, 21, 21])
    rows = Rows(SCALE, True, lengths, Strides.of(mask.expand(shape)), Strides.of(bias.expand(shape)))
    past = torch.ones(19, 37, dtype=torch.bool).tril(37 - 19)
    allowed = mask & past & (torch.arange(37) < lengths.reshape(2, 2, 1, 1))
    state, found, _ = compare(tensors, alpha, rows, allowed=allowed, bias=bias)
    assert torch.equal(state.output[0, :, 3], torch.zeros(2, 3)) and (state.level[0, :, 3] == -INF).all()
    assert torch.equal(found.query[0, :, 3], torch.zeros(2, 5))
    assert torch.equal(found.key[1, :, 21:], torch.zeros(1, 16, 5))  # beyond the length


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (16, 16), (17, 33), (33, 17), (1, 40)])
def test_lengths_at_the_ends_of_blocks(n_queries, n_keys):
    rows = Rows(SCALE, causal=True)
    past = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
    compare(inputs(n_queries=n_queries, n_keys=n_keys, heads=1), 1.5, rows, allowed=past)


@pytest.mark.parametrize("alpha", ORDERS)
def test_blocks_without_weights_are_left_out(alpha):
    """Each query agrees with the keys of one block: the lists hold that block only, and gradients are still right."""
    side = 48
    query = 8 * torch.eye(3).repeat_interleave(16, 0).reshape(1, 1, side, 3)
    key = torch.eye(3).repeat_interleave(16, 0).reshape(1, 1, side, 3) + 0.01 * torch.randn(1, 1, side, 3)
    state, _, weights = compare((query, key, torch.randn(1, 1, side, 4)), alpha, Rows(SCALE))
    used = weights.reshape(3, 16, 3, 16).ne(0).any(3).any(1)
    assert torch.equal(used, torch.eye(3, dtype=torch.bool))
    assert torch.equal(state.active[0, 0].bool(), used)
    assert state.counts.flatten().tolist() == [1, 1, 1]
    assert state.blocks[0, 0, :, 0].tolist() == [0, 1, 2]


def test_the_list_of_blocks_is_the_support_where_the_largest_score_comes_last():
    """While the running maximum grows, every block is a candidate: they are left out once it is known."""
    key = torch.arange(48.0).reshape(1, 1, 48, 1)
    state = attention_forward.forward(torch.ones(1, 1, 16, 1), key, key, 2.0, Rows(1.0))
    assert state.counts.item() == 1 and state.blocks.flatten()[0] == 2
    torch.testing.assert_close(state.output, torch.full((1, 1, 16, 1), 47.0))


def test_equal_keys_share_to_the_bit_and_zeros_are_exact():
    query, key = torch.ones(1, 1, 3, 2), torch.ones(1, 1, 40, 2)
    key[..., 30:, :] = -5
    value = torch.eye(40).reshape(1, 1, 40, 40)  # the output is the weights
    for alpha in ORDERS:
        weights = attention_forward.forward(query, key, value, alpha, Rows(1.0)).output
        assert weights[..., :30].unique().numel() == 1
        assert torch.equal(weights[..., 30:], torch.zeros(1, 1, 3, 10))


@pytest.mark.parametrize("wrong", [NAN, INF])
def test_a_row_with_nan_or_infinity_is_nan_and_no_other(wrong):
    query, key, value = inputs(heads=1)
    bias = torch.zeros(1, 1, 19, 37)
    bias[0, 0, 4, 20] = wrong
    rows = Rows(SCALE, bias=Strides.of(bias))
    grad_output = torch.randn(1, 1, 19, 3)
    state = attention_forward.forward(query, key, value, 1.5, rows)
    found = attention_backward.backward(query, key, value, grad_output, state, 1.5, rows, wants_scores=False)
    others = torch.arange(19) != 4
    assert state.output[0, 0, 4].isnan().all() and found.query[0, 0, 4].isnan().all()
    expected, grads, _, _ = dense(query[:, :, others], key, value, 1.5, grad_output=grad_output[:, :, others])
    close = {"atol": 2e-5, "rtol": 1e-4}
    torch.testing.assert_close(state.output[:, :, others].double(), expected, **close)
    torch.testing.assert_close(found.query[:, :, others].double(), grads[0], **close)
    torch.testing.assert_close(found.key.double(), grads[1], **close)
    torch.testing.assert_close(found.value.double(), grads[2], **close)


def test_what_masked_keys_values_and_queries_hold_reaches_nothing():
    query, key, value = inputs(heads=1)
    mask = torch.ones(1, 1, 19, 37, dtype=torch.bool)
    mask[..., 5] = False
    mask[..., 2, :] = False
    rows = Rows(SCALE, mask=Strides.of(mask))
    grad_output = torch.randn(1, 1, 19, 3)
    results = []
    for held in (0.0, NAN):
        query[..., 2, :], key[..., 5, :], value[..., 5, :], grad_output[..., 2, :] = held, held, held, held
        state = attention_forward.forward(query, key, value, 1.3, rows)
        found = attention_backward.backward(query, key, value, grad_output, state, 1.3, rows, wants_scores=True)
        results.append((state.output, *found))
    for clean, dirty in zip(*results):
        assert torch.equal(clean, dirty)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_computed_in_float32(dtype):
    tensors = [x.to(dtype) for x in inputs(heads=1)]
    grad_output = torch.randn(1, 1, 19, 3).to(dtype)
    rows = Rows(SCALE, causal=True)
    close = {"atol": 1e-3, "rtol": 2 * torch.finfo(dtype).eps}  # the interpreter cuts the bits of a bfloat16 off
    results = []
    for given in ([*tensors, grad_output], [x.float() for x in (*tensors, grad_output)]):
        state = attention_forward.forward(*given[:3], 1.5, rows)
        found = attention_backward.backward(*given, state, 1.5, rows, wants_scores=False)
        results.append((state.output, *found[:3]))
    for half, wide in zip(*results):
        assert half.dtype == dtype
        torch.testing.assert_close(half.float(), wide, **close)
