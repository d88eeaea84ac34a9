"""Entropic optimal transport as a smoothed maximum, for losses and attention.

    maximise  <P, θ> − γ Σ P log P   over the polytope of matchings

The polytope is that of `Matching`, and Ω looks at averages of matchings only: P is a transport plan, *not* the
marginals of the distribution p(y) ∝ exp <y, θ> / γ over matchings, which are #P-hard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.smoothmax import SmoothMax, ValueAndWeights
from omegamax.structures.matching import Matching, NullableScores
from omegamax.structures.transport import ATOL, MAX_ITER, check_transport, transport_plan


@dataclass(frozen=True, eq=False)
class Sinkhorn(SmoothMax):
    """Entropic optimal transport over matchings (..., R, C): `Matching.sinkhorn` and its value as one object.

    Weights and value differentiate twice, exactly: through the system that a change of the plan solves. `gamma` may be
    a learnable tensor of one number.

    Arguments:
        gamma: the temperature
        max_iter: how many rounds are run at most
        atol: how far row and column sums may be off

    >>> Sinkhorn().argmax(torch.eye(2)).round(decimals=3)
    tensor([[0.7310, 0.2690],
            [0.2690, 0.7310]])
    """

    gamma: float | Tensor = 1.0
    max_iter: int = MAX_ITER
    atol: float = ATOL

    event_ndim = 2

    def __post_init__(self) -> None:
        check_transport("Sinkhorn", self.gamma, self.max_iter, self.atol)

    @property
    def structure(self) -> Matching:
        """The structure whose polytope this is: losses take matchings as targets."""
        return Matching()

    def max(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> Tensor:
        """Returns the value of the plan, one number per item; its gradient is the plan."""
        problem = self.structure.bind(scores, lengths, mask)
        return problem.per_item(transport_plan(problem, self.gamma, self.max_iter, self.atol).value)

    def argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> Any:
        """Returns the plan, shaped as the scores."""
        problem = self.structure.bind(scores, lengths, mask)
        return problem.in_user_shape(transport_plan(problem, self.gamma, self.max_iter, self.atol).parts)

    def max_and_argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> ValueAndWeights:
        problem = self.structure.bind(scores, lengths, mask)
        found = transport_plan(problem, self.gamma, self.max_iter, self.atol)
        return ValueAndWeights(problem.per_item(found.value), problem.in_user_shape(found.parts))

    def omega(self, weights: Any, *, lengths: Any = None) -> Tensor:
        """Computes γ Σ P log P, zero at a matching and beyond the lengths."""
        parts = weights if isinstance(weights, NullableScores) else (weights,)
        events = ((-1, -2), -1, -1)
        total = sum(torch.special.xlogy(part, part).sum(axes) for part, axes in zip(parts, events))
        return (self.gamma.reshape(()) if isinstance(self.gamma, Tensor) else self.gamma) * total
