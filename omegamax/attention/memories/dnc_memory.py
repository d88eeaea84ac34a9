"""The memory of a differentiable neural computer: it finds free slots by itself, and remembers the order of writing.

    usage       u ← (u + w − u ∘ w) ∘ Π_r (1 − f_r w_r)              written and not given back
    allocation  a[φ_j] = (1 − u[φ_j]) Π_{i<j} u[φ_i]                 φ sorts slots by usage: the freest first
    links       L[i, j] ← (1 − w_i − w_j) L[i, j] + w_i p_j          i was written right after j; L[i, i] = 0
    precedence  p ← (1 − Σw) p + w                                   what was written last

Graves et al., "Hybrid computing using a neural network with dynamic external memory", Nature 538, 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.memories.addressing import content_weights, erase_and_add, product
from omegamax.attention.memories.external_memory import ExternalMemory, MemoryReadout
from omegamax.attention.normalizers import Normalizer, check_normalizer
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class DNCState(NamedTuple):
    """The contents of the memory, and what is known about its slots."""

    memory: Tensor  # (..., slots, width)
    usage: Tensor  # (..., slots), 0 free ... 1 in use
    links: Tensor  # (..., slots, slots), [i, j]: i was written right after j
    precedence: Tensor  # (..., slots)
    read_weights: Tensor  # (..., n_reads, slots)
    write_weights: Tensor  # (..., slots)
    mask: Tensor | None = None  # (..., slots), True where there is one; None where there are all


class TemporalLinks(NamedTuple):
    """Links and precedence after a write."""

    links: Tensor  # (..., slots, slots)
    precedence: Tensor  # (..., slots)


def update_usage(usage: Tensor, write_weights: Tensor, read_weights: Tensor, free_gates: Tensor) -> Tensor:
    """Updates the usage after a write (..., slots) and reads (..., n_reads, slots); gates (..., n_reads) free slots."""
    kept = product(1 - free_gates.unsqueeze(-1) * read_weights, -2)
    return (usage + write_weights - usage * write_weights) * kept


def allocation(usage: Tensor) -> Tensor:
    """Computes weights over the slots, with nearly all weight on the least used. Ties go to the lowest index.

    >>> allocation(torch.tensor([1.0, 0.0, 0.2]))
    tensor([0., 1., 0.])
    """
    ordered, place = usage.sort(dim=-1, stable=True)
    before = torch.cat([torch.ones_like(ordered[..., :1]), ordered[..., :-1]], -1).cumprod(-1)
    return torch.zeros_like(usage).scatter(-1, place, (1 - ordered) * before)


def update_links(links: Tensor, precedence: Tensor, write_weights: Tensor) -> TemporalLinks:
    """Updates links and precedence after a write with weights (..., slots)."""
    after, before = write_weights.unsqueeze(-1), write_weights.unsqueeze(-2)
    links = (1 - after - before) * links + after * precedence.unsqueeze(-2)
    itself = torch.eye(links.shape[-1], dtype=torch.bool, device=links.device)
    total = write_weights.sum(-1, keepdim=True)
    return TemporalLinks(links.masked_fill(itself, 0), (1 - total) * precedence + write_weights)


class DNCMemory(ExternalMemory):
    """Writes to free slots or by content; reads by content, or forward and backward in the order of writing.

    Arguments:
        controller_size: features of the controller's output
        n_slots: how many slots the memory has
        width: features of a slot
        n_reads: how many read heads there are
        normalizer: what makes weights of the content scores
    """

    def __init__(
        self, controller_size: int, *, n_slots: int, width: int, n_reads: int = 1, normalizer: Normalizer = _SHANNON
    ) -> None:
        super().__init__(controller_size, n_slots, width, n_reads)
        check_normalizer("DNCMemory", normalizer)
        self.normalizer = normalizer
        self.write_sizes = (width, 1, width, width, 1, 1)  # key, sharpness, erase, add, allocation gate, write gate
        self.read_sizes = (width, 1, 1, 3)  # key, sharpness, free gate, modes
        self.of_write = nn.Linear(controller_size, sum(self.write_sizes))
        self.of_reads = nn.Linear(controller_size, n_reads * sum(self.read_sizes))

    def initial(self, *batch: int, like: Tensor, mask: Tensor | None = None) -> DNCState:
        """Returns an empty memory in which all slots are free and nothing was read."""
        slots = like.new_zeros(*batch, self.n_slots)
        links = like.new_zeros(*batch, self.n_slots, self.n_slots)
        memory = like.new_zeros(*batch, self.n_slots, self.width)
        reads = like.new_zeros(*batch, self.n_reads, self.n_slots)
        return DNCState(memory, slots, links, slots, reads, slots, self._slots(batch, like, mask))

    def forward(self, controller: Tensor, state: DNCState) -> MemoryReadout:
        """Writes to the memory, then reads from what was written."""
        wanted = self.of_reads(controller).unflatten(-1, (self.n_reads, -1)).split(self.read_sizes, -1)
        read_key, read_sharpness, free_gate, modes = wanted
        usage = update_usage(state.usage, state.write_weights, state.read_weights, free_gate.squeeze(-1).sigmoid())
        write, memory = self._write(controller, state.memory, usage, state.mask)
        links, precedence = update_links(state.links, state.precedence, write)
        content = self._find(memory, read_key, read_sharpness, state.mask)
        onward = state.read_weights @ links.transpose(-1, -2)  # what was written after what was read
        backward = state.read_weights @ links
        ways = torch.stack([backward, content, onward], -1)  # (..., n_reads, slots, 3)
        read = (ways @ modes.softmax(-1).unsqueeze(-1)).squeeze(-1)
        return MemoryReadout(read @ memory, DNCState(memory, usage, links, precedence, read, write, state.mask))

    def _write(self, controller: Tensor, memory: Tensor, usage: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        key, sharpness, erase, add, allocation_gate, write_gate = self.of_write(controller).split(self.write_sizes, -1)
        found = self._find(memory, key.unsqueeze(-2), sharpness.unsqueeze(-2), mask)
        usage = usage if mask is None else torch.where(mask, usage, 1)  # what is not there is never free
        gate = allocation_gate.sigmoid()
        write = write_gate.sigmoid() * (gate * allocation(usage) + (1 - gate) * found.squeeze(-2))
        memory = erase_and_add(memory, write.unsqueeze(-2), erase.sigmoid().unsqueeze(-2), add.unsqueeze(-2))
        return write, memory

    def _find(self, memory: Tensor, key: Tensor, sharpness: Tensor, mask: Tensor | None) -> Tensor:
        mask = None if mask is None else mask.unsqueeze(-2)  # for every head
        sharpness = 1 + nn.functional.softplus(sharpness)
        return content_weights(memory, key, sharpness, normalizer=self.normalizer, mask=mask)
