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

from omegamax import checks
from omegamax.module_repr import shown


class MemoryReadout(NamedTuple):
    """What the read heads read at one step, and the state for the next."""

    reads: Tensor  # (..., n_reads, width)
    state: Any  # the memory and all it remembers about itself, for the next step


class ExternalMemory(nn.Module, ABC):
    """Slots that a controller reads and writes. Their contents are not parameters: they are part of the state.

    Arguments:
        controller_size: features of the controller's output
        n_slots: how many slots the memory has
        width: features of a slot
        n_reads: how many read heads there are
    """

    def __init__(self, controller_size: int, n_slots: int, width: int, n_reads: int) -> None:
        super().__init__()
        for name, count in (("n_slots", n_slots), ("width", width), ("n_reads", n_reads)):
            checks.check_count(type(self).__name__, name, count)
        self.controller_size, self.n_slots, self.width, self.n_reads = controller_size, n_slots, width, n_reads

    @abstractmethod
    def initial(self, *batch: int, like: Tensor, mask: Tensor | None = None) -> Any:
        """Returns the first state, a NamedTuple with batch axes first, in the dtype and on the device of `like`.

        `mask` is boolean and broadcasts to (*batch, slots): an item does not have the slots that are False in it.
        """

    @abstractmethod
    def forward(self, controller: Tensor, state: Any) -> MemoryReadout:
        """Writes, then reads the new memory, for a controller's output (..., controller_size)."""

    def _slots(self, batch: tuple[int, ...], like: Tensor, mask: Tensor | None) -> Tensor | None:
        """Checks the mask and expands it to (*batch, slots)."""
        if mask is None:
            return None
        shape = (*batch, self.n_slots)
        slots = like.new_zeros(()).expand(shape)
        fix = "True marks those that an item has"
        checks.check_mask(type(self).__name__, slots, mask, onto="the slots of every item", fix=fix)
        return mask.to(like.device).expand(shape)

    def extra_repr(self) -> str:
        sizes = {"n_slots": self.n_slots, "width": self.width, "n_reads": self.n_reads}
        return shown(**sizes, n_writes=getattr(self, "n_writes", None), normalizer=getattr(self, "normalizer", None))


class ControllerState(NamedTuple):
    """The state that a controller carries from step to step."""

    hidden: Tensor  # (batch, hidden)
    cell: Tensor  # (batch, hidden)
    reads: Tensor  # (batch, n_reads · width)
    memory: Any  # the state of the memory


class ControllerOutput(NamedTuple):
    """The outputs of all steps, and the state after the last."""

    outputs: Tensor  # (batch, T, output_size)
    state: ControllerState


class MemoryController(nn.Module):
    """An LSTM with a memory beside it: sequences (batch, T, input_size) to (batch, T, output_size).

    Arguments:
        input_size: features of an input
        output_size: features of an output
        memory: a `TuringMemory` or `DNCMemory`; its `controller_size` is that of the LSTM
    """

    def __init__(self, input_size: int, output_size: int, memory: ExternalMemory) -> None:
        super().__init__()
        self.memory = memory
        self.input_size = input_size
        read_size = memory.n_reads * memory.width
        self.lstm = nn.LSTMCell(input_size + read_size, memory.controller_size)
        self.out = nn.Linear(memory.controller_size + read_size, output_size)

    def extra_repr(self) -> str:
        return shown(input_size=self.input_size)

    def initial(self, batch: int, *, like: Tensor, mask: Tensor | None = None) -> ControllerState:
        """Returns zeros and the memory's initial state; `mask` says which slots each item has.

        Arguments:
            batch: how many items there are
            like: a tensor of the type and device of the state
            mask: (batch, slots), True where an item has the slot
        """
        zeros = like.new_zeros(batch, self.memory.controller_size)
        reads = like.new_zeros(batch, self.memory.n_reads * self.memory.width)
        return ControllerState(zeros, zeros, reads, self.memory.initial(batch, like=like, mask=mask))

    def forward(
        self, inputs: Tensor, state: ControllerState | None = None, *, lengths: Tensor | None = None
    ) -> ControllerOutput:
        """Runs all steps, and returns their outputs and the last state, which continues the sequence.

        `lengths` (batch,) counts the steps of each item: beyond them its outputs are zero and its state stays.

        Arguments:
            inputs: (batch, T, input_size)
            state: to go on from; None begins
            lengths: how many steps each item has
        """
        if inputs.dim() != 3 or inputs.shape[-1] != self.input_size:
            raise ValueError(
                f"MemoryController: inputs must be (batch, T, {self.input_size}), got {tuple(inputs.shape)}; one "
                "sequence is inputs.unsqueeze(0)"
            )
        batch, n_steps, _ = inputs.shape
        state = self.initial(batch, like=inputs) if state is None else state
        there = None
        if lengths is not None:
            lengths = checks.check_lengths("MemoryController", (batch,), lengths)
            checks.check_counts("MemoryController", "lengths", lengths, n_steps, "count the steps of each item")
            there = torch.arange(n_steps, device=inputs.device) < lengths.to(inputs.device).unsqueeze(-1)  # (batch, T)
            inputs = torch.where(there.unsqueeze(-1), inputs, 0)  # padding may be NaN, whose gradient is NaN too
        outputs = []
        for t, step in enumerate(inputs.unbind(1)):
            output, new = self._step(step, state)
            if there is not None:
                output, new = torch.where(there[:, t, None], output, 0), _held(there[:, t], new, state)
            outputs.append(output)
            state = new
        stacked = torch.stack(outputs, 1) if outputs else inputs.new_zeros(batch, 0, self.out.out_features)
        return ControllerOutput(stacked, state)

    def _step(self, inputs: Tensor, state: ControllerState) -> tuple[Tensor, ControllerState]:
        hidden, cell = self.lstm(torch.cat([inputs, state.reads], -1), (state.hidden, state.cell))
        recalled = self.memory(hidden, state.memory)
        reads = recalled.reads.flatten(-2)
        return self.out(torch.cat([hidden, reads], -1)), ControllerState(hidden, cell, reads, recalled.state)


def _held(there: Tensor, new: Any, old: Any) -> Any:
    """Takes the new state for items that have this step, (batch,), and the old state for the others."""
    if new is None:
        return None
    if isinstance(new, Tensor):
        return torch.where(there.reshape(-1, *(1,) * (new.dim() - 1)), new, old)
    return type(new)(*(_held(there, *pair) for pair in zip(new, old)))
