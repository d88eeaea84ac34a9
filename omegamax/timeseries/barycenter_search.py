"""The search for a mean of series under smoothed dynamic time warping, by L-BFGS-B of SciPy.

    argmin_z  Σ_k w_k dtw_Ω(z, x_k)                       w sums to 1
    argmin_z  Σ_k w_k dtw_Ω(z, x_k) − ½ dtw_Ω(z, z)       the same for the divergence

`omegamax.structures.barycenter` solves the first with PyTorch's optimizer, for any distance. Here the kernel is called
directly and SciPy's optimizer is compiled: k-means searches for many means of few short series, where the rest counts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from omegamax.kernels.soft_dtw import soft_dtw_of_points
from omegamax.kernels.structures.omega import Omega


class BarycenterResult(NamedTuple):
    """A mean of series, and how the search for it ended."""

    series: Tensor  # (length, channels), float64
    loss: float  # the objective there
    n_iter: int
    converged: bool  # whether the last iteration gained less than the tolerance


def search_barycenter(
    series: Tensor,
    lengths: Tensor,
    weights: Tensor,
    init: Tensor,
    *,
    gamma: float,
    omega: Omega,
    divergence: bool = False,
    max_iter: int = 100,
    tol: float = 1e-5,
) -> BarycenterResult:
    """Finds the mean of series (n, length, channels) with `lengths` (n,) and `weights` (n,), which need not sum to 1.

    Starts at `init` (length of the mean, channels) and stops when an iteration gains less than tol · max(1, objective).
    """
    from scipy.optimize import minimize

    shape = tuple(init.shape)
    used = weights > 0
    series, lengths = series[used].double().contiguous(), lengths[used]
    share = (weights[used] / weights[used].sum()).double()
    sizes = torch.stack([torch.full_like(lengths, shape[0]), lengths], 1).contiguous()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        z = torch.from_numpy(flat).reshape(1, *shape)
        values, gradient, _ = soft_dtw_of_points(
            z.expand(len(series), -1, -1), series, sizes, gamma, omega, True, False
        )
        assert gradient is not None
        value, slope = torch.dot(share, values), torch.tensordot(share, gradient, 1)
        if divergence:  # dtw(z, z) is symmetric, so its gradient is twice that of its first argument
            own, along, _ = soft_dtw_of_points(z, z.clone(), None, gamma, omega, True, False)
            assert along is not None
            value, slope = value - 0.5 * own[0], slope - along[0]
        return float(value), slope.reshape(-1).numpy()

    # 2.2e-16 · factr of the Fortran original: SciPy compares the gain with ftol · max(|before|, |after|, 1).
    options: dict[str, Any] = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": 0.0}
    found = minimize(objective, init.double().reshape(-1).numpy(), jac=True, method="L-BFGS-B", options=options)
    if not math.isfinite(float(found.fun)):
        raise ValueError(
            f"barycenter: the objective must be finite, got {float(found.fun)}; scale the series, for example to "
            "standard deviation 1"
        )
    return BarycenterResult(
        torch.from_numpy(np.array(found.x)).reshape(shape), float(found.fun), int(found.nit), found.status != 1
    )


def stretched_mean(series: Tensor, lengths: Tensor, weights: Tensor, length: int) -> Tensor:
    """Returns the weighted mean (length, channels) of series (n, longest, channels), each stretched to one length."""
    share = (weights / weights.sum()).double()
    if bool((lengths == length).all()):
        return torch.tensordot(share, series[:, :length].double(), 1)
    total = series.new_zeros(length, series.shape[-1], dtype=torch.float64)
    for weight, one, n in zip(share.tolist(), series, lengths.tolist()):
        if weight > 0:
            wide = one[:n].double().mT[None]
            total += weight * interpolate(wide, length, mode="linear", align_corners=True)[0].mT
    return total
