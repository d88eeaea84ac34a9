"""Attention over several processes gives what one process gives: values, gradients, errors; and sends little."""

import multiprocessing

import pytest
import torch
from attention import sharded_processes
from attention.sharded_cases import CASES
from torch.nn import functional

import omegamax as om
from omegamax.attention.shards.attention_over_heads import attention_over_heads
from omegamax.attention.shards.owned_rows import OwnedRows
from omegamax.attention.shards.sharded_attention import sharded_attention


@pytest.mark.slow
def test_four_and_two_processes_are_as_one(tmp_path):
    """All cases in one start of four processes, which are also two pairs."""
    multiprocessing.set_forkserver_preload(["torch", "omegamax.attention"])  # imported once for all four
    arguments = str(tmp_path / "store"), str(tmp_path / "report")
    torch.multiprocessing.start_processes(
        sharded_processes.run, arguments, sharded_processes.SIZE, start_method="forkserver"
    )
    for rank in range(sharded_processes.SIZE):
        assert (tmp_path / f"report.{rank}").read_text() == "done"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_other_processes_all_is_here(case, backend):
    inputs, options = case.inputs(), case.options(sum(case.queries), sum(case.keys))
    expected = om.sparse_attention(*inputs, case.normalizer(), **options)
    for way in (sharded_attention, attention_over_heads)[case.any_normalizer :]:
        found = way(*inputs, case.normalizer(), **options)
        assert found.dtype is case.dtype
        torch.testing.assert_close(found, expected, **case.close_to(expected))


def test_shapes_broadcast_and_sizes_may_be_zero():
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 2, 5, 4), torch.randn(3, 2, 6, 4), torch.randn(2, 6, 4)
    blocked = torch.zeros(5, 6)
    blocked[2] = blocked[:, 1] = -torch.inf
    for q, k, v in ((query, key, value), (query[..., :0], key[..., :0], value), (query, key, value[..., :0])):
        for bias in (None, blocked):
            found = sharded_attention(q, k, v, om.SquaredNorm(), bias=bias)
            torch.testing.assert_close(found, om.sparse_attention(q, k, v, om.SquaredNorm(), bias=bias))


def test_autocast_changes_nothing_inside(backend):
    x = torch.randn(2, 30, 8, dtype=torch.float32)
    expected = sharded_attention(x, x, x, om.SquaredNorm())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(sharded_attention(x, x, x, om.SquaredNorm()), expected)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.thinned(2)
def test_gradcheck(alpha):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3))
    order = torch.full((2, 1, 1), alpha, dtype=torch.float64, requires_grad=True)

    def attend(query, key, value, order):
        return sharded_attention(query, key, value, om.Tsallis(order), causal=True)

    assert torch.autograd.gradcheck(attend, (query, key, value, order))


def test_rows_are_put_together_in_the_order_of_ranks():
    counts = torch.tensor([[1, 0, 2], [2, 0, 1]])  # of two ranks and three rows
    rows = OwnedRows(counts)
    merged = rows.merged([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])])
    assert merged.tolist() == [1, 10, 20, 2, 3, 30]
    assert [part.tolist() for part in rows.split(merged)] == [[1, 2, 3], [10, 20, 30]]
    assert rows.kept(merged > 2).counts.tolist() == [[0, 0, 1], [2, 0, 1]]
    sums = rows.solve([merged], lambda rows, padded: padded.cumsum(-1) + 100 * rows.unsqueeze(-1), [0.0])
    assert sums.tolist() == [1, 11, 31, 202, 205, 235]


def test_transforms_are_refused():
    x = torch.randn(2, 3, 4)
    for way in (sharded_attention, attention_over_heads):
        with pytest.raises(RuntimeError, match=f"{way.__name__}: .*outside of torch.func"):
            torch.func.vmap(lambda x, way=way: way(x, x, x, om.SquaredNorm()))(x)


def test_compiled_functions_break_their_graph():
    x = torch.randn(2, 3, 4)
    compiled = torch.compile(lambda x: 2 * sharded_attention(x, x, x, om.SquaredNorm()), backend="eager")
    torch.testing.assert_close(compiled(x), 2 * om.sparse_attention(x, x, x, om.SquaredNorm()))


def test_another_replacement_of_pytorchs_attention_is_no_sharding(monkeypatch):
    x = torch.randn(2, 3, 4)
    attention = om.Attention(normalizer=om.SquaredNorm())
    expected = attention(x, x).output

    def replaced(*inputs):
        raise AssertionError

    monkeypatch.setattr(functional, "scaled_dot_product_attention", replaced)
    assert torch.equal(attention(x, x).output, expected)
    replaced.__module__ = "torch.distributed.tensor.experimental._attention"
    with pytest.raises(RuntimeError, match="sharded_attention"):
        attention(x, x)
