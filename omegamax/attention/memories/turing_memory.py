"""The memory of a neural Turing machine: a tape with heads that read, erase and add.

    M ← M ∘ Π_h (1 − w_h e_hᵀ) + Σ_h w_h a_hᵀ,      r = w_read M

Graves, Wayne & Danihelka, "Neural Turing machines", arXiv:1410.5401.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.memories.addressing import NTMHead, erase_and_add
from omegamax.attention.memories.external_memory import ExternalMemory, MemoryReadout
from omegamax.attention.normalizers import Normalizer
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class TuringState(NamedTuple):
    """The tape and where the heads are."""

    memory: Tensor  # (..., slots, width)
    read_weights: Tensor  # (..., n_reads, slots)
    write_weights: Tensor  # (..., n_writes, slots)
    mask: Tensor | None = None  # (..., slots), True where there is one; None where there are all


class TuringMemory(ExternalMemory):
    """Reads and writes by content and by place, with any normalizer. Heads begin at the first slot that is there.

    Arguments:
        controller_size: features of the controller's output
        n_slots: how many slots the memory has
        width: features of a slot
        n_reads: how many read heads there are
        n_writes: how many write heads there are
        max_shift: how far a head moves in a step
        normalizer: for the content
        shift_normalizer: for the shifts
    """

    def __init__(
        self,
        controller_size: int,
        *,
        n_slots: int,
        width: int,
        n_reads: int = 1,
        n_writes: int = 1,
        max_shift: int = 1,
        normalizer: Normalizer = _SHANNON,
        shift_normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__(controller_size, n_slots, width, n_reads)
        checks.check_count("TuringMemory", "n_writes", n_writes)
        self.n_writes = n_writes

        def head(n_heads: int) -> NTMHead:
            return NTMHead(
                controller_size,
                width,
                n_heads=n_heads,
                max_shift=max_shift,
                normalizer=normalizer,
                shift_normalizer=shift_normalizer,
            )

        self.reading, self.writing = head(n_reads), head(n_writes)
        self.content = nn.Linear(controller_size, n_writes * 2 * width)

    def initial(self, *batch: int, like: Tensor, mask: Tensor | None = None) -> TuringState:
        """Returns the state before the first step: an empty memory, with all heads on its first slot."""
        mask = self._slots(batch, like, mask)
        there = like.new_ones(*batch, self.n_slots, dtype=torch.bool) if mask is None else mask
        first = (there & (there.cumsum(-1) == 1)).to(like.dtype).unsqueeze(-2)
        read, write = (first.expand(*batch, n, self.n_slots) for n in (self.n_reads, self.n_writes))
        return TuringState(like.new_zeros(*batch, self.n_slots, self.width), read, write, mask)

    def forward(self, controller: Tensor, state: TuringState) -> MemoryReadout:
        """Writes to the memory, then reads from what was written."""
        memory, read, write, mask = state
        write = self.writing(controller, memory, write, mask)
        erase, add = self.content(controller).unflatten(-1, (self.n_writes, 2, self.width)).unbind(-2)
        memory = erase_and_add(memory, write, erase.sigmoid(), add.tanh())
        read = self.reading(controller, memory, read, mask)
        return MemoryReadout(read @ memory, TuringState(memory, read, write, mask))
