"""Random scores on which statements are checked, and finite differences with which formulas are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Draws normal numbers in double precision, the same every time."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator)


def on_simplex(n: int, d: int, seed: int = 0) -> Tensor:
    """Draws points uniformly from the simplex, (n, d)."""
    generator = torch.Generator().manual_seed(seed)
    gaps = -torch.rand(n, d, dtype=torch.float64, generator=generator).log()
    return gaps / gaps.sum(-1, keepdim=True)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Returns a context in which layers always get the same parameters; the caller's random state does not change."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        yield


def differences(function: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-6) -> Tensor:
    """Computes the Jacobian [i, j] = ∂function_i/∂x_j of one row by central differences."""
    moves = step * torch.eye(x.numel(), dtype=x.dtype)
    columns = [(function(x + move) - function(x - move)) / (2 * step) for move in moves]
    return torch.stack(columns, -1)


def largest(difference: Tensor) -> float:
    """Returns the largest absolute entry."""
    return float(difference.detach().abs().max()) if difference.numel() else 0.0


def far_from_kinks(function: Callable[[Tensor], Tensor], rows: Tensor, step: float = 1e-5) -> list[Tensor]:
    """Returns the rows around which support and groups do not change, so that the function is differentiable there."""
    kept = []
    for row in rows:
        here = function(row)
        nearby = [function(row + sign * move) for move in step * torch.eye(row.numel()).to(row) for sign in (1, -1)]
        if all(torch.equal(_pattern(other), _pattern(here)) for other in nearby):
            kept.append(row)
    return kept


def _pattern(row: Tensor) -> Tensor:
    """Encodes the signs of a row, and which of its entries are equal in size."""
    size = row.abs()
    return torch.cat([row.sign(), (size.unsqueeze(-1) == size).flatten().to(row)])
