"""A memory beside a network: read and written at every step, by attention.

    h_t, c_t        = LSTM([x_t; r_{t−1}], (h_{t−1}, c_{t−1}))
    r_t, memory_t   = memory(h_t, memory_{t−1})
    y_t             = W [h_t; r_t]

With `TuringMemory` this is a neural Turing machine, with `DNCMemory` a differentiable neural computer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Recalled(NamedTuple):
    """What a memory returns at one step."""

    reads: Tensor  # (..., n_reads, width)
    state: Any  # the memory and all it remembers about itself, for the next step


class ExternalMemory(nn.Module, ABC):
    """Slots that a controller reads and writes. Without learned contents: those are the state's, and passed along."""

    def __init__(self, controller_size: int, n_slots: int, width: int, n_reads: int) -> None:
        super().__init__()
        self.controller_size, self.n_slots, self.width, self.n_reads = controller_size, n_slots, width, n_reads

    @abstractmethod
    def initial(self, *batch: int, like: Tensor) -> Any:
        """The state before the first step, in the dtype and on the device of `like`."""

    @abstractmethod
    def forward(self, controller: Tensor, state: Any) -> Recalled:
        """Writes, then reads what is there now, for a controller's output (..., controller_size)."""

    def extra_repr(self) -> str:
        """The sizes."""
        return f"n_slots={self.n_slots}, width={self.width}, n_reads={self.n_reads}"


class ControllerState(NamedTuple):
    """What a controller carries from step to step."""

    hidden: Tensor  # (batch, hidden)
    cell: Tensor  # (batch, hidden)
    reads: Tensor  # (batch, n_reads · width)
    memory: Any  # the state of the memory


class ControllerRun(NamedTuple):
    """What a controller returns after a sequence."""

    outputs: Tensor  # (batch, T, output_size)
    state: ControllerState


class MemoryController(nn.Module):
    """An LSTM with a memory beside it: sequences (batch, T, input_size) to (batch, T, output_size)."""

    def __init__(self, input_size: int, output_size: int, memory: ExternalMemory) -> None:
        super().__init__()
        self.memory = memory
        read_size = memory.n_reads * memory.width
        self.lstm = nn.LSTMCell(input_size + read_size, memory.controller_size)
        self.out = nn.Linear(memory.controller_size + read_size, output_size)

    def initial(self, batch: int, *, like: Tensor) -> ControllerState:
        """Zeros, and the memory's own beginning."""
        zeros = like.new_zeros(batch, self.memory.controller_size)
        reads = like.new_zeros(batch, self.memory.n_reads * self.memory.width)
        return ControllerState(zeros, zeros, reads, self.memory.initial(batch, like=like))

    def forward(self, inputs: Tensor, state: ControllerState | None = None) -> ControllerRun:
        """Outputs of all steps, and the state after the last, which continues the sequence."""
        hidden, cell, reads, memory = self.initial(len(inputs), like=inputs) if state is None else state
        outputs = []
        for step in inputs.unbind(1):
            hidden, cell = self.lstm(torch.cat([step, reads], -1), (hidden, cell))
            recalled = self.memory(hidden, memory)
            reads, memory = recalled.reads.flatten(-2), recalled.state
            outputs.append(self.out(torch.cat([hidden, reads], -1)))
        stacked = torch.stack(outputs, 1) if outputs else inputs.new_zeros(len(inputs), 0, self.out.out_features)
        return ControllerRun(stacked, ControllerState(hidden, cell, reads, memory))
