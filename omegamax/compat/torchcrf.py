"""`pytorch-crf` (version 0.7.2): its `CRF`, with the same parameters, so that checkpoints load both ways.

Replace `from torchcrf import CRF` by `from omegamax.compat.torchcrf import CRF`. What differs:

- A mask may have holes. A position that is masked is removed, and its neighbours become adjacent, in the score of the
  tags and in the sum over all sequences alike. The package's two halves disagree there, so that the "log-likelihood"
  of some tags exceeds 0.
- The mask may begin with False, which the package refuses; a sequence without any position has log-likelihood 0 and
  decodes to an empty list.
- Values and gradients are finite with −inf in emissions and transitions, and can be differentiated again.
- Tags that are masked may be anything, such as −100; the package indexes with them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.structures.chain import Chain, FactoredChain

_CHAIN = Chain()
_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class CRF(nn.Module):
    """A linear-chain CRF whose call gives the log-likelihood of tags, to be maximised.

    Arguments:
        num_tags: how many tags there are
        batch_first: whether the batch is the first axis; else the positions are

    Its parameters are `start_transitions` (C,), `end_transitions` (C,) and `transitions` (C, C), [i, j] from i to j.

    >>> from omegamax.compat.torchcrf import CRF
    >>> crf = CRF(2, batch_first=True)
    >>> _ = [nn.init.zeros_(each) for each in crf.parameters()]
    >>> emissions, tags = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]), torch.tensor([[0, 1]])
    >>> crf(emissions, tags), crf.decode(emissions)
    (tensor(-0.4402, grad_fn=<SumBackward0>), [[0, 1]])
    """

    def __init__(self, num_tags: int, batch_first: bool = False) -> None:
        super().__init__()
        if isinstance(num_tags, bool) or not isinstance(num_tags, int) or num_tags <= 0:
            raise ValueError(f"CRF: num_tags must be a positive int, got {num_tags!r}; count the tags")
        self.num_tags, self.batch_first = num_tags, batch_first
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters uniformly between −0.1 and 0.1."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """Says how many tags there are."""
        return f"num_tags={self.num_tags}"

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: str = "sum") -> Tensor:
        """Computes the log-likelihood of tags.

        Arguments:
            emissions: scores (N, batch, C), or (batch, N, C) if `batch_first`
            tags: integers (N, batch), or (batch, N)
            mask: shaped as the tags, not 0 where a position exists; holes are allowed
            reduction: "none", "sum" or "mean" over the batch, or "token_mean" over the positions that exist

        Returns one number, or (batch,) without reduction.
        """
        if reduction not in _REDUCTIONS:
            raise ValueError(f"CRF: reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction!r}; choose one")
        potentials, kept, empty = self._bound(emissions, mask)
        if not isinstance(tags, Tensor) or tags.shape != emissions.shape[:2]:
            given = tuple(tags.shape) if isinstance(tags, Tensor) else type(tags).__name__
            raise ValueError(
                f"CRF: tags must have the shape {tuple(emissions.shape[:2])} of the emissions without the last axis, "
                f"got {given}; give one tag per position"
            )
        gold = tags if self.batch_first else tags.transpose(0, 1)
        target = _CHAIN.target_from(torch.where(kept & ~empty.unsqueeze(-1), gold, 0), potentials, positions=kept)
        found = torch.where(empty, 0, _CHAIN.log_prob(potentials, target, positions=kept))
        if reduction == "none":
            return found
        if reduction == "sum":
            return found.sum()
        count = found.numel() if reduction == "mean" else int((kept & ~empty.unsqueeze(-1)).sum())
        return found.sum() / max(count, 1)

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        """Finds the best tags of each sequence, a list per sequence with one tag per position that exists.

        Arguments:
            emissions: scores (N, batch, C), or (batch, N, C) if `batch_first`
            mask: (N, batch) or (batch, N), not 0 where a position exists
        """
        potentials, kept, empty = self._bound(emissions, mask)
        tags = _CHAIN.tags(_CHAIN.map(potentials, positions=kept))
        there = kept & ~empty.unsqueeze(-1)
        return [row[exists].tolist() for row, exists in zip(tags, there)]

    def _bound(self, emissions: Tensor, mask: Tensor | None) -> tuple[FactoredChain, Tensor, Tensor]:
        """Returns potentials with the batch first, the positions that are kept, and which sequences are empty.

        A chain has at least one position, so an empty sequence keeps its first one with scores of zero.
        """
        if not isinstance(emissions, Tensor) or emissions.dim() != 3 or emissions.shape[-1] != self.num_tags:
            layout = "(batch, N, {0})" if self.batch_first else "(N, batch, {0})"
            given = tuple(emissions.shape) if isinstance(emissions, Tensor) else type(emissions).__name__
            raise ValueError(
                f"CRF: emissions must be {layout.format(self.num_tags)}, got {given}; batch_first={self.batch_first} "
                "says which axis comes first"
            )
        if mask is not None and (not isinstance(mask, Tensor) or mask.shape != emissions.shape[:2]):
            given = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(
                f"CRF: mask must have the shape {tuple(emissions.shape[:2])} of the emissions without the last axis, "
                f"got {given}; it is not 0 where a position exists"
            )
        if mask is None:
            mask = torch.ones(emissions.shape[:2], dtype=torch.bool, device=emissions.device)
        kept = mask.to(emissions.device) != 0
        if not self.batch_first:
            emissions, kept = emissions.transpose(0, 1), kept.transpose(0, 1)
        empty = ~kept.any(-1)
        first = torch.arange(kept.shape[-1], device=kept.device) == 0
        emissions = torch.where(empty.reshape(-1, 1, 1), 0, emissions)
        dtype = torch.promote_types(emissions.dtype, self.transitions.dtype)
        scores = (each.to(dtype) for each in (self.transitions, self.start_transitions, self.end_transitions))
        return _CHAIN.from_emissions(emissions.to(dtype), *scores), kept | (first & empty.unsqueeze(-1)), empty
