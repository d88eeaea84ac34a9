"""Addressing: where a head reads or writes a memory, by content and then by position.

    content      w = argmax_Ω(sharpness · cos(key, M_i))          any normalizer over the slots
    interpolate  w ← gate · w + (1 − gate) · w_before
    shift        w_i ← Σ_j w_j s_{i − j}                           a circular convolution
    sharpen      w_i ← w_i^power / Σ_j w_j^power

Memory is (..., slots, width); weights are (..., heads, slots). In the paper's letters β is the sharpness, g the gate, s
the shifts and γ the power. Graves, Wayne & Danihelka, "Neural Turing machines", arXiv:1410.5401.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_FAINT = 1e-6  # under the root of a squared length: a slot that is almost empty has a bounded gradient


class Address(NamedTuple):
    """The five quantities by which a head addresses the memory."""

    key: Tensor  # (..., heads, width)
    sharpness: Tensor  # (..., heads, 1), positive
    gate: Tensor  # (..., heads, 1), from 0 (where it was) to 1 (by content)
    shifts: Tensor  # (..., heads, 2r + 1), a distribution over −r ... r
    power: Tensor  # (..., heads, 1), at least 1


def content_weights(
    memory: Tensor,
    key: Tensor,
    sharpness: Tensor | float = 1.0,
    *,
    normalizer: Normalizer = _SHANNON,
    mask: Tensor | None = None,
) -> Tensor:
    """Weighs slots by their similarity to keys, (..., heads, slots); True in mask marks slots that may be used.

    The similarity is the cosine of the angle, except that it tends to zero for slots much shorter than 0.001.
    """
    key, memory = (x * (x.square().sum(-1, keepdim=True) + _FAINT).rsqrt() for x in (key, memory))
    return normalize(normalizer, sharpness * (key @ memory.transpose(-1, -2)), mask)


def interpolate(weights: Tensor, before: Tensor, gate: Tensor) -> Tensor:
    """Interpolates between the new weights and the last ones: gate · weights + (1 − gate) · before."""
    return before + gate * (weights - before)


def circular_shift(weights: Tensor, shifts: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Moves weights around the circle of slots by a distribution (..., 2r + 1) over −r ... r.

    A slot that is False in mask is taken out of the circle.

    >>> circular_shift(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0]))     # one on, and around
    tensor([1., 0., 0.])
    """
    n_shifts = shifts.shape[-1]
    if n_shifts % 2 == 0:
        raise ValueError(
            f"circular_shift: shifts must be over −r ... r, an odd number of them, got {n_shifts}; "
            "3 move by at most one"
        )
    offsets = range(-(n_shifts // 2), n_shifts // 2 + 1)
    if mask is None:
        moved = [weights.roll(offset, -1) for offset in offsets]
    else:
        mask = mask.expand(weights.shape)
        rank = mask.cumsum(-1) - 1  # which of the slots that are there
        n_slots = mask.sum(-1, keepdim=True).clamp(min=1)
        slot = (~mask).byte().argsort(dim=-1, stable=True)  # of each rank
        origins = [slot.gather(-1, (rank - offset).remainder(n_slots)) for offset in offsets]
        moved = [torch.where(mask, weights.gather(-1, origin), 0) for origin in origins]
    return (torch.stack(moved, -1) @ shifts.unsqueeze(-1)).squeeze(-1)


def sharpen(weights: Tensor, power: Tensor | float) -> Tensor:
    """Raises weights to a power and normalizes them again; a row of zeros stays zero.

    >>> sharpen(torch.tensor([0.5, 0.25, 0.25]), 2.0)
    tensor([0.6667, 0.1667, 0.1667])
    """
    if not weights.shape[-1]:
        return weights
    top = weights.detach().amax(-1, keepdim=True)
    raised = (weights / torch.where(top > 0, top, 1)).clamp(min=0) ** power  # the largest is 1: no underflow of all
    total = raised.sum(-1, keepdim=True)
    return torch.where(top > 0, raised / torch.where(top > 0, total, 1), 0)


class NTMHead(nn.Module):
    """The head of a neural Turing machine: from a controller's output to weights over the slots.

    Controller (..., controller_size), memory (..., slots, width) and earlier weights (..., heads, slots) give weights
    of the same shape. `normalizer` is for the content, `shift_normalizer` for the shifts −max_shift ... max_shift.

    Arguments:
        controller_size: features of the controller's output
        width: features of a slot
        n_heads: how many heads there are
        max_shift: how far a head moves in a step
        normalizer: for the content
        shift_normalizer: for the shifts
    """

    def __init__(
        self,
        controller_size: int,
        width: int,
        *,
        n_heads: int = 1,
        max_shift: int = 1,
        normalizer: Normalizer = _SHANNON,
        shift_normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__()
        checks.check_count("NTMHead", "n_heads", n_heads)
        if max_shift < 0:
            raise ValueError(f"NTMHead: max_shift must be non-negative, got {max_shift}; 0 leaves heads where they are")
        check_normalizer("NTMHead", normalizer)
        check_normalizer("NTMHead", shift_normalizer)
        self.n_heads, self.normalizer, self.shift_normalizer = n_heads, normalizer, shift_normalizer
        self.sizes = (width, 1, 1, 2 * max_shift + 1, 1)
        self.project = nn.Linear(controller_size, n_heads * sum(self.sizes))

    def address(self, controller: Tensor) -> Address:
        """Computes the address from the controller's output, with each quantity in its range."""
        parts = self.project(controller).unflatten(-1, (self.n_heads, -1)).split(self.sizes, -1)
        key, sharpness, gate, shifts, power = parts
        softplus = nn.functional.softplus
        shifts = normalize(self.shift_normalizer, shifts, None)
        return Address(key.tanh(), softplus(sharpness), gate.sigmoid(), shifts, 1 + softplus(power))

    def forward(self, controller: Tensor, memory: Tensor, before: Tensor, mask: Tensor | None = None) -> Tensor:
        """Addresses by content, interpolates, shifts, sharpens. False in `mask` (..., slots) removes a slot.

        Arguments:
            controller: (..., controller_size)
            memory: (..., slots, width)
            before: the last weights (..., heads, slots)
            mask: (..., slots)
        """
        mask = None if mask is None else mask.unsqueeze(-2)  # for every head
        key, sharpness, gate, shifts, power = self.address(controller)
        weights = content_weights(memory, key, sharpness, normalizer=self.normalizer, mask=mask)
        return sharpen(circular_shift(interpolate(weights, before, gate), shifts, mask=mask), power)

    def extra_repr(self) -> str:
        width, max_shift = self.sizes[0], self.sizes[3] // 2
        return shown(
            width=width,
            n_heads=self.n_heads,
            max_shift=max_shift,
            normalizer=self.normalizer,
            shift_normalizer=self.shift_normalizer,
        )


def erase_and_add(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Erases and writes: returns M ∘ Π_h (1 − w_h e_hᵀ) + Σ_h w_h a_hᵀ.

    Memory (..., slots, width), weights (..., heads, slots), erase (in 0 ... 1) and add (..., heads, width).
    """
    kept = product(1 - weights.unsqueeze(-1) * erase.unsqueeze(-2), -3)  # (..., slots, width)
    return memory * kept + weights.transpose(-1, -2) @ add


def product(factors: Tensor, dim: int) -> Tensor:
    """Multiplies a few slices along an axis, as `prod` does, whose gradient is slow where a factor is exactly zero."""
    return reduce(torch.mul, factors.unbind(dim))
