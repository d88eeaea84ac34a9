"""The mean of time series under soft-DTW.

    argmin_z  Σ_k w_k soft_dtw(z, x_k),    w normalised to sum 1

Series may have different lengths, and z its own. The objective is smooth and not convex: it is minimised by L-BFGS with
a strong Wolfe line search from `init`, so the result is deterministic, and a local minimum. Cuturi & Blondel,
"Soft-DTW: a differentiable loss function for time-series", ICML 2017, weigh by λ_k / n_k; pass these as `weights` to
get their mean.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from omegamax import checks
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.problem import computed_in
from omegamax.structures.soft_dtw import Distance, soft_dtw, squared_euclidean

_WHO = "soft_dtw_barycenter"
_SHANNON = Shannon()


class Barycenter(NamedTuple):
    """A mean of series, and a record of the search for it."""

    series: Tensor  # (length, D)
    losses: Tensor  # (iterations + 1,): the objective, first at `init`
    converged: bool  # whether the last iteration gained less than the tolerance


@torch.inference_mode(False)  # the search differentiates, also when called in inference mode
def soft_dtw_barycenter(
    series: Tensor | Sequence[Tensor],
    weights: Tensor | Sequence[float] | None = None,
    gamma: float = 1.0,
    *,
    init: Tensor | None = None,
    length: int | None = None,
    lengths: Tensor | None = None,
    max_iter: int = 100,
    tol: float = 1e-5,
    distance: Distance = squared_euclidean,
    regularizer: SmoothMax = _SHANNON,
) -> Barycenter:
    """Finds the weighted soft-DTW mean of series: a list of (N_k, D), or a tensor (K, N, D) with `lengths` (K,).

    It has `length` steps (default: the longest of the series) and starts at `init` (length, D), by default the mean of
    the series stretched to that length. Stops when an iteration gains less than tol · max(1, |objective|), and warns if
    `max_iter` comes first. `weights` are K non-negative numbers, equal by default.

    Arguments:
        series: what is averaged
        weights: how much each counts
        gamma: the temperature
        init: where to start
        length: of the mean
        lengths: of the series, where they are one tensor
        max_iter: how many steps are taken at most
        tol: the relative gain to stop at
        distance: costs of cells
        regularizer: Ω of the recursion

    >>> x = torch.tensor([[0.0], [0.0], [1.0], [0.0]])
    >>> found = soft_dtw_barycenter([x, x[1:], x[[0, 1, 2, 2, 3]]], gamma=0.01, length=4)
    >>> found.series.flatten().round(decimals=2) + 0
    tensor([0., 0., 1., 0.])
    """
    checks.check_count(_WHO, "max_iter", max_iter)
    checks.check_gap(_WHO, "tol", tol)
    each = _read(series, lengths)
    wide = computed_in(each[0].dtype)
    padded = torch.nn.utils.rnn.pad_sequence([one.detach().to(wide) for one in each], batch_first=True)
    sizes = torch.tensor([len(one) for one in each])
    share = _shares(weights, padded)
    start = _start(each, share, init, length).to(padded)
    z = start.clone().requires_grad_()
    own = torch.full_like(sizes, len(start))

    def objective() -> Tensor:
        costs = soft_dtw(
            z.expand(len(each), *z.shape),
            padded,
            gamma,
            distance=distance,
            lengths=(own, sizes),
            regularizer=regularizer,
        )
        return (share * costs).sum()

    losses, converged = _minimise(objective, z, max_iter, tol)
    if not converged:
        gain = float(losses[-2] - losses[-1])
        checks.warn(
            f"{_WHO}: stopped after {len(losses) - 1} iterations, the last of which gained {gain:.2e} (tolerance "
            f"{tol * max(1.0, abs(float(losses[-1]))):.2e}); raise max_iter or tol",
        )
    return Barycenter(z.detach().to(each[0].dtype), losses, converged)


def _minimise(objective: Callable[[], Tensor], z: Tensor, max_iter: int, tol: float) -> tuple[Tensor, bool]:
    """Runs L-BFGS one iteration at a time, so that each is recorded."""
    optimizer = torch.optim.LBFGS([z], max_iter=1, max_eval=30, history_size=10, line_search_fn="strong_wolfe")
    evaluation = _Evaluation(objective, z)
    with torch.enable_grad():
        losses = [evaluation()]
        if not bool(losses[0].isfinite()):
            raise ValueError(
                f"{_WHO}: the objective must be finite at the start, got {float(losses[0])}; look for NaN and inf in "
                "the series and in init"
            )
        best = z.detach().clone()
        for _ in range(max_iter):
            optimizer.step(evaluation)  # type: ignore[arg-type]
            losses.append(evaluation())
            gain = float(losses[-2] - losses[-1])
            if not gain > tol * max(1.0, abs(float(losses[-1]))):
                if gain < 0:  # a line search that found nothing better
                    z.data.copy_(best)
                    losses[-1] = losses[-2]
                return torch.stack(losses), not math.isnan(gain)
            best.copy_(z.detach())
    return torch.stack(losses), False


class _Evaluation:
    """The objective and its gradient, computed once for each point.

    An iteration of L-BFGS asks again for points of the line search before it, and so do we.
    """

    def __init__(self, objective: Callable[[], Tensor], z: Tensor) -> None:
        self._objective, self._z = objective, z
        self._known: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=8)  # points, losses, gradients

    def __call__(self) -> Tensor:
        for point, loss, gradient in reversed(self._known):
            if torch.equal(point, self._z.detach()):
                self._z.grad = gradient.clone()
                return loss
        with torch.enable_grad():
            loss = self._objective()
            (gradient,) = torch.autograd.grad(loss, self._z)
        self._known.append((self._z.detach().clone(), loss.detach(), gradient))
        self._z.grad = gradient.clone()
        return loss.detach()


def _read(series: Any, lengths: Any) -> list[Tensor]:
    """Returns the series, each in its own length."""
    if isinstance(series, Tensor):
        checks.check_event(_WHO, "series", series, (None, None, None), "(K, N, D)")
        if series.dim() != 3:
            raise ValueError(f"{_WHO}: series must be (K, N, D), got {tuple(series.shape)}; or give a list of (N_k, D)")
        found = checks.check_structure_lengths(_WHO, (series.shape[0],), lengths, (series.shape[1],))
        return [one[:n] for one, n in zip(series, found[0].tolist())]
    each = list(series)
    if not each or lengths is not None:
        raise ValueError(
            f"{_WHO}: series must be a list of at least one (N_k, D), which have their own lengths, or a Tensor with "
            f"lengths, got {len(each)} and lengths {lengths}; leave lengths out for a list"
        )
    for one in each:
        width = each[0].shape[-1] if isinstance(each[0], Tensor) and each[0].dim() == 2 else None
        checks.check_event(_WHO, "each of the series", one, (None, width), f"(N_k, {'D' if width is None else width})")
        if one.dim() != 2 or one.dtype != each[0].dtype:
            raise ValueError(
                f"{_WHO}: each of the series must be (N_k, D) and of one dtype, got {tuple(one.shape)} of {one.dtype}; "
                "use unsqueeze(-1) for series of numbers"
            )
    return each


def _shares(weights: Any, padded: Tensor) -> Tensor:
    """Returns weights that sum to one."""
    if weights is None:
        return padded.new_full((len(padded),), 1 / len(padded))
    found = torch.as_tensor(weights).detach().to(padded)
    if tuple(found.shape) != (len(padded),) or not bool((found >= 0).all()) or not 0 < float(found.sum()) < torch.inf:
        raise ValueError(
            f"{_WHO}: weights must be {len(padded)} non-negative numbers, not all zero, got {found.tolist()}; leave "
            "them out for equal ones"
        )
    return found / found.sum()


def _start(each: list[Tensor], share: Tensor, init: Tensor | None, length: int | None) -> Tensor:
    """Returns the given start, or the mean of the stretched series."""
    width = each[0].shape[-1]
    if init is not None:
        checks.check_event(_WHO, "init", init, (length, width), f"({'length' if length is None else length}, {width})")
        return init.detach()
    length = max(len(one) for one in each) if length is None else length
    checks.check_count(_WHO, "length", length)
    stretched = [
        interpolate(one.detach().to(share).mT[None], length, mode="linear", align_corners=True) for one in each
    ]
    return (share[:, None, None] * torch.cat(stretched)).sum(0).mT.contiguous()
