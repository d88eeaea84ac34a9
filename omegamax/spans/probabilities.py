"""The probability of every span under a chain of tags, exactly.

    P(span of type t at n ... n + l) = Σ over tag sequences that spell it of their probability

The random walk of a chain is a Markov chain under every Ω: given the tag of a position, what comes after it does not
depend on what came before. So the probability of a span is a product of the probabilities to begin, to go on and to
end, which follow from the expected pairs of neighbouring tags, `Chain().argmax`. Under Shannon they are those of a CRF.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from omegamax import checks, routing
from omegamax.kernels.structures.spans import span_mass, span_mass_gradient
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.spans.reading import TagReader
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.positions import KeptPositions
from omegamax.structures.problem import Problem

_CHAIN = Chain()
_SHANNON = Shannon()


class SpanProbabilities(NamedTuple):
    """Probabilities of spans, for N positions, spans of up to L positions and T types."""

    exact: Tensor  # (..., N, L, T): [n, l, t] = a span of type t covers the positions n ... n + l and no others
    inside: Tensor  # (..., N, T): the position lies inside a span of type t, of any length
    types: tuple[str, ...]  # the name of each type

    @property
    def boundaries(self) -> Tensor:
        """(..., N, L): a span of whatever type covers the positions n ... n + l and no others."""
        return self.exact.sum(-1)


def span_probabilities(
    potentials: Tensor | FactoredChain,
    reader: TagReader,
    regularizer: SmoothMax = _SHANNON,
    *,
    lengths: Any = None,
    mask: Any = None,
    positions: Any = None,
    max_length: int | None = None,
) -> SpanProbabilities:
    """Computes the probability of every span under the random walk of a chain; differentiable once.

    The cost is that of the expected pairs of tags, O(N C²), and O(N · L · C) for spans of up to L positions.

    Arguments:
        potentials: of a chain of C tags, dense (..., N, C, C) or from `Chain.from_emissions`
        reader: how tags stand for spans, such as `TagReader(["O", "B-PER", "I-PER"])`
        regularizer: Ω, local to the recursion; under a sparse one most spans have probability zero
        lengths: how many positions each item has
        mask: boolean, as in `Chain`; True means allowed
        positions: in place of lengths, boolean (..., N): False where a position is removed, as later pieces of a word.
            Spans consist of positions that are kept, and are counted in all N: [n, l] begins at n and ends at n + l,
            both kept, and goes on over what is removed between them
        max_length: L, how many positions a span has at most, removed ones between its ends included; None takes N

    >>> reader = TagReader(["O", "B-PER", "I-PER"])
    >>> potentials = Chain.from_emissions(torch.tensor([[0.0, 3.0, 0.0], [0.0, 0.0, 3.0]]), torch.zeros(3, 3))
    >>> span_probabilities(potentials, reader).exact.squeeze(-1)  # rows: where it starts; columns: how long it is
    tensor([[0.0865, 0.8683],
            [0.0865, 0.0000]])
    """
    if not isinstance(reader, TagReader):
        raise TypeError(
            f"span_probabilities: reader must be a TagReader, got {type(reader).__name__}; make it from the names of "
            'the tags, TagReader(["O", "B-PER", "I-PER"])'
        )
    problem = _CHAIN.bind(potentials, lengths, mask, positions).compacted()
    n_places, n_tags = problem.sizes[0][0], problem.sizes[0][-1]
    if n_tags != len(reader.names):
        raise ValueError(
            f"span_probabilities: reader must name {n_tags} tags, one for each of the potentials, got "
            f"{len(reader.names)}; give the names in the order of the tags' numbers"
        )
    if max_length is not None:
        checks.check_count("span_probabilities", "max_length", max_length)
    max_length = n_places if max_length is None else min(max_length, n_places)
    pairs = _CHAIN.argmax(_dense(problem), regularizer, lengths=problem.lengths[0])
    *steps, inside = _steps(pairs, reader)
    if problem.kept is not None:
        steps, inside = _put_back(steps, problem.kept), problem.kept.put_back(inside)
    exact = _mass([step.contiguous() for step in steps], max_length)
    shaped = [found.reshape(*problem.batch_shape, *found.shape[1:]).to(problem.dtype) for found in (exact, inside)]
    return SpanProbabilities(shaped[0], shaped[1], reader.types)


def _dense(problem: Problem) -> Tensor:
    """Returns potentials (batch, N, C, C), multiplied out where they are factored."""
    if len(problem.parts) == 1:
        return problem.parts[0]
    emissions, transitions, start, end = problem.parts
    place, device = torch.arange(emissions.shape[1]), emissions.device
    is_last = (place == problem.lengths[0].unsqueeze(1) - 1).unsqueeze(-1).to(device)
    scored = emissions + torch.where(is_last, end.unsqueeze(1), 0)
    is_first = (place == 0)[:, None, None].to(device)
    return scored.unsqueeze(-2) + torch.where(is_first, start[:, None, None, :], transitions.unsqueeze(1))


def _put_back(steps: list[Tensor], kept: KeptPositions) -> list[Tensor]:
    """Moves steps back to where their positions were. A span goes on over a removed position with the same tag."""
    begin, go_on, end = (kept.put_back(step) for step in steps)
    same = torch.eye(go_on.shape[-1], dtype=go_on.dtype, device=go_on.device)
    is_removed = ~kept.mask[:, :, None, None, None].to(go_on.device)
    return [begin, torch.where(is_removed, same, go_on), end]


def _steps(pairs: Tensor, reader: TagReader) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes how likely a span begins at each position, goes on and ends, per type and tag of the type.

    `pairs` are expected pairs of tags (..., N, C, C). Returns begin and end (..., N, T, K), go_on (..., N, T, K, K),
    and the probability of lying inside (..., N, T).
    """
    device, dtype = pairs.device, pairs.dtype
    begins = reader.begins.to(device)
    types, members = reader.type_of_tag.to(device), reader.members.to(device)
    typed = types >= 0
    visits = pairs.sum(-2)  # (..., N, C)
    if pairs.shape[-3] == 0:
        none = pairs.new_zeros(*pairs.shape[:-2], *members.shape)
        return none, none.unsqueeze(-1).expand(*none.shape, members.shape[1]), none, none.sum(-1)
    # A pair at position 0 has no tag before it: what it holds in row 0 always begins.
    begin = torch.einsum("...nij,ij->...nj", pairs, begins[:-1].to(dtype))
    begin = torch.cat([(visits * typed)[..., :1, :], begin[..., 1:, :]], -2)
    from_before = pairs[..., 1:, :, :] / _or_one(visits[..., :-1, :]).unsqueeze(-1)  # given the tag before
    no_more = ~typed | begins[:-1]  # (C, C): tag j does not go on with the span of tag i
    ends = torch.einsum("...nij,ij->...ni", from_before, no_more.to(dtype))
    last = (visits[..., -1:, :] > 0).to(dtype)  # the sequence ends
    # Beyond the length of an item nothing follows, and what was there ends.
    follows = visits[..., 1:, :].sum(-1, keepdim=True) > 0
    end = torch.cat([torch.where(follows, ends, (visits[..., :-1, :] > 0).to(dtype)), last], -2) * typed
    on = torch.cat([torch.zeros_like(pairs[..., :1, :, :]), from_before * (~no_more).to(dtype)], -3)
    at, real = members.clamp(min=0), (members >= 0).to(dtype)
    go_on = on[..., at.unsqueeze(-1), at.unsqueeze(-2)] * (real.unsqueeze(-1) * real.unsqueeze(-2))
    return begin[..., at] * real, go_on, end[..., at] * real, (visits[..., at] * real).sum(-1)


def _or_one(visits: Tensor) -> Tensor:
    """Returns a divisor that is 1 where a tag is never visited, so that nothing is divided by 0."""
    return torch.where(visits > 0, visits, 1)


def _mass(steps: list[Tensor], max_length: int) -> Tensor:
    """Computes the mass of every span. Transforms and forward mode differentiate the reference itself."""
    if routing.transforms_active() or routing.dual_level_active():
        return span_mass.reference(*steps, max_length=max_length)
    if routing.needs_grad(*steps):
        return _SpanMass.apply(max_length, *steps)
    return span_mass(*steps, max_length=max_length)


class _SpanMass(torch.autograd.Function):
    """Computes the mass of every span, with its gradient."""

    @staticmethod
    def forward(ctx: Any, max_length: int, begin: Tensor, go_on: Tensor, end: Tensor) -> Tensor:
        ctx.save_for_backward(begin, go_on, end)
        return span_mass(begin, go_on, end, max_length=max_length)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *span_mass_gradient(*ctx.saved_tensors, grad.contiguous()))
