"""The `entmax` package (version 1.3): the same functions, layers and losses, solved exactly instead of by bisection.

Replace `from entmax import ...` by `from omegamax.compat.entmax import ...`. What differs, always for the better:

- `k` and `n_iter` are accepted and not needed: solvers are exact. Weights always sum to one, so `ensure_sum_one` too.
- `entmax_bisect` at α = 1 is softmax, and near 1 its value and its gradient in α are exact; there the package gives
  equal weights, or noise. An α below 1 raises; the package gives numbers there that it does not promise.
- Gradients can be differentiated again; the package's second derivatives are wrong or raise.
- α learns in `normmax_bisect` and in the losses too, and the budget learns; the package gives no gradient there.
- Fully masked rows (−inf everywhere) give zeros, the package NaN.
- `ignore_index` is honoured also where it is negative; with the package's own default of −100 a target of −100 raises.
  A mean over nothing is zero, not NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from omegamax import functional
from omegamax.checks import check_dim, check_floating
from omegamax.compat.budget import project_budget
from omegamax.losses.fenchel_young import Loss
from omegamax.losses.rows import Entmax15Loss as _Entmax15Loss
from omegamax.losses.rows import EntmaxLoss as _EntmaxLoss
from omegamax.losses.rows import NormmaxLoss as _NormmaxLoss
from omegamax.losses.rows import SparsemaxLoss as _SparsemaxLoss

_MEAN = "elementwise_mean"


def sparsemax(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    """Computes sparsemax of `X` along `dim`, as `omegamax.sparsemax`; `k`, a size of partial sorts, is not needed."""
    return functional.sparsemax(X, dim)


def entmax15(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    """Computes 1.5-entmax of `X` along `dim`, as `omegamax.entmax15`; `k`, a size of partial sorts, is not needed."""
    return functional.entmax15(X, dim)


def entmax_bisect(
    X: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, n_iter: int = 50, ensure_sum_one: bool = True
) -> Tensor:
    """Computes α-entmax as `omegamax.entmax`: exact at every α from 1, which is softmax.

    Arguments:
        X: scores with any axes
        alpha: the order, a number or a tensor that broadcasts to the scores with size 1 along `dim`; it may learn
        dim: the axis of the rows
        n_iter: not needed
        ensure_sum_one: not needed, it is always so

    >>> from omegamax.compat.entmax import entmax_bisect
    >>> entmax_bisect(torch.tensor([0.0, 0.0, 1.0]), alpha=1)
    tensor([0.2119, 0.2119, 0.5761])
    """
    return functional.entmax(X, dim, alpha=alpha)


def sparsemax_bisect(X: Tensor, dim: int = -1, n_iter: int = 50, ensure_sum_one: bool = True) -> Tensor:
    """Computes sparsemax of `X` along any `dim`; `n_iter` and `ensure_sum_one` are not needed."""
    return functional.sparsemax(X, dim)


def normmax_bisect(X: Tensor, alpha: float | Tensor = 2, dim: int = -1, n_iter: int = 50) -> Tensor:
    """Computes normmax of `X` along `dim` as `omegamax.normmax`; `alpha` may learn, `n_iter` is not needed."""
    return functional.normmax(X, dim, alpha=alpha)


def budget_bisect(X: Tensor, budget: float | Tensor = 2, dim: int = -1, n_iter: int = 50) -> Tensor:
    """Chooses about `budget` entries softly, each at most once.

        argmax_{0 <= p <= 1, sum p = budget}  <p, X> - 1/2 ||p||^2

    A budget above the number of entries gives ones. For whole budgets it is `SparseMAP(Subset(budget))`.

    Arguments:
        X: scores with any axes; −inf gives weight zero
        budget: a number or a tensor that broadcasts to the scores with size 1 along `dim`; it may learn
        dim: the axis of the rows
        n_iter: not needed

    >>> from omegamax.compat.entmax import budget_bisect
    >>> budget_bisect(torch.tensor([0.5, 0.25, 2.0, -1.0]), budget=1.5)
    tensor([0.3750, 0.1250, 1.0000, 0.0000])
    """
    check_floating("budget_bisect", X, name="X")
    check_dim("budget_bisect", X, dim)
    rows = X.movedim(dim, -1)
    given = torch.as_tensor(budget, dtype=X.dtype, device=X.device)
    if given.dim():
        given = given.expand(*(1 if axis == dim % X.dim() else size for axis, size in enumerate(X.shape)))
        given = given.movedim(dim, -1)
    else:
        given = given.expand(*rows.shape[:-1], 1)
    return project_budget(rows, given).movedim(-1, dim)


def sparsemax_loss(X: Tensor, target: Tensor, k: int | None = None) -> Tensor:
    """Computes one sparsemax loss per row of scores `X` (n, C) for classes `target` (n); `k` is not needed."""
    return _SparsemaxLoss(reduction="none")(X, target)


def sparsemax_bisect_loss(X: Tensor, target: Tensor, n_iter: int = 50) -> Tensor:
    """Computes one sparsemax loss per row of scores `X` (n, C) for classes `target` (n); `n_iter` is not needed."""
    return _SparsemaxLoss(reduction="none")(X, target)


def entmax15_loss(X: Tensor, target: Tensor, k: int | None = None) -> Tensor:
    """Computes one 1.5-entmax loss per row of scores `X` (n, C) for classes `target` (n); `k` is not needed."""
    return _Entmax15Loss(reduction="none")(X, target)


def entmax_bisect_loss(X: Tensor, target: Tensor, alpha: float | Tensor = 1.5, n_iter: int = 50) -> Tensor:
    """Computes one α-entmax loss per row of scores `X` (n, C) for classes `target` (n).

    `alpha` may be one number per row (n, 1), and may learn; `n_iter` is not needed.
    """
    return _EntmaxLoss(alpha, reduction="none")(X, target)


def normmax_bisect_loss(X: Tensor, target: Tensor, alpha: float | Tensor = 2, n_iter: int = 50) -> Tensor:
    """Computes one normmax loss per row of scores `X` (n, C) for classes `target` (n).

    `alpha` may be one number per row (n, 1), and may learn; `n_iter` is not needed.
    """
    return _NormmaxLoss(alpha, reduction="none")(X, target)


class Sparsemax(nn.Module):
    """Sparsemax as a layer; the arguments are those of `sparsemax`: `dim` and `k`."""

    def __init__(self, dim: int = -1, k: int | None = None) -> None:
        super().__init__()
        self.dim, self.k = dim, k

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return sparsemax(X, self.dim)


class Entmax15(nn.Module):
    """1.5-entmax as a layer; the arguments are those of `entmax15`: `dim` and `k`."""

    def __init__(self, dim: int = -1, k: int | None = None) -> None:
        super().__init__()
        self.dim, self.k = dim, k

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return entmax15(X, self.dim)


class SparsemaxBisect(nn.Module):
    """Sparsemax as a layer; the arguments are those of `sparsemax_bisect`: `dim` and `n_iter`."""

    def __init__(self, dim: int = -1, n_iter: int | None = None) -> None:
        super().__init__()
        self.dim, self.n_iter = dim, n_iter

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return sparsemax(X, self.dim)


class EntmaxBisect(nn.Module):
    """α-entmax as a layer; the arguments are those of `entmax_bisect`: `alpha`, `dim` and `n_iter`."""

    def __init__(self, alpha: float | Tensor = 1.5, dim: int = -1, n_iter: int = 50) -> None:
        super().__init__()
        self.alpha, self.dim, self.n_iter = alpha, dim, n_iter

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return entmax_bisect(X, self.alpha, self.dim)


class NormmaxBisect(nn.Module):
    """Normmax as a layer; the arguments are those of `normmax_bisect`: `alpha`, `dim` and `n_iter`."""

    def __init__(self, alpha: float | Tensor = 2, dim: int = -1, n_iter: int = 50) -> None:
        super().__init__()
        self.alpha, self.dim, self.n_iter = alpha, dim, n_iter

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return normmax_bisect(X, self.alpha, self.dim)


class BudgetBisect(nn.Module):
    """The choice of about `budget` entries as a layer; the arguments are those of `budget_bisect`.

    These are `budget`, `dim` and `n_iter`.
    """

    def __init__(self, budget: float | Tensor = 2, dim: int = -1, n_iter: int = 50) -> None:
        super().__init__()
        self.budget, self.dim, self.n_iter = budget, dim, n_iter

    def forward(self, X: Tensor) -> Tensor:
        """Computes the weights of scores `X`."""
        return budget_bisect(X, self.budget, self.dim)


class _PackageLoss(nn.Module):
    """A loss with the package's names of reductions."""

    def __init__(self, ours: type[Loss], ignore_index: int, reduction: str, *parameter: float | Tensor) -> None:
        super().__init__()
        if reduction not in (_MEAN, "sum", "none"):
            raise ValueError(
                f"{type(self).__name__}: reduction must be 'elementwise_mean', 'sum' or 'none', got {reduction!r}; "
                "the default is 'elementwise_mean'"
            )
        self.ignore_index, self.reduction = ignore_index, reduction
        self._loss = ours(*parameter, reduction="mean" if reduction == _MEAN else reduction, ignore_index=ignore_index)

    def forward(self, X: Tensor, target: Tensor) -> Tensor:
        """Computes the loss of scores `X` (n, C) for classes `target` (n)."""
        return self._loss(X, target)


