"""Sparse attention under autocast, checkpointing, transforms and second derivatives, and the memory it takes."""

import pytest
import torch
from sparse_cases import by_hand, draw, leaves, needs_native, noted_refusals

import omegamax as om
from omegamax.attention.sparse_attention import sparse_attention


@needs_native
def test_memory_does_not_grow_with_the_square(monkeypatch):
    """The support is kept within its budget, and dense blocks are small."""
    inputs = leaves(*(draw(1, 1, 4000, 8, dtype=torch.float32) for _ in range(3)))
    for spread in (1.0, 0.0):
        saved = []
        with (
            noted_refusals(monkeypatch) as refused,
            torch.autograd.graph.saved_tensors_hooks(saved.append, lambda x: x),
        ):
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


def test_checkpointing_computes_it_again():
    inputs = leaves(draw(1, 2, 60, 4), draw(1, 2, 90, 4), draw(1, 2, 90, 4))
    plain = sparse_attention(*inputs, om.SquaredNorm())
    again = torch.utils.checkpoint.checkpoint(
        lambda *x: sparse_attention(*x, om.SquaredNorm()), *inputs, use_reentrant=False
    )
    for a, b in zip(*(torch.autograd.grad(o.square().sum(), inputs) for o in (plain, again))):
        torch.testing.assert_close(a, b, atol=0, rtol=0)
