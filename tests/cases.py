"""THE TABLE: one row per operator, with what the laws need to know about it.

A row builds its regularizer for given positions, so that taking a position out of a row (which a mask must equal) is
the same row built for the others. `omega` is Ω once more in numpy, from the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om


@dataclass(frozen=True, eq=False)
class Case:
    name: str  # a readable id
    registered: str  # the name in omegamax.registry
    build: Callable[..., om.SmoothMax]  # (**options) -> regularizer
    functional: Callable[..., Tensor]
    module: Callable[..., torch.nn.Module]
    omega: Callable[..., float]  # (p, positions) -> Ω(p), numpy
    options: dict[str, Any]
    learnable: str | None = None  # the option that may be a tensor
    symmetric: bool = True
    sparse: bool = True
    quadratic: bool = False  # ½(‖p‖² − 1) plus a penalty that is linear between kinks
    hessian: Callable[[np.ndarray, Sequence[int]], np.ndarray] | None = None  # ∇²Ω at positive weights, numpy
    grouped: bool = False
    exported: bool = True  # to ONNX
    compiled: bool = True
    half_window: float = 1.0  # scores this far below the top surely get no weight (sparse ones)

    def __str__(self) -> str:
        return self.name

    def arguments(self, positions: int | Sequence[int], **changed: Any) -> dict[str, Any]:
        """The keyword arguments of this row's functional."""
        options = {**self.options, **changed}
        if self.grouped:
            options["groups"] = groups_of(positions)
        return options

    def regularizer(self, positions: int | Sequence[int], **changed: Any) -> om.SmoothMax:
        return self.build(**self.arguments(positions, **changed))

    def __call__(self, scores: Tensor, dim: int = -1, **keywords: Any) -> Tensor:
        return self.functional(scores, dim, **self.arguments(scores.shape[dim]), **keywords)

    def numpy_omega(self, p: np.ndarray, positions: Sequence[int] | None = None) -> float:
        return self.omega(np.asarray(p, dtype=np.float64), range(len(p)) if positions is None else positions)


