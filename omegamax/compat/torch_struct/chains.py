"""Chains of tags and of segments, in the layout of torch-struct."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax.compat.torch_struct.distribution import StructDistribution
from omegamax.compat.torch_struct.parts import LinearChain
from omegamax.compat.torch_struct.parts import SemiMarkov as SemiMarkovParts
from omegamax.structures.chain import Chain
from omegamax.structures.semi_markov import SemiMarkov
from omegamax.structures.structure import Structure


class _ChainLike(StructDistribution):
    """Events do not name the first tag of an item of one position, whose tags all score 0: they stand for tag 0."""

    def _first_tags(self, leaving: Tensor) -> Tensor:
        """Returns the first tag, 0/1 (..., C), of events whose steps leave tags `leaving` (..., C) at position 0."""
        if self.lengths is None:
            alone = torch.tensor(leaving.shape[-1] > 0 and self.event_shape[0] == 0)
        else:
            alone = (torch.as_tensor(self.lengths, device=leaving.device) == 1).unsqueeze(-1)
        tag0 = (torch.arange(leaving.shape[-1], device=leaving.device) == 0).to(leaving.dtype)
        return torch.where(alone.to(leaving.device), tag0, leaving)


class LinearChainCRF(_ChainLike):
    """A linear-chain CRF over N tags.

    Arguments:
        log_potentials: scores (*batch, N − 1, C, C), [n, z, y] of tag z at n + 1 after tag y at n
        lengths: how many tags each item has, from 1 to N
        args: not needed
    """

    event_ndim = 3
    struct = LinearChain

    def structure(self) -> Structure:
        return Chain()

    def potentials(self) -> Tensor:
        return pad(self.log_potentials.transpose(-1, -2), (0, 0, 0, 0, 1, 0))

    def as_event(self, structures: Tensor) -> Tensor:
        return structures[..., 1:, :, :].transpose(-1, -2)

    def as_structure(self, event: Tensor) -> Tensor:
        first = self._first_tags(event[..., :1, :, :].sum((-2, -3)))  # (..., C)
        row = pad(first.unsqueeze(-2), (0, 0, 0, event.shape[-1] - 1))  # in row 0 of a cell (C, C)
        return torch.cat([row.unsqueeze(-3), event.transpose(-1, -2)], -3)


class HMM(LinearChainCRF):
    """A hidden Markov model with C states, as a chain.

    Arguments:
        transition: log-probabilities (C, C), [z, y] of state z after state y
        emission: log-probabilities (V, C) of what is seen in each state
        init: log-probabilities (C,) of the first state
        observations: what is seen, integers (b, N) below V
        lengths: how many observations each item has
    """

    def __init__(
        self, transition: Tensor, emission: Tensor, init: Tensor, observations: Tensor, lengths: Any = None
    ) -> None:
        super().__init__(LinearChain.hmm(transition, emission, init, observations), lengths)


class SemiMarkovCRF(_ChainLike):
    """A semi-Markov CRF: a walk over N positions, whose steps are at most K − 1 long.

    Arguments:
        log_potentials: scores (*batch, N − 1, K, C, C), [n, k, z, y] of tag z at n + k after tag y at n; k = 0 is
            never read
        lengths: how many positions each item has, from 1 to N
        args: not needed
    """

    event_ndim = 4
    struct = SemiMarkovParts

    def structure(self) -> Structure:
        return SemiMarkov(max(1, self.event_shape[1] - 1))

    def potentials(self) -> Tensor:
        """Gives position 0 a segment of its own, with score 0; then a step of k is a segment of k positions."""
        scores, n = self.log_potentials, self.event_shape[0] + 1
        ends = [
            pad(scores[..., : max(0, n - k), k, :, :].mT, (0, 0, 0, 0, min(k, n), 0), value=-torch.inf)
            for k in range(1, max(2, self.event_shape[1]))
            if k < self.event_shape[1]
        ]
        if not ends:  # K is 1: no steps at all
            ends = [scores.new_full((*self.batch_shape, n, *self.event_shape[-2:]), -torch.inf)]
        is_first = (torch.arange(n, device=scores.device) == 0).reshape(-1, 1, 1)
        return torch.stack([torch.where(is_first, 0, ends[0]), *ends[1:]], -3)

    def as_event(self, structures: Tensor) -> Tensor:
        n = self.event_shape[0] + 1
        steps = [structures.new_zeros(*structures.shape[:-4], n - 1, *structures.shape[-2:])]
        for k in range(1, self.event_shape[1]):
            found = structures[..., min(k, n) :, k - 1, :, :].mT  # ends at n' from k on
            steps.append(pad(found, (0, 0, 0, 0, 0, n - 1 - found.shape[-3])))
        return torch.stack(steps, -3)

    def as_structure(self, event: Tensor) -> Tensor:
        n = self.event_shape[0] + 1
        ends = [
            pad(event[..., : max(0, n - k), k, :, :].mT, (0, 0, 0, 0, min(k, n), 0))
            for k in range(1, self.event_shape[1])
        ] or [event.new_zeros(*event.shape[:-4], n, *event.shape[-2:])]
        first = self._first_tags(event[..., :1, :, :, :].sum((-2, -3, -4)))
        row = pad(first.unsqueeze(-2), (0, 0, 0, event.shape[-1] - 1)).unsqueeze(-3)
        ends[0] = torch.cat([row, ends[0][..., 1:, :, :]], -3)
        return torch.stack(ends, -3)
