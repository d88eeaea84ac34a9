"""What the laws of structures share: which regularizers they take, and how results are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import omegamax as om
from structure_cases import CASES, like, parts_of

REGULARIZERS = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)]
OTHERS = [om.SquaredPNorm(1.5), om.NormEntropy(2.0), om.Oscar(0.05), om.Tsallis(1.2), om.Scaled(om.SquaredNorm(), 0.5)]

structures = pytest.mark.parametrize("case", CASES, ids=str)
regularizers = pytest.mark.parametrize("omega", REGULARIZERS, ids=lambda omega: type(omega).__name__)


def names(omega):
    return type(omega).__name__


def scaled(case, scale, seed=0):
    """Potentials times a number; −inf stays."""
    potentials = case.potentials(seed)
    return like(potentials, [torch.where(p == -torch.inf, p, scale * p) for p in parts_of(potentials)])


def numpy_parts(potentials, item):
    return tuple(part[item].detach().numpy() for part in parts_of(potentials))


def members(case, potentials, item):
    return case.members(numpy_parts(potentials, item), *case.lengths[item])


def dot(parts, others):
    """<parts, others>, where 0 · −inf is 0."""
    return sum(float((a[a != 0] * b[a != 0]).sum()) for a, b in zip(parts, others))


def smooth_max_of(omega):
    return lambda numbers: float(omega.max(torch.tensor(numbers, dtype=torch.float64)))


def listed(structures, item):
    """The structures of one item of `topk`, `support` or `enumerate`, as tuples of numpy arrays."""
    stacked = [part[item].numpy() for part in parts_of(structures)]
    return list(zip(*stacked))


def key(structure):
    return b"".join(np.asarray(part, dtype=np.float64).tobytes() for part in structure)


def leaves(potentials):
    return tuple(part.detach().clone().requires_grad_() for part in parts_of(potentials))
