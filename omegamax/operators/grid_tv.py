"""The squared norm with total variation on a grid: fusedmax in two dimensions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels.sparsemax import sparsemax
from omegamax.operators.grid_denoise import Denoised, component_mean, denoise_grid, neighbours
from omegamax.operators.operator import Operator
from omegamax.operators.solution import Slope, Solution


@dataclass(frozen=True, eq=False)
class GridTV(Operator):
    """Ω(p) = ½(‖p‖² − 1) + strength · TV(p) on a grid. Its argmax gives equal weight to whole regions of an image.

        TV(p) = Σ |p_{i,j+1} − p_{ij}| + Σ |p_{i+1,j} − p_{ij}|          p ≥ 0, Σ p = 1 over the grid

    Scores (..., H, W) give weights of the same shape and a value (...). A masked cell is taken out of the grid: the
    cells on either side of it, in its row and in its column, become adjacent, so a grid of one row is `Fused`. With
    `lengths`, a length counts columns. `strength` may be a tensor, one per grid, of shape (..., 1, 1).

    argmax(θ) = sparsemax(prox_TV(θ)), as for `Fused`: the projection keeps the order of neighbours. The prox is solved
    in double precision to a certified duality gap, and its components are exact; stopping at `max_iter` warns.

    >>> GridTV(strength=0.3).argmax(torch.tensor([[1.0, 0.8, 0.0], [0.9, 0.7, 0.0]]))
    tensor([[0.2500, 0.2500, 0.0000],
            [0.2500, 0.2500, 0.0000]])
    """

    strength: float | Tensor = 0.1
    max_iter: int = 10_000

    event_ndim: ClassVar[int] = 2
    sums_to_one: ClassVar[bool] = True
    learnable: ClassVar[str | None] = "strength"

    def __post_init__(self) -> None:
        checks.check_strength("GridTV", self.strength)
        if not isinstance(self.max_iter, int) or self.max_iter < 1:
            raise ValueError(f"GridTV: max_iter must be a positive int, got {self.max_iter}; 10000 is ample")

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1) + strength · TV(p)."""
        jumps = weights.diff(dim=-1).abs().sum((-2, -1)) + weights.diff(dim=-2).abs().sum((-2, -1))
        return self._omega(weights, jumps)

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """Computes Ω(p) where the cells on either side of a removed one are adjacent."""
        return self._omega(weights, variation(weights, removed).omega.squeeze(-1).squeeze(-1))

    def _omega(self, weights: Tensor, jumps: Tensor) -> Tensor:
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim() > 0:
            strength = strength.squeeze(-1).squeeze(-1)
        return 0.5 * (weights.square().sum((-2, -1)) - 1) + strength * jumps

    def solve(self, scores: Tensor) -> Solution:
        """Computes the total-variation prox on the grid, then projects it onto the simplex."""
        scores = scores.detach()
        rows, columns = scores.shape[-2:]
        if scores.numel() == 0:
            value = scores.new_full(scores.shape[:-2], -torch.inf)
            return Solution(scores, value, (scores, torch.full_like(scores, -1, dtype=torch.int64)))
        x = scores.reshape(-1, rows, columns).double()
        strength = self._per_grid(scores)
        top = x.amax((-2, -1), keepdim=True)
        empty = top.flatten() == -torch.inf
        invalid = ~((strength >= 0) & strength.isfinite()) | ~(top.isfinite().flatten() | empty)
        kept = (x > -torch.inf) & ~(invalid | empty)[:, None, None]
        strength = torch.where(invalid, 0, strength)
        # The four edges of a cell move it by at most 4 strength, and so they move the largest. A cell that is more than
        # 1 + 8 strength below the top has no weight, so a nearer number may stand for it, which keeps sums accurate.
        shifted = torch.where(kept, (x - top).clamp(min=-(2 + 8 * strength[:, None, None])), 0)
        denoise = self._denoise
        if "torch._dynamo" in sys.modules:  # breaks the graph, because the loops depend on the data
            denoise = torch.compiler.disable(self._denoise)
        denoised = denoise(shifted, kept, strength)
        weights, value = sparsemax(torch.where(kept, denoised.values, -torch.inf).flatten(-2))
        # x − y is a subgradient of the penalty at p, as in `fusedmax`, so the value for y is already the one sought.
        weights = torch.where(invalid[:, None], torch.nan, weights).reshape(scores.shape).to(scores.dtype)
        value = torch.where(invalid, torch.nan, top.flatten() + torch.where(empty, 0, value))
        value = value.reshape(scores.shape[:-2]).to(scores.dtype)
        return Solution(weights, value, (weights, denoised.labels.reshape(scores.shape)))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages the direction over each region of the support, then centres it on the support."""
        weights, labels = certificate
        p, v = torch.broadcast_tensors(weights.flatten(-2), direction.flatten(-2))
        support = p != 0  # NaN grids stay NaN
        inside = torch.where(support, v, 0)
        # A region is supported whole or not at all; cells without weight go to a place of their own.
        places = torch.where(support, labels.flatten(-2), p.shape[-1])
        mean = component_mean(inside, places, p.shape[-1] + 1)
        centre = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
        return (torch.where(support, mean - centre, 0) + 0 * p).unflatten(-1, weights.shape[-2:])

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """TV(p) and its subgradient, on the grid without its masked cells."""
        weights, labels = certificate
        return (variation(weights, labels < 0),)

    def check_fit(self, scores: Tensor) -> None:
        """Checks that the scores have two axes for the grid, and that there is one strength, or one per grid."""
        if scores.dim() < 2:
            raise ValueError(
                f"GridTV: scores must have two axes for the grid, (..., H, W), got shape {tuple(scores.shape)}; "
                "use Fused for a row"
            )
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim() > 0:
            padded = (1,) * (scores.dim() - strength.dim()) + tuple(strength.shape)
            allowed = (*scores.shape[:-2], 1, 1)
            if len(padded) != scores.dim() or any(a not in (1, b) for a, b in zip(padded, allowed)):
                raise ValueError(
                    f"GridTV: strength must broadcast against scores {tuple(scores.shape)} with size 1 along the grid, "
                    f"got {tuple(strength.shape)}; for one strength per grid of (batch, H, W) give it (batch, 1, 1)"
                )

    def _per_grid(self, scores: Tensor) -> Tensor:
        """Returns the strength of each grid of the flattened batch, in double precision."""
        strength = torch.as_tensor(self.strength, dtype=torch.float64, device=scores.device).detach()
        if strength.dim() > 0:
            strength = strength.squeeze(-1).squeeze(-1)
        return strength.expand(scores.shape[:-2]).reshape(-1)

    def _denoise(self, x: Tensor, kept: Tensor, strength: Tensor) -> Denoised:
        denoised = denoise_grid(x, kept, strength, max_iter=self.max_iter)
        gap, tolerance = denoised.gap, denoised.tolerance
        late = gap > tolerance
        if bool(late.any()):
            worst = (gap - tolerance).argmax()
            checks.warn(
                f"GridTV: {int(late.sum())} of {late.numel()} grids stopped after {self.max_iter} iterations with a "
                f"duality gap of {gap[worst].item():.2e} (tolerance {tolerance[worst].item():.2e}); raise max_iter",
            )
        return denoised


def variation(weights: Tensor, removed: Tensor) -> Slope:
    """Computes the total variation of what is left after removing cells, and its subgradient D' sign(D p)."""
    edges = neighbours(~removed.expand(weights.shape))
    jump = edges.jump(weights.flatten(-2))
    size = jump.abs().sum((-2, -1))[..., None, None]
    return Slope(size, edges.spread(jump.sign()).unflatten(-1, weights.shape[-2:]))
