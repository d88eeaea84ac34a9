"""Finds the number of an Ω in compiled programs."""

from __future__ import annotations

from torch import Tensor

from omegamax.kernels.structures.omega import Omega
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis

_OF_TYPE: dict[type[Regularizer], Omega] = {
    Hard: Omega.HARD,
    Shannon: Omega.SHANNON,
    SquaredNorm: Omega.SQUARED_NORM,
}
_OF_ALPHA = {1.0: Omega.SHANNON, 1.5: Omega.TSALLIS15, 2.0: Omega.SQUARED_NORM}


def compiled_omega(regularizer: Regularizer) -> Omega | None:
    """Returns the number of Ω in compiled programs, None if it is not compiled or its parameter is a tensor."""
    if isinstance(regularizer, Tsallis):
        return None if isinstance(regularizer.alpha, Tensor) else _OF_ALPHA.get(float(regularizer.alpha))
    return _OF_TYPE.get(type(regularizer))
