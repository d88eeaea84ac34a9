"""Ω = 0: the plain maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True)
class Hard(Regularizer):
    """Ω(p) = 0. Its max is the maximum, its argmax the corner of the simplex with the largest score.

    Ties go to the lowest index. The argmax is piecewise constant: its derivative is zero wherever it exists.
    """

    zero_at_corners: ClassVar[bool] = True

    def omega(self, weights: Tensor) -> Tensor:
        """Zero."""
        return torch.zeros_like(weights[..., 0]) if weights.shape[-1] else weights.sum(-1)

    def solve(self, scores: Tensor) -> Solution:
        """One-hot rows."""
        if scores.shape[-1] == 0:
            weights = torch.zeros_like(scores)
            return Solution(weights, scores.new_full(scores.shape[:-1], -torch.inf), (weights,))
        value, index = scores.max(-1)
        undefined = value.isnan() | (value == torch.inf)
        top = (value > -torch.inf).to(scores.dtype).unsqueeze(-1)  # 0 where nothing is allowed
        weights = torch.zeros_like(scores).scatter_(-1, index.unsqueeze(-1), top)
        weights.masked_fill_(
            undefined.unsqueeze(-1), torch.nan
        )  # in place: rows of attention are long, copies are dear
        value = value.masked_fill(undefined, torch.nan)
        return Solution(weights, value, (weights,))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Zero: the argmax does not move (NaN rows stay NaN)."""
        return 0 * certificate[0] + torch.zeros_like(direction)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The same solver: it has no loop."""
        return self.solve(scores)
