"""THE TABLE: one row per operator, with what the laws need to know about it.

A row builds its regularizer for given positions, so that taking a position out of a row (which a mask must equal) is
the same row built for the others. `omega` is Ω once more in numpy, from the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om
from omegamax import operator_table as table
from omegamax import registry
from omegamax.operator_table import OperatorFacts


@dataclass(frozen=True, eq=False)
class Case:
    name: str  # a readable id
    facts: OperatorFacts
    omega: Callable[..., float]  # (p, positions) -> Ω(p), numpy
    options: dict[str, Any]
    quadratic: bool = False  # ½(‖p‖² − 1) plus a penalty that is linear between kinks
    hessian: Callable[[np.ndarray, Sequence[int]], np.ndarray] | None = None  # ∇²Ω at positive weights, numpy
    compiled: bool = True
    half_window: float = 1.0  # scores this far below the top surely get no weight (sparse ones)

    @property
    def registered(self) -> str:
        return self.facts.function

    @property
    def functional(self) -> Callable[..., Tensor]:
        return getattr(om, self.facts.function)

    @property
    def module(self) -> Callable[..., torch.nn.Module]:
        return getattr(om, self.facts.layer)

    @property
    def build(self) -> Callable[..., om.SmoothMax]:
        """(**options) -> regularizer"""
        return partial(registry.regularizer, self.facts.function)

    @property
    def learnable(self) -> str | None:
        """The option that may be a tensor."""
        parameter = self.facts.parameter
        return parameter.name if self.facts.options and parameter.may_be_tensor else None

    @property
    def symmetric(self) -> bool:
        return self.facts.symmetric

    @property
    def sparse(self) -> bool:
        return self.facts.sparse

    @property
    def grouped(self) -> bool:
        return self.facts.grouped

    @property
    def exported(self) -> bool:
        """Whether it is exported to ONNX."""
        return self.facts.exports

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


def norm(alpha):
    return lambda p, _: (p**alpha).sum() ** (1 / alpha) - 1


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


def norm_hessian(alpha):
    def hessian(p, _):
        norm = (p**alpha).sum() ** (1 / alpha)
        r = p / norm
        return (alpha - 1) / norm * (np.diag(r ** (alpha - 2)) - np.outer(r ** (alpha - 1), r ** (alpha - 1)))

    return hessian


def power_hessian(alpha):
    return lambda p, _: np.diag(p ** (alpha - 2))


# ---------------------------------------------------------------- the rows


def _entmax(alpha: float) -> Case:
    return Case(
        f"entmax({alpha})", table.ENTMAX, tsallis(alpha), {"alpha": alpha}, hessian=power_hessian(alpha),
        half_window=1 / (alpha - 1),
    )  # fmt: skip


def _pnorm(order: float) -> Case:
    return Case(
        f"sqpnormmax({order})", table.SQPNORMMAX, square_pnorm(order), {"p": order}, hessian=pnorm_hessian(order)
    )


def _norm(alpha: float) -> Case:
    return Case(f"normmax({alpha})", table.NORMMAX, norm(alpha), {"alpha": alpha}, hessian=norm_hessian(alpha))


def _fused(strength: float) -> Case:
    return Case(
        f"fusedmax({strength})", table.FUSEDMAX, fused(strength), {"strength": strength}, quadratic=True,
        half_window=1 + 4 * strength,
    )  # fmt: skip


def _oscar(strength: float) -> Case:
    return Case(
        f"oscarmax({strength})", table.OSCARMAX, oscar(strength), {"strength": strength}, quadratic=True,
        half_window=10 + 100 * strength,
    )  # fmt: skip


def _group(strength: float) -> Case:
    return Case(
        f"groupmax({strength})", table.GROUPMAX, group_lasso(strength), {"strength": strength},
        hessian=group_hessian(strength), half_window=1 + strength,
    )  # fmt: skip


HARD = Case("hardmax", table.HARDMAX, lambda p, _: 0.0, {}, half_window=1e-9)
SOFTMAX = Case("softmax", table.SOFTMAX, shannon, {}, hessian=power_hessian(1))
SPARSEMAX = Case("sparsemax", table.SPARSEMAX, half_square, {}, quadratic=True, hessian=power_hessian(2))
ENTMAX15 = Case("entmax15", table.ENTMAX15, tsallis(1.5), {}, hessian=power_hessian(1.5), half_window=2.0)
ENTMAX13, ENTMAX3 = _entmax(1.3), _entmax(3.0)
PNORM, NORM = _pnorm(1.5), _norm(2.0)
FUSED, OSCAR, GROUP = _fused(0.1), _oscar(0.05), _group(0.2)

CASES = [
    HARD,
    SOFTMAX,
    SPARSEMAX,
    ENTMAX15,
    ENTMAX13,
    ENTMAX3,
    PNORM,
    _pnorm(1.2),
    NORM,
    _norm(1.3),
    _norm(5.0),
    FUSED,
    _fused(0.7),
    OSCAR,
    GROUP,
]
SMOOTH = [case for case in CASES if case is not HARD]  # with a derivative worth the name
ONE_EACH = [HARD, SOFTMAX, SPARSEMAX, ENTMAX15, ENTMAX13, PNORM, NORM, FUSED, OSCAR, GROUP]  # where a test is slow
LEARNABLE = [case for case in CASES if case.learnable and case.name != "fusedmax(0.7)"]


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
