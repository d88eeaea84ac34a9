"""The two forms of a structure in torch-struct: a short one, such as tags or heads, and its parts, 0/1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks


def _within(who: str, sequence: Tensor, lengths: Any) -> Tensor:
    """Says which places (b, N) of a sequence exist."""
    checks.check_indices(who, "sequence", sequence)
    if lengths is None:
        return torch.ones_like(sequence, dtype=torch.bool)
    ends = checks.check_lengths(who, tuple(sequence.shape[:-1]), lengths).to(sequence.device)
    return torch.arange(sequence.shape[-1], device=sequence.device) < ends.unsqueeze(-1)


class LinearChain:
    """Tags (b, N), and parts (b, N − 1, C, C): [n, z, y] is 1 where tag z at n + 1 follows tag y at n."""

    @staticmethod
    def to_parts(sequence: Tensor, extra: int, lengths: Any = None) -> Tensor:
        """Makes parts from tags.

        Arguments:
            sequence: tags (b, N)
            extra: the number C of tags
            lengths: how many positions each item has
        """
        here = _within("LinearChain.to_parts", sequence, lengths)
        hot = torch.nn.functional.one_hot(torch.where(here, sequence, 0), extra) * here.unsqueeze(-1)
        return hot[..., 1:, :, None] * hot[..., :-1, None, :]

    @staticmethod
    def from_parts(edge: Tensor) -> tuple[Tensor, int]:
        """Reads tags (b, N), 0 beyond the length, and the number of tags from parts `edge` (b, N − 1, C, C)."""
        first = edge[..., :1, :, :].sum(-2).argmax(-1)
        return torch.cat([first, edge.sum(-1).argmax(-1)], -1), edge.shape[-1]

    @staticmethod
    def hmm(transition: Tensor, emission: Tensor, init: Tensor, observations: Tensor) -> Tensor:
        """Makes potentials (b, N − 1, C, C) of a hidden Markov model.

        Arguments:
            transition: log-probabilities (C, C), [z, y] of state z after state y
            emission: log-probabilities (V, C) of what is seen in each state
            init: log-probabilities (C,) of the first state
            observations: what is seen, integers (b, N) below V
        """
        seen = emission[observations]  # (b, N, C)
        scores = transition + seen[:, 1:].unsqueeze(-1)
        start = (init + seen[:, :1]).unsqueeze(-2)  # (b, 1, 1, C)
        return torch.cat([scores[:, :1] + start, scores[:, 1:]], 1)


class SemiMarkov:
    """Segments (b, N): tags where one begins, −1 inside; parts (b, N − 1, K, C, C).

    [n, k, z, y] is 1 where tag z at n + k follows tag y at n.
    """

    @staticmethod
    def to_parts(sequence: Tensor, extra: tuple[int, int], lengths: Any = None) -> Tensor:
        """Makes parts from segments.

        Arguments:
            sequence: tags where segments begin, −1 elsewhere, (b, N); the first is a tag
            extra: the numbers (C, K) of tags and of durations, those of 0 counted
            lengths: how many positions each item has
        """
        n_tags, n_durations = extra
        here = _within("SemiMarkov.to_parts", sequence, lengths) & (sequence >= 0)
        if not bool(here[..., 0].all()):
            raise ValueError("SemiMarkov.to_parts: the first entry of every sequence must be a tag, got -1; give a tag")
        items, places = here.nonzero(as_tuple=True)
        tags = sequence[items, places]
        follows = items[1:] == items[:-1]
        item, start, end = items[1:][follows], places[:-1][follows], places[1:][follows]
        if bool((end - start >= n_durations).any()):
            raise ValueError(
                f"SemiMarkov.to_parts: durations must be below K = {n_durations}, got {int((end - start).max())}; "
                "give a larger K in extra"
            )
        parts = sequence.new_zeros(sequence.shape[0], sequence.shape[1] - 1, n_durations, n_tags, n_tags)
        parts[item, start, end - start, tags[1:][follows], tags[:-1][follows]] = 1
        return parts

    @staticmethod
    def from_parts(edge: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Reads segments (b, N), and the numbers (C, K), from parts `edge` (b, N − 1, K, C, C)."""
        found = torch.full((edge.shape[0], edge.shape[1] + 1), -1, dtype=torch.long, device=edge.device)
        item, start, duration, tag, before = edge.nonzero(as_tuple=True)
        found[item, start + duration] = tag
        found[item[start == 0], 0] = before[start == 0]
        return found, (edge.shape[-1], edge.shape[2])


class DepTree:
    """Heads (b, N), words counted from 1 and 0 for the root; parts (b, N, N): [h, m], roots on the diagonal."""

    @staticmethod
    def to_parts(sequence: Tensor, extra: Any = None, lengths: Any = None) -> Tensor:
        """Makes parts from heads.

        Arguments:
            sequence: heads (b, N)
            extra: not needed
            lengths: how many words each item has
        """
        here = _within("DepTree.to_parts", sequence, lengths)
        own = torch.arange(sequence.shape[-1], device=sequence.device)
        head = torch.where(sequence == 0, own, sequence - 1)
        hot = torch.nn.functional.one_hot(torch.where(here, head, 0), sequence.shape[-1])
        return (hot * here.unsqueeze(-1)).transpose(-1, -2)

    @staticmethod
    def from_parts(arcs: Tensor) -> tuple[Tensor, None]:
        """Reads heads (b, N), 0 for the root and beyond the length, from parts `arcs` (b, N, N)."""
        head = arcs.argmax(-2)
        own = torch.arange(arcs.shape[-1], device=arcs.device)
        none = arcs.sum(-2) == 0
        return torch.where((head == own) | none, 0, head + 1), None


class _Same:
    """Both forms are the same."""

    @staticmethod
    def to_parts(spans: Tensor, extra: Any = None, lengths: Any = None) -> Tensor:
        """Returns `spans`; `extra` and `lengths` are not needed."""
        return spans

    @staticmethod
    def from_parts(spans: Tensor) -> tuple[Tensor, None]:
        """Returns `spans` as they are, and nothing extra."""
        return spans, None


class CKY_CRF(_Same):  # noqa: N801
    """Spans (b, N, N, NT) of binary trees; both forms are the same."""


class Alignment(_Same):
    """Steps (b, N, M, 3) of alignments; both forms are the same."""
