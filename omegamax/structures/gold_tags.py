"""Gold tags of a chain, and the structures that they stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.structures.positions import KeptPositions

_NO_TAG = (
    "where a tag is missing (as −100), the position must be beyond the lengths or False in positions, or the tag "
    "is unknown, which PartialLoss takes"
)


class GoldTags(NamedTuple):
    """Gold tags that have been checked."""

    tags: Tensor  # (..., N); 0 where there is none
    n_tags: int
    within: Tensor  # (..., N): where there is one
    kept: KeptPositions | None  # None where those that are there come first

    @staticmethod
    def of(who: str, tags: Any, n_tags: int, lengths: Any, positions: Any) -> GoldTags:
        """Checks tags (..., N), lengths and positions; errors name `who`."""
        checks.check_indices(who, "tags", tags)
        batch, kept = tuple(tags.shape[:-1]), None
        if positions is not None:
            kept = KeptPositions.of(who, checks.check_positions(who, batch, tags.shape[-1], positions, lengths))
        elif lengths is not None:
            lengths = checks.check_lengths(who, batch, lengths)
        return GoldTags.checked(who, tags, n_tags, lengths, kept)

    @staticmethod
    def checked(who: str, tags: Tensor, n_tags: int, lengths: Tensor | None, kept: KeptPositions | None) -> GoldTags:
        """Checks that there is a tag in range wherever there is a position."""
        if kept is not None:
            within = kept.mask.reshape(tags.shape).to(tags.device)
        elif lengths is not None:
            within = torch.arange(tags.shape[-1], device=tags.device) < lengths.to(tags.device).unsqueeze(-1)
        else:
            within = torch.ones_like(tags, dtype=torch.bool)
        if bool((within & ((tags < 0) | (tags >= n_tags))).any()):
            raise ValueError(
                f"{who}: tags must lie between 0 and {n_tags - 1}, got {int(tags[within].min())} to "
                f"{int(tags[within].max())}; {_NO_TAG}"
            )
        return GoldTags(torch.where(within, tags, 0).long(), n_tags, within, kept)

    def dense(self, dtype: Any) -> Tensor:
        """Makes the structure (..., N, C, C)."""
        before = torch.nn.functional.pad(self._in_front()[..., :-1], (1, 0))
        if self.kept is not None:
            before = self.kept.put_back(before.reshape(self.kept.mask.shape)).reshape(before.shape)
        cell = before * self.n_tags + self.tags
        hot = torch.nn.functional.one_hot(cell, self.n_tags**2).unflatten(-1, (self.n_tags, self.n_tags))
        return (hot * self.within[..., None, None]).to(torch.get_default_dtype() if dtype is None else dtype)

    def factored(self, dtype: Any) -> tuple[Tensor, ...]:
        """Makes emissions, transitions, start and end of the structure."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        tags, n_tags = self._in_front(), self.n_tags
        number = self.within.sum(-1, keepdim=True)
        is_pair = torch.arange(1, tags.shape[-1], device=tags.device) < number
        counts = torch.zeros(*tags.shape[:-1], n_tags * n_tags, dtype=dtype, device=tags.device)
        counts = counts.scatter_add(-1, tags[..., :-1] * n_tags + tags[..., 1:], is_pair.to(dtype))
        hot = torch.nn.functional.one_hot
        return (
            (hot(self.tags, n_tags) * self.within.unsqueeze(-1)).to(dtype),
            counts.unflatten(-1, (n_tags, n_tags)),
            hot(tags[..., 0], n_tags).to(dtype),
            hot(tags.gather(-1, number - 1).squeeze(-1), n_tags).to(dtype),
        )

    def _in_front(self) -> Tensor:
        if self.kept is None:
            return self.tags
        return self.kept.in_front(self.tags.reshape(self.kept.mask.shape)).reshape(self.tags.shape)
