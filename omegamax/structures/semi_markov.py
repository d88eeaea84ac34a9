"""Semi-Markov chains: sequences of tagged segments, scored as wholes.

    potentials (..., N, K, C, C): [n, k, i, j] scores a segment with tag j that covers the positions n − k ... n (its
    duration is k + 1) after a segment with tag i; where it starts the sequence (n = k) only i = 0 is read

A structure is 0/1 in the same shape: one cell per segment. Segments of the same tag may follow each other. The
recursion runs left to right; a node is the end of a segment with its tag. Sarawagi & Cohen, NIPS 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.plain_lists import plain_lists
from omegamax.structures.problem import Sizes


@dataclass(frozen=True)
class SemiMarkov(DynamicProgram):
    """Segmentations of N positions into tagged segments of at most K = `max_duration` positions."""

    max_duration: int

    event_ndim = 4

    def __post_init__(self) -> None:
        checks.check_count("SemiMarkov", "max_duration", self.max_duration)

    def from_segments(self, segments: Tensor, transitions: Tensor | None = None, start: Tensor | None = None) -> Tensor:
        """Makes potentials from segment scores (..., N, K, C), transitions (..., C, C) and start (..., C) scores.

        `segments` [n, k, j] scores tag j on the positions n − k ... n; those with n < k are never read.
        """
        n_places, n_tags = segments.shape[-3], segments.shape[-1]
        if segments.shape[-2] != self.max_duration:
            raise ValueError(
                f"SemiMarkov.from_segments: segments must be (..., N, {self.max_duration}, C), got "
                f"{tuple(segments.shape)}; their third axis from the end is the duration"
            )
        nothing = segments.new_zeros(n_tags, n_tags)
        after = nothing if transitions is None else transitions
        first = nothing[0] if start is None else start
        place = torch.arange(n_places, device=segments.device)[:, None]
        starts = (place == torch.arange(self.max_duration, device=segments.device))[..., None, None]
        return segments.unsqueeze(-2) + torch.where(
            starts, first[..., None, None, None, :], after[..., None, None, :, :]
        )

    def from_emissions(
        self,
        emissions: Tensor,
        transitions: Tensor | None = None,
        start: Tensor | None = None,
        durations: Tensor | None = None,
    ) -> Tensor:
        """Makes potentials from emissions (..., N, C), summed over each segment, and scores (K, C) of durations.

        Arguments:
            emissions: (..., N, C), scores of tags at positions
            transitions: (..., C, C), scores of segments of tag j after tag i; None is zero
            start: (..., C), scores of the first segment; None is zero
            durations: (K, C), scores of durations; None is zero
        """
        sums = [emissions]  # added up one by one: differences of cumulative sums would make NaN of −inf
        for _ in range(1, self.max_duration):
            sums.append(emissions + torch.nn.functional.pad(sums[-1][..., :-1, :], (0, 0, 1, 0)))
        segments = torch.stack(sums, -2)
        return self.from_segments(segments if durations is None else segments + durations, transitions, start)

    def from_segmentation(
        self, segments: Sequence[Any], n_places: int, n_tags: int, *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Makes a structure (N, K, C, C), 0/1, from segments (first, last, tag); a list of lists gives a batch.

        The segments cover positions from 0 without gaps; where they end earlier than n_places, that is the length.

        Arguments:
            segments: (first, last, tag), both ends included
            n_places: how many positions there are, N
            n_tags: how many tags there are, C
            dtype: of the result

        >>> SemiMarkov(2).from_segmentation([(0, 1, 0), (2, 2, 1)], 3, 2).nonzero()
        tensor([[1, 1, 0, 0],
                [2, 0, 0, 1]])
        """
        segments = plain_lists(segments)
        if segments and not (segments[0] and isinstance(segments[0][0], int)):
            return torch.stack([self.from_segmentation(one, n_places, n_tags, dtype=dtype) for one in segments])
        structure = torch.zeros(n_places, self.max_duration, n_tags, n_tags, dtype=dtype)
        end, before = -1, 0
        for first, last, tag in segments:
            fits = first == end + 1 and first <= last < n_places and last - first < self.max_duration
            if not fits or not 0 <= tag < n_tags:
                raise ValueError(
                    f"SemiMarkov.from_segmentation: segments must follow each other, with at most {self.max_duration} "
                    f"of {n_places} positions and a tag below {n_tags}, got {(first, last, tag)} after position {end}; "
                    "list (first, last, tag), both ends included"
                )
            structure[last, last - first, before, tag] = 1
            end, before = last, tag
        return structure

    def segments(self, structure: Tensor) -> list[Any]:
        """Lists (first, last, tag) of each segment of a structure, in order.

        A batch gives a list of such lists.
        """
        if structure.dim() > 4:
            return [self.segments(one) for one in structure]
        return [(n - k, n, j) for n, k, _, j in structure.nonzero().tolist()]

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating("SemiMarkov", potentials)
        c = potentials.shape[-1] if potentials.dim() else 0
        expected = f"(..., N, {self.max_duration}, C, C)"
        checks.check_event("SemiMarkov", "potentials", potentials, (None, self.max_duration, c, c), expected)
        return ((potentials, 4),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start; then N·C nodes (n, j), a segment of tag j ends at n; then N ends."""
        n, k, c, _ = sizes[0]
        tags = np.arange(c)
        place, duration, before, after = np.meshgrid(np.arange(n), np.arange(k), tags, tags, indexing="ij")
        cell = ((place * k + duration) * c + before) * c + after
        opens = (place == duration) & (before == 0)
        follows = place > duration
        tail = np.where(opens, 0, 1 + (place - duration - 1) * c + before)
        used = opens | follows
        length = np.repeat(np.arange(1, n + 1), c)
        heads = np.concatenate([(1 + place * c + after)[used], n * c + length])
        tails = np.concatenate([tail[used], 1 + (length - 1) * c + np.tile(tags, n)])
        parts = np.concatenate([cell[used], np.full(n * c, -1)])
        levels = np.concatenate([[0], np.repeat(np.arange(1, n + 1), c), np.arange(2, n + 2)])
        order = np.argsort(heads, kind="stable")  # edges into (n, j) by duration, then by tag before
        topology = Topology.from_edges(levels, heads[order], tails[order, None], leaves=[0])
        return Lattice.from_parts(topology, [parts[order]], [n * k * c * c], parts_are_edges=True)

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its length."""
        n, _, c, _ = sizes[0]
        return n * c + lengths[0]