class SparsemaxLoss(_PackageLoss):
    """The sparsemax loss.

    Arguments:
        k: not needed
        ignore_index: the class that costs nothing and counts for nothing
        reduction: "elementwise_mean", "sum" or "none"
    """

    def __init__(self, k: int | None = None, ignore_index: int = -100, reduction: str = _MEAN) -> None:
        super().__init__(_SparsemaxLoss, ignore_index, reduction)
        self.k = k


class SparsemaxBisectLoss(_PackageLoss):
    """The sparsemax loss.

    Arguments:
        n_iter: not needed
        ignore_index: the class that costs nothing and counts for nothing
        reduction: "elementwise_mean", "sum" or "none"
    """

    def __init__(self, n_iter: int = 50, ignore_index: int = -100, reduction: str = _MEAN) -> None:
        super().__init__(_SparsemaxLoss, ignore_index, reduction)
        self.n_iter = n_iter


class Entmax15Loss(_PackageLoss):
    """The loss of 1.5-entmax.

    Arguments:
        k: not needed
        ignore_index: the class that costs nothing and counts for nothing
        reduction: "elementwise_mean", "sum" or "none"
    """

    def __init__(self, k: int | None = 100, ignore_index: int = -100, reduction: str = _MEAN) -> None:
        super().__init__(_Entmax15Loss, ignore_index, reduction)
        self.k = k