def groups_of(positions: int | Sequence[int]) -> list[int]:
    """Neighbours in twos, by their number in the whole row."""
    return [i // 2 for i in (range(positions) if isinstance(positions, int) else positions)]


# ---------------------------------------------------------------- Ω and its Hessian in numpy


def shannon(p, _):
    return sum(w * np.log(w) for w in p if w > 0)


def tsallis(alpha):
    return lambda p, _: ((p**alpha).sum() - 1) / (alpha * (alpha - 1))


def half_square(p, _):
    return 0.5 * ((p**2).sum() - 1)


def square_pnorm(order):
    return lambda p, _: 0.5 * ((p**order).sum() ** (2 / order) - 1)


def fused(strength):
    return lambda p, _: half_square(p, _) + strength * np.abs(np.diff(p)).sum()


def oscar(strength):
    def omega(p, _):
        return half_square(p, _) + strength * sum(max(p[i], p[j]) for i in range(len(p)) for j in range(i))

    return omega


def group_lasso(strength):
    def omega(p, positions):
        labels = np.array(groups_of(positions))
        return half_square(p, positions) + strength * sum(np.linalg.norm(p[labels == g]) for g in set(labels))

    return omega


def group_hessian(strength):
    def hessian(p, positions):
        labels = np.array(groups_of(positions))
        same = labels[:, None] == labels[None, :]
        norm = np.array([np.linalg.norm(p[labels == g]) for g in labels])
        return np.eye(len(p)) * (1 + strength / norm) - strength * same * np.outer(p, p) / norm[:, None] ** 3

    return hessian


def pnorm_hessian(order):
    def hessian(p, _):
        norm = (p**order).sum() ** (1 / order)
        slope = p ** (order - 1)
        rank_one = (2 - order) * norm ** (2 - 2 * order) * np.outer(slope, slope)
        return rank_one + (order - 1) * norm ** (2 - order) * np.diag(p ** (order - 2))

    return hessian


def power_hessian(alpha):
    return lambda p, _: np.diag(p ** (alpha - 2))


# ---------------------------------------------------------------- the rows


def _entmax(alpha: float) -> Case:
    return Case(
        f"entmax({alpha})", "entmax", om.Tsallis, om.entmax, om.Entmax, tsallis(alpha), {"alpha": alpha},
        learnable="alpha", hessian=power_hessian(alpha), half_window=1 / (alpha - 1),
    )  # fmt: skip


def _pnorm(order: float) -> Case:
    return Case(
        f"sqpnormmax({order})", "sqpnormmax", om.SquaredPNorm, om.sqpnormmax, om.SqPNormMax, square_pnorm(order),
        {"p": order}, hessian=pnorm_hessian(order),
    )  # fmt: skip


def _fused(strength: float) -> Case:
    return Case(
        f"fusedmax({strength})", "fusedmax", om.Fused, om.fusedmax, om.Fusedmax, fused(strength),
        {"strength": strength}, learnable="strength", symmetric=False, quadratic=True, exported=False,
        half_window=1 + 4 * strength,
    )  # fmt: skip


def _oscar(strength: float) -> Case:
    return Case(
        f"oscarmax({strength})", "oscarmax", om.Oscar, om.oscarmax, om.Oscarmax, oscar(strength),
        {"strength": strength}, learnable="strength", quadratic=True, half_window=10 + 100 * strength,
    )  # fmt: skip


def _group(strength: float) -> Case:
    return Case(
        f"groupmax({strength})", "groupmax", om.GroupLasso, om.groupmax, om.Groupmax, group_lasso(strength),
        {"strength": strength}, learnable="strength", symmetric=False, grouped=True, hessian=group_hessian(strength),
        exported=False, half_window=1 + strength,
    )  # fmt: skip


HARD = Case("hardmax", "hardmax", om.Hard, om.hardmax, om.Hardmax, lambda p, _: 0.0, {}, half_window=1e-9)
SOFTMAX = Case(
    "softmax", "softmax", om.Shannon, om.softmax, om.Softmax, shannon, {}, sparse=False, hessian=power_hessian(1)
)
SPARSEMAX = Case(
    "sparsemax", "sparsemax", om.SquaredNorm, om.sparsemax, om.Sparsemax, half_square, {},
    quadratic=True, hessian=power_hessian(2),
)  # fmt: skip
ENTMAX15 = Case(
    "entmax15", "entmax15", lambda: om.Tsallis(1.5), om.entmax15, om.Entmax15, tsallis(1.5), {},
    hessian=power_hessian(1.5), half_window=2.0,
)  # fmt: skip
ENTMAX13, ENTMAX3 = _entmax(1.3), _entmax(3.0)
PNORM = _pnorm(1.5)
FUSED, OSCAR, GROUP = _fused(0.1), _oscar(0.05), _group(0.2)

CASES = [HARD, SOFTMAX, SPARSEMAX, ENTMAX15, ENTMAX13, ENTMAX3, PNORM, _pnorm(1.2), FUSED, _fused(0.7), OSCAR, GROUP]
SMOOTH = [case for case in CASES if case is not HARD]  # with a derivative worth the name
ONE_EACH = [HARD, SOFTMAX, SPARSEMAX, ENTMAX15, ENTMAX13, PNORM, FUSED, OSCAR, GROUP]  # where a test is slow
LEARNABLE = [ENTMAX13, ENTMAX3, FUSED, OSCAR, GROUP]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return (scale * torch.randn(*shape, generator=generator(seed), dtype=torch.float64)).to(dtype)


def smooth_scores(case: Case, rows: int, columns: int, *, seed: int = 0, reach: float = 2e-3, **changed: Any) -> Tensor:
    """Rows that stay away from kinks: no move of one score by `reach` changes which weights are zero or equal."""
    smooth = case.regularizer(columns, **changed)
    moves = reach * torch.cat([torch.zeros(1, columns), torch.eye(columns), -torch.eye(columns)]).double()
    found, attempt = [], 0
    while len(found) < rows:
        row = normal(columns, seed=1000 * seed + attempt, scale=0.6)
        attempt += 1
        assert attempt < 1000, f"no smooth scores for {case}"
        weights = smooth.argmax(row + moves)
        pattern = torch.cat([weights > 0, _equal(weights).flatten(-2)], -1)
        apart = weights[0][weights[0] > 0].min() > 0.02 or case is HARD
        if bool((pattern == pattern[0]).all()) and apart:
            found.append(row)
    return torch.stack(found)


def _equal(weights: Tensor) -> Tensor:
    return (weights.unsqueeze(-1) - weights.unsqueeze(-2)).abs() < 1e-7
