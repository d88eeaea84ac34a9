"""Puts the rows of the own queries together from what all ranks sent of them, and solves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

_ELEMENTS = 1 << 18  # of a block of padded rows


class OwnedRows:
    """Rows of different sizes, whose entries come from all ranks: those of the first rank first.

    Parts of the sequence are in order of the ranks, so the entries of a row are in order of their keys.

    Arguments:
        counts: how many entries of each row each rank has, (ranks, rows)
    """

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts
        self.offsets = functional.pad(counts.sum(0).cumsum(0), (1, 0))
        starts = self.offsets[:-1] + counts.cumsum(0) - counts  # of a rank's entries, (ranks, rows)
        self.places = [_ranges(start, count) for start, count in zip(starts, counts)]
        self.rank_counts = [len(place) for place in self.places]

    def merged(self, parts: Sequence[Tensor]) -> Tensor:
        """Returns the entries of all ranks, row by row."""
        merged = parts[0].new_empty(sum(self.rank_counts))
        for place, part in zip(self.places, parts):
            merged[place] = part
        return merged

    def split(self, merged: Tensor) -> list[Tensor]:
        """Returns the entries of each rank; undoes `merged`."""
        return [merged[place] for place in self.places]

    def kept(self, keep: Tensor) -> OwnedRows:
        """Returns the rows with those of the merged entries that a boolean tensor marks."""
        n_rows = self.counts.shape[1]
        counts = []
        for place, count in zip(self.places, self.counts):
            row = torch.repeat_interleave(torch.arange(n_rows, device=place.device), count)
            counts.append(torch.bincount(row[keep[place]], minlength=n_rows))
        return OwnedRows(torch.stack(counts))

    def solve(self, merged: Sequence[Tensor], function: Callable[..., Tensor], fill: Sequence[float]) -> Tensor:
        """Applies a function of rows to blocks of padded rows.

        Arguments:
            merged: its arguments, as entries
            function: takes the numbers of some rows and those rows padded, (rows, width) each, and returns the same
            fill: what the arguments are padded with
        """
        found = torch.empty_like(merged[0])
        for rows, inside, places in self._blocks():
            padded = [
                torch.full(inside.shape, filling, dtype=each.dtype, device=each.device).masked_scatter_(
                    inside, each[places]
                )
                for each, filling in zip(merged, fill)
            ]
            found[places] = function(rows, *padded)[inside]
        return found

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yields rows of about the same size: their numbers, the filled part of a padded block, and their entries."""
        sizes = self.offsets.diff()
        order = sizes.argsort(descending=True, stable=True)[: int((sizes > 0).sum())]
        first = 0
        while first < len(order):
            width = int(sizes[order[first]])
            rows = order[first : first + max(1, _ELEMENTS // width)]
            inside = torch.arange(width, device=rows.device) < sizes[rows].unsqueeze(-1)
            yield rows, inside, _ranges(self.offsets[rows], sizes[rows])
            first += len(rows)


def _ranges(starts: Tensor, counts: Tensor) -> Tensor:
    """Lists start, start + 1, ..., start + count − 1 for each of some starts, one after the other."""
    before = counts.cumsum(0) - counts
    total = int(counts.sum())
    return torch.repeat_interleave(starts - before, counts) + torch.arange(total, device=counts.device)