class EntmaxBisectLoss(_PackageLoss):
    """The loss of α-entmax.

    Arguments:
        alpha: the order, from 1: a number or a tensor, which may learn
        n_iter: not needed
        ignore_index: the class that costs nothing and counts for nothing
        reduction: "elementwise_mean", "sum" or "none"
    """

    def __init__(
        self, alpha: float | Tensor = 1.5, n_iter: int = 50, ignore_index: int = -100, reduction: str = _MEAN
    ) -> None:
        super().__init__(_EntmaxLoss, ignore_index, reduction, alpha)
        self.n_iter = n_iter

    @property
    def alpha(self) -> Any:
        """The order α of the loss: what was given, a number or a tensor."""
        return self._loss.alpha


class NormmaxBisectLoss(_PackageLoss):
    """The loss of normmax.

    Arguments:
        alpha: the order of the norm, above 1: a number or a tensor, which may learn
        n_iter: not needed
        ignore_index: the class that costs nothing and counts for nothing
        reduction: "elementwise_mean", "sum" or "none"
    """

    def __init__(
        self, alpha: float | Tensor = 2, n_iter: int = 50, ignore_index: int = -100, reduction: str = _MEAN
    ) -> None:
        super().__init__(_NormmaxLoss, ignore_index, reduction, alpha)
        self.n_iter = n_iter

    @property
    def alpha(self) -> Any:
        """The order α of the norm: what was given, a number or a tensor."""
        return self._loss.alpha
