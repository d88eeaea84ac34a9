"""Run by torchrun in two processes: three steps under DDP and FSDP2 give the parameters of one process.

torchrun --standalone --nproc_per_node=2 tests/integrations/distributed_steps.py
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import omegamax as om
from omegamax import routing
from omegamax.integrations import convert
from omegamax.kernels import sparse_attention as kernel


def converted():
    """One layer with fixed sparse attention, one that learns an order for each head."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    convert(model.layers[0], om.SquaredNorm())
    convert(model.layers[1], om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1))))
    return model


def step_three_times(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        (model(batch) - batch.flip(1)).square().mean().backward()
        optimizer.step()


def compare(n_vectors):
    """Steps alone, under DDP and under FSDP2 on sequences of so many vectors."""
    rank, world = dist.get_rank(), dist.get_world_size()
    batches = list(torch.randn(3, 4, n_vectors, 16, generator=torch.Generator().manual_seed(1)))
    share = [batch.chunk(world)[rank] for batch in batches]
    alone = converted()
    start = copy.deepcopy(alone.state_dict())
    step_three_times(alone, batches)
    assert all(
        (p - start[name]).abs().max() > 1e-6 for name, p in alone.named_parameters() if "in_proj_bias" not in name
    )

    ddp = DistributedDataParallel(converted())
    step_three_times(ddp, share)
    for name, parameter in ddp.module.named_parameters():
        torch.testing.assert_close(parameter, alone.get_parameter(name), atol=1e-6, rtol=1e-5, msg=name)

    mesh = dist.init_device_mesh("cpu", (world,))
    sharded = converted()
    for layer in sharded.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    step_three_times(sharded, share)
    for name, parameter in sharded.named_parameters():
        assert isinstance(parameter, DTensor)
        torch.testing.assert_close(parameter.full_tensor(), alone.get_parameter(name), atol=1e-6, rtol=1e-5, msg=name)


def main():
    dist.init_process_group("gloo")
    calls = []
    forward = kernel.forward
    kernel.forward = lambda *args, **options: (calls.append(1), forward(*args, **options))[1]
    compare(5)
    assert not calls
    compare(260)  # long enough for sparse attention
    assert len(calls) == (3 * 3 * 2 if routing.native is not None else 0)  # runs, steps and layers
    rank = dist.get_rank()
    sys.stdout.write(f"ddp-{rank}\nfsdp2-{rank}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without a shutdown of the interpreter, which PyTorch's own threads may not survive
