"""What the processes of test_sharded_attention.py do: each of them checks its own part against one process."""

import contextlib
import datetime
import os
import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
from attention.sharded_cases import CASES, EVEN, Case, causal, nothing
from torch import nn
from torch.utils.checkpoint import checkpoint

import omegamax as om
from omegamax import routing
from omegamax.attention.normalizers import normalize
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.shards.attention_over_heads import attention_over_heads
from omegamax.attention.shards.sharded_attention import sharded_attention

SIZE = 4
WAYS = (sharded_attention, attention_over_heads)


def run(rank, path, report):
    """Joins the others, runs all checks, and leaves without a shutdown of PyTorch's threads."""
    torch.set_num_threads(1)
    patience = datetime.timedelta(minutes=2)  # a process that waits for nothing fails instead
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=SIZE, timeout=patience)
    groups = [dist.new_group(pair, timeout=patience) for pair in ([0, 1], [2, 3])]
    for case in CASES:
        for way in WAYS[case.any_normalizer :]:
            for group in (None, groups[rank // 2]):
                with explained(f"{case.name}, {way.__name__}, {dist.get_world_size(group)} processes, rank {rank}"):
                    check_against_one_process(case, way, group)
    with explained(f"strangers, rank {rank}"):
        strangers(groups[1 - rank // 2])
    for check in CHECKS:
        with explained(f"{check.__name__}, rank {rank}"):
            check()
    pathlib.Path(f"{report}.{rank}").write_text("done")
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


@contextlib.contextmanager
def explained(what):
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{what}: {error}") from error


def own_parts(case, group, tensors):
    """The parts of query, key and value (or gradients of them) that belong to this process."""
    queries, keys = case.counts(dist.get_world_size(group))
    rank = dist.get_rank(group)
    return [x.split(counts, -2)[rank] for x, counts in zip(tensors, (queries, keys, keys))]


def learning(normalizer, options):
    found = list(normalizer.parameters()) if hasattr(normalizer, "parameters") else []
    bias = options.get("bias")
    found += [bias.table if isinstance(bias, RelativeBias) else bias] if bias is not None else []
    return [tensor for tensor in found if tensor.requires_grad]


def attend(way, inputs, case, normalizer, grad, **more):
    """The output, the gradients of the inputs, and those of everything else that learns."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    options = case.options(sum(case.queries), sum(case.keys))
    output = way(*inputs, normalizer, **options, **more)
    others = learning(normalizer, options)
    found = torch.autograd.grad(output, [*inputs, *others], grad)
    return output.detach(), found[:3], found[3:]


def check_against_one_process(case, way, group):
    whole = case.inputs()
    torch.manual_seed(8)
    shape = (*case.lead, case.heads[0], sum(case.queries), 5)
    grad = torch.randn(shape, dtype=torch.float64).to(case.dtype)
    output, grads, shared = attend(om.sparse_attention, whole, case, case.normalizer(), grad)
    own_grad = own_parts(case, group, [grad])[0]
    found = attend(way, own_parts(case, group, whole), case, case.normalizer(), own_grad, group=group)
    torch.testing.assert_close(found[0], own_parts(case, group, [output])[0], **case.close_to(output))
    for name, whole, mine, part in zip(("query", "key", "value"), grads, found[1], own_parts(case, group, grads)):
        bad = part.isnan() | mine.isnan()  # where NaN came in, which key of the row shows it is free
        assert case.name == "NaN" or not bad.any(), name
        with explained(f"gradient of the {name}"):
            torch.testing.assert_close(mine.masked_fill(bad, 0), part.masked_fill(bad, 0), **case.close_to(whole))
    for mine, expected in zip(found[2], shared):
        dist.all_reduce(mine, group=group)
        torch.testing.assert_close(mine, expected, atol=1e-9, rtol=1e-9)


def without_kernels():
    """The PyTorch way of finding the support."""
    names = ("sparsemax causal, uneven parts", "top 3 with ties", "masked", "lengths", "bias by distance", "NaN")
    native, routing.native, routing.slowness_reported = routing.native, None, True
    try:
        for case in (case for case in CASES if case.name in names):
            with explained(case.name):
                check_against_one_process(case, sharded_attention, None)
    finally:
        routing.native = native


def repeats_give_the_same_bits():
    case = Case("", lambda: om.Tsallis(1.5), causal, dtype=torch.float32)
    parts = own_parts(case, None, case.inputs())
    grad = torch.ones(2, 4, parts[0].shape[-2], 5)
    first, second = (attend(sharded_attention, parts, case, case.normalizer(), grad) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip((first[0], *first[1]), (second[0], *second[1])))


def checkpointing():
    """The forward pass, with all that is sent, runs again during the backward pass."""
    case = Case("", om.SquaredNorm, causal)
    parts = [x.clone().requires_grad_() for x in own_parts(case, None, case.inputs())]

    def attend(*parts):
        return sharded_attention(*parts, om.SquaredNorm(), causal=True).sin()

    expected = torch.autograd.grad(attend(*parts).sum(), parts)
    found = torch.autograd.grad(checkpoint(attend, *parts, use_reentrant=False).sum(), parts)
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def strangers(group):
    """A process that does not belong to the group is told so, and does not wait."""
    x = torch.randn(2, 3, 4)
    for way in WAYS:
        with pytest.raises(ValueError, match=f"{way.__name__}: this process must belong to the group"):
            way(x, x, x, om.SquaredNorm(), group=group)


def one_rank_learns():
    """Gradients of one rank's keys need the others, which themselves ask for none."""
    case = Case("", om.SquaredNorm, nothing)
    whole = case.inputs()
    expected = attend(om.sparse_attention, whole, case, om.SquaredNorm(), torch.ones(2, 4, sum(case.queries), 5))[1]
    for way in WAYS:
        query, key, value = own_parts(case, None, whole)
        key.requires_grad_(dist.get_rank() == 2)
        way(query, key, value, om.SquaredNorm()).sum().backward()
        assert query.grad is None and value.grad is None
        if dist.get_rank() == 2:
            torch.testing.assert_close(key.grad, own_parts(case, None, expected)[1])


def second_derivatives():
    case = Case("", om.Shannon, nothing, queries=EVEN, keys=EVEN)
    whole = case.inputs()

    def penalty(way, parts):
        parts = [x.clone().requires_grad_() for x in parts]
        grads = torch.autograd.grad(way(*parts, om.Shannon()).square().sum(), parts, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in grads), parts)

    expected = own_parts(case, None, penalty(om.sparse_attention, whole))
    torch.testing.assert_close(list(penalty(attention_over_heads, own_parts(case, None, whole))), expected)
    query, key, value = (x.clone().requires_grad_() for x in own_parts(case, None, whole))
    (grad,) = torch.autograd.grad(
        sharded_attention(query, key, value, om.SquaredNorm()).sum(), query, create_graph=True
    )
    with pytest.raises(RuntimeError, match="sharded_attention: the gradient can be taken once"):
        grad.sum().backward()


def refusals():
    """All ranks raise, also those whose own arguments are right."""
    rank = dist.get_rank()
    x = torch.randn(2, 3, 4)
    for way in WAYS:
        name = way.__name__
        message = "must be floating point" if rank == 1 else "an error on rank 1; read its message"
        with pytest.raises((TypeError, ValueError), match=f"{name}: .*{message}"):
            way(x.long() if rank == 1 else x, x, x, om.SquaredNorm())
        with pytest.raises(
            ValueError, match=rf"{name}: .* got scale None on rank 0 and 2.0 on rank 3; only the lengths"
        ):
            way(x, x, x, om.SquaredNorm(), scale=2.0 if rank == 3 else None)
        with pytest.raises(ValueError, match=rf"{name}: mask must broadcast to scores \(2, 12, 12\)"):
            way(x, x, x, om.SquaredNorm(), mask=torch.ones(3, 3, dtype=torch.bool))
    for normalizer in (om.Shannon(), om.Fused(0.1), om.Oscar(), om.Tsallis(1.0), om.Scaled(om.Shannon(), 0.5)):
        with pytest.raises(ValueError, match="attention_over_heads, which takes any normalizer"):
            sharded_attention(x, x, x, normalizer)


@contextlib.contextmanager
def counting_elements():
    """Counts what this process sends to others, in numbers, forward and backward."""
    sent = []
    exchange, reduce = dist.all_to_all_single, dist.all_reduce

    def counted_exchange(received, given, counts, sizes, group=None):
        sent.append(sum(sizes) - sizes[dist.get_rank(group)])
        return exchange(received, given, counts, sizes, group=group)

    def counted_reduce(tensor, *args, **kwargs):
        sent.append(tensor.numel())
        return reduce(tensor, *args, **kwargs)

    dist.all_to_all_single, dist.all_reduce = counted_exchange, counted_reduce
    try:
        yield sent
    finally:
        dist.all_to_all_single, dist.all_reduce = exchange, reduce


def traffic(n, spread):
    """Elements that all processes send for n positions in all, and the size of the support of all rows."""
    torch.manual_seed(9)
    query, key, value = (torch.randn(n, 4, dtype=torch.float64) for _ in range(3))
    sizes = om.attention.sparse_attention_with_weights(query * spread, key, value, om.SquaredNorm()).support_sizes
    parts = [x.chunk(SIZE)[dist.get_rank()].clone().requires_grad_() for x in (query * spread, key, value)]
    with counting_elements() as sent:
        sharded_attention(*parts, om.SquaredNorm()).sum().backward()
    total = torch.tensor(sum(sent))
    dist.all_reduce(total)
    return int(total), int(sizes.sum())


def traffic_follows_the_support():
    n = 1024
    # Queries and outputs, 4 features each, and their gradients; the largest score and the number of entries of a row.
    linear = n * (4 * 4 * (SIZE - 1) + SIZE + SIZE - 1)
    sharp, few = traffic(n, 30.0)
    flat, many = traffic(n, 1.0)
    assert many > 4 * few
    for sent, support in ((sharp, few), (flat, many)):  # entries go to the owner and back, twice, unless it has them
        assert 2.5 * support < sent - linear < 8 * support < n * n / 20
    longer, _ = traffic(4 * n, 30.0)
    assert longer < 4.2 * sharp  # not sixteen times


def pytorch_sharding_is_refused():
    """Inside context_parallel, and for DTensors that are sharded along the sequence."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.experimental import context_parallel

    mesh = dist.init_device_mesh("cpu", (SIZE,))
    x = torch.randn(2, 4, 8, 6)
    layers = {
        "Attention": om.Attention(normalizer=om.SquaredNorm()),
        "HardAttention": om.HardAttention(),
        "MultiheadAttention": om.MultiheadAttention(6, 2, batch_first=True),
    }
    calls = {name: lambda x, layer=layer: layer(x[0], x[0], x[0]) for name, layer in layers.items()}
    calls["sparse_attention"] = lambda x: om.sparse_attention(x, x, x, om.SquaredNorm())
    encoder = om.TransformerEncoder(6, n_heads=2, n_layers=1, hidden_size=8, normalizer=om.SquaredNorm())
    calls["TransformerEncoder"] = lambda x: encoder(x[0])
    others = {way.__name__: lambda x, way=way: way(x, x, x, om.SquaredNorm()) for way in WAYS}
    others["omegamax.attention"] = lambda x: normalize(om.SquaredNorm(), x, None)  # what all layers come through
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        assert x.shape[2] == 2
        for name, call in [*calls.items(), *others.items()]:
            with pytest.raises(RuntimeError, match=f"{name}: .*context_parallel.*om.attention.sharded_attention"):
                call(x)
    for call in calls.values():
        call(x)  # outside all is well again
    sharded = distribute_tensor(x, mesh, [Shard(2)])
    for name, call in calls.items():
        with pytest.raises(RuntimeError, match=f"{name}: .*DTensor.*om.attention.sharded_attention"):
            call(sharded)
    assert isinstance(nn.functional.scaled_dot_product_attention(x, x, x), torch.Tensor)


CHECKS = (
    without_kernels,
    checkpointing,
    repeats_give_the_same_bits,
    one_rank_learns,
    second_derivatives,
    refusals,
    traffic_follows_the_support,
    pytorch_sharding_is_refused,
)
