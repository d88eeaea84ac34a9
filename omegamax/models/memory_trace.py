"""Where a network with a memory writes and reads, step by step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.attention import MemoryController


class MemoryTrace(NamedTuple):
    """The outputs of all steps, and the weights with which each step read and wrote the slots."""

    outputs: Tensor  # (batch, T, output_size)
    reads: Tensor  # (batch, T, read heads, slots)
    writes: Tensor  # (batch, T, write heads, slots)


def trace_memory(controller: MemoryController, inputs: Tensor) -> MemoryTrace:
    """Runs a network with a memory step by step, and keeps the weights of all its heads.

    Arguments:
        controller: the network
        inputs: (batch, T, input_size), at least one step
    """
    state, outputs, reads, writes = None, [], [], []
    for step in inputs.split(1, 1):
        output, state = controller(step, state)
        outputs.append(output)
        reads.append(state.memory.read_weights)
        written = state.memory.write_weights  # (batch, slots) where there is one head only, without an axis for it
        writes.append(written if written.dim() == 3 else written.unsqueeze(1))
    return MemoryTrace(torch.cat(outputs, 1), torch.stack(reads, 1), torch.stack(writes, 1))
