"""A linear classifier for scikit-learn whose probabilities are argmax_Ω of its scores.

    minimise over W, b:   1/2 ||W||^2 + C Σ_i s_i L_Ω(W x_i + b; y_i)

L_Ω is the Fenchel–Young loss of Ω and s_i the weight of a sample. With Shannon's Ω this is logistic regression. The
objective is convex, and L-BFGS finds its minimum.
"""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np
import torch

from omegamax.extras import how_to_install
from omegamax.losses import fenchel_young_loss
from omegamax.operators import SquaredNorm
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of

try:
    from scipy.optimize import minimize
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.extmath import safe_sparse_dot
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"omegamax.estimators needs scikit-learn 1.7 or newer; {how_to_install('sklearn')}") from error

_WHO = "FenchelYoungClassifier"


class FenchelYoungClassifier(ClassifierMixin, BaseEstimator):
    """A linear classifier with a Fenchel–Young loss. Its probabilities are sparse where Ω is.

    Arguments:
        regularizer: any Ω over rows, such as `Shannon()` (logistic regression), `SquaredNorm()` (sparsemax),
            `Tsallis(1.5)` (entmax) or `Fused(0.1)` (neighbouring classes get equal probability); None is
            `SquaredNorm()`. Classes are in the order of `classes_`, which matters for an Ω that is not symmetric.
        C: the weight of the loss against 1/2 ||W||^2; larger fits more closely
        fit_intercept: whether there is a bias b, which is not penalised
        class_weight: None, "balanced", or a dict from class to weight
        max_iter: of L-BFGS
        tol: stops where no entry of the gradient of the mean loss is larger

    `fit(X, y, sample_weight)` takes dense and sparse X, any number of classes from two on, and labels of any kind.
    `predict` returns the class of the largest score. After `fit` there are `coef_` and `intercept_` (one row for two
    classes, otherwise one for each), `classes_` and `n_iter_`. There is no `predict_log_proba`, because many
    probabilities are exactly zero.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> model = om.estimators.FenchelYoungClassifier(C=10.0).fit(X, y)
    >>> model.predict([[0.5], [2.5]])
    array(['low', 'high'], dtype='<U4')
    >>> model.predict_proba([[0.0], [3.0]])
    array([[0., 1.],
           [1., 0.]])
    """

    def __init__(
        self,
        regularizer: SmoothMax | None = None,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
    ):
        self.regularizer = regularizer
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FenchelYoungClassifier:
        """Finds the weights of the model.

        Arguments:
            X: samples (n, features), dense or sparse
            y: their classes (n,)
            sample_weight: how much each sample counts (n,); None is 1
        """
        smooth = self._smooth()
        self._check_numbers()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{_WHO}: y must have two classes or more, got one class; add samples of another class")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            balance = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=weight)
            weight = weight * balance[targets]
        total = weight.sum()
        if not total > 0:
            raise ValueError(f"{_WHO}: the weights must have a positive sum, got {total}; give some class a weight")

        shape = (1 if len(self.classes_) == 2 else len(self.classes_), X.shape[1] + bool(self.fit_intercept))
        labels, share = torch.from_numpy(targets), torch.from_numpy(weight / total)
        penalty = 1 / (self.C * total)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            coefficients = flat.reshape(shape)
            matrix = coefficients[:, : X.shape[1]]
            scores = _rows(_scores(X, coefficients)).requires_grad_()
            loss = fenchel_young_loss(scores, labels, smooth, reduction="none") @ share
            (slopes,) = torch.autograd.grad(loss, scores)
            sides = slopes.numpy()[:, -shape[0] :]  # of two classes, the second
            gradient = np.empty(shape)
            gradient[:, : X.shape[1]] = safe_sparse_dot(sides.T, X) + penalty * matrix
            if self.fit_intercept:
                gradient[:, -1] = sides.sum(0)
            return loss.item() + 0.5 * penalty * np.square(matrix).sum(), gradient.ravel()

        options = {"maxiter": self.max_iter, "gtol": self.tol, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
        found = minimize(objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
        if found.nit >= self.max_iter and not found.success:
            steepest = np.abs(found.jac).max()
            warn(
                f"{_WHO}: the gradient must fall below tol={self.tol}, got {steepest:.1e} after {found.nit} "
                "iterations; raise max_iter, scale the features, or lower C",
                ConvergenceWarning,
                stacklevel=2,
            )
        coefficients = found.x.reshape(shape)
        self.coef_ = coefficients[:, : X.shape[1]].copy()
        self.intercept_ = coefficients[:, -1].copy() if self.fit_intercept else np.zeros(shape[0])
        self.n_iter_ = found.nit
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Returns the scores (n, classes); for two classes the score of the second one minus the first's, (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Returns the class of the largest score for each sample, (n,); of the first one in a tie."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns argmax_Ω of the scores, (n, classes): rows sum to one, and under a sparse Ω many entries are zero."""
        scores = self.decision_function(X)
        return self._smooth().argmax(_rows(scores.reshape(len(scores), -1))).numpy()

    def _smooth(self) -> SmoothMax:
        smooth = SquaredNorm() if self.regularizer is None else self.regularizer
        if not isinstance(smooth, SmoothMax) or smooth.event_ndim != 1:
            raise TypeError(
                f"{_WHO}: regularizer must be an Ω over rows, got {kind_of(smooth)}; "
                f"{instead_of(smooth, 'om.Shannon() or om.SquaredNorm()')}"
            )
        return smooth

    def _check_numbers(self) -> None:
        for name in ("C", "max_iter", "tol"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"{_WHO}: {name} must be a number above 0, got {value!r}; the default is a good start")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _scores(X: Any, coefficients: np.ndarray) -> np.ndarray:
    """Returns X Wᵀ + b; b is the last column of the coefficients if they have one more than X."""
    scores = safe_sparse_dot(X, coefficients[:, : X.shape[1]].T)
    return scores + coefficients[:, -1] if coefficients.shape[1] > X.shape[1] else scores


def _rows(scores: np.ndarray) -> torch.Tensor:
    """Returns scores as a tensor (n, classes). The one column of two classes gets a column of zeros before it.

    Only the difference of the two matters, because Ω acts on the simplex.
    """
    rows = torch.from_numpy(np.ascontiguousarray(scores))
    return torch.cat([torch.zeros_like(rows), rows], 1) if rows.shape[1] == 1 else rows
