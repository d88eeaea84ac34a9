"""FenchelYoungClassifier against scikit-learn's logistic regression and against its own conditions of optimality."""

import pickle
import runpy
import sys
import warnings

import numpy as np
import pytest
import torch

import omegamax as om

pytest.importorskip("sklearn", reason="the extra sklearn")
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from omegamax.estimators import FenchelYoungClassifier, fenchel_young_classifier

SPARSE = [
    om.SquaredNorm(),
    om.Tsallis(1.5),
    om.Fused(0.1),
    om.Oscar(0.05),
    om.SquaredPNorm(1.5),
    om.Scaled(om.SquaredNorm(), 0.5),
]


def problem(n_classes, n=60, seed=0):
    """Clouds of points around random means, and the number of the cloud."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    return rng.normal(size=(n_classes, 4))[y] * 1.5 + rng.normal(size=(n, 4)), y


@pytest.mark.slow
@pytest.mark.parametrize("regularizer", [None, om.Shannon()], ids=str)
def test_the_checks_of_scikit_learn(regularizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # what needs pandas
        check_estimator(FenchelYoungClassifier(regularizer))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shannon_is_logistic_regression(n_classes, fit_intercept):
    X, y = problem(n_classes)
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    options = {"C": 0.7, "fit_intercept": fit_intercept, "class_weight": "balanced", "tol": 1e-8}
    ours = FenchelYoungClassifier(om.Shannon(), **options).fit(X, y, weight)
    theirs = LogisticRegression(max_iter=1000, **options).fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    differ = ours.intercept_ - theirs.intercept_
    np.testing.assert_allclose(differ - (differ.mean() if n_classes > 2 else 0), 0, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.coef_.shape == theirs.coef_.shape and (ours.predict(X) == theirs.predict(X)).all()


def simplex_projection(row):
    """By bisection of the threshold."""
    low, high = row.max() - 1, row.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(row - low, 0)


def test_the_gradient_of_sparsemax_vanishes():
    X, y = problem(3)
    model = FenchelYoungClassifier(C=2.0, tol=1e-9).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    slopes = np.stack([simplex_projection(row) for row in scores]) - np.eye(3)[y]
    np.testing.assert_allclose(model.coef_ + 2.0 * slopes.T @ X, 0, atol=1e-5)
    np.testing.assert_allclose(slopes.sum(0), 0, atol=1e-5)


@pytest.mark.parametrize("regularizer", SPARSE, ids=str)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_sparse_and_belong_to_the_scores(regularizer, n_classes):
    X, y = problem(n_classes)
    model = FenchelYoungClassifier(regularizer, C=5.0).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (60, n_classes) and (found == 0).any() and (found >= 0).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    scores = model.decision_function(X)
    rows = np.stack([-scores / 2, scores / 2], 1) if n_classes == 2 else scores
    np.testing.assert_allclose(found, regularizer.argmax(torch.from_numpy(rows)).numpy(), atol=1e-9)
    assert model.score(X, y) > 0.7


def test_labels_may_be_words():
    X, y = problem(3)
    names = np.array(["pear", "apple", "fig"])
    model = FenchelYoungClassifier().fit(X, names[y])
    assert model.classes_.tolist() == ["apple", "fig", "pear"]
    other = FenchelYoungClassifier().fit(X, y)
    assert (model.predict(X) == names[other.predict(X)]).mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(X)[:, 2], other.predict_proba(X)[:, 0], atol=1e-3)


def test_sparse_matrices_and_weights():
    X, y = problem(3)
    X[np.abs(X) < 1] = 0
    dense = FenchelYoungClassifier(tol=1e-8).fit(X, y)
    sparse = FenchelYoungClassifier(tol=1e-8).fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(X)), dense.predict_proba(X), atol=1e-6)
    twice = np.repeat(np.arange(60), np.arange(60) % 3)  # weights 0, 1, 2
    repeated = FenchelYoungClassifier(tol=1e-8).fit(X[twice], y[twice])
    weighted = FenchelYoungClassifier(tol=1e-8).fit(X, y, np.arange(60) % 3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    chosen = FenchelYoungClassifier(tol=1e-8, class_weight={0: 2.0, 1: 1.0, 2: 0.0}).fit(X, y)
    by_hand = FenchelYoungClassifier(tol=1e-8).fit(X, y, np.array([2.0, 1.0, 0.0])[y])
    np.testing.assert_allclose(chosen.coef_, by_hand.coef_, atol=1e-6)


def test_it_is_cloned_searched_and_pickled():
    X, y = problem(3)
    grid = {"regularizer": [om.Shannon(), om.Tsallis(1.5)], "C": [0.1, 1.0]}
    search = GridSearchCV(FenchelYoungClassifier(), grid, cv=3).fit(X, y)
    assert search.best_params_["regularizer"] in grid["regularizer"]
    model = FenchelYoungClassifier(om.Fused(0.2), C=3.0)
    assert repr(clone(model).get_params()) == repr(model.get_params()) and "Fused" in repr(model)
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()


def test_errors_say_what_to_do():
    X, y = problem(3)
    with pytest.raises(
        TypeError, match="FenchelYoungClassifier: regularizer must be an Ω over rows, got the string 'sparsemax'; use"
    ):
        FenchelYoungClassifier("sparsemax").fit(X, y)
    with pytest.raises(TypeError, match="must be an Ω over rows"):
        FenchelYoungClassifier(om.Smoothed(om.Chain(), om.Shannon())).fit(X, y)
    for bad in ({"C": 0.0}, {"tol": -1.0}, {"max_iter": None}, {"C": float("nan")}):
        (name,) = bad
        with pytest.raises(ValueError, match=f"FenchelYoungClassifier: {name} must be a number above 0"):
            FenchelYoungClassifier(**bad).fit(X, y)
    with pytest.raises(ValueError, match="y must have two classes or more, got one class"):
        FenchelYoungClassifier().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="the weights must have a positive sum, got 0"):
        FenchelYoungClassifier(class_weight={0: 0.0, 1: 0.0, 2: 0.0}).fit(X, y)
    with pytest.raises(NotFittedError):
        FenchelYoungClassifier().predict(X)
    with pytest.raises(ValueError, match="NaN"):
        FenchelYoungClassifier().fit(np.full((4, 2), np.nan), [0, 1, 0, 1])


def test_an_early_end_is_told():
    X, y = problem(5)
    with pytest.warns(ConvergenceWarning, match=r"the gradient must fall below tol=1e-06, got .* after 2 iterations"):
        FenchelYoungClassifier(C=1e4, max_iter=2, tol=1e-6).fit(X, y)


def test_without_scikit_learn_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(
        ImportError, match=r'omegamax.estimators needs scikit-learn .* pip install "omegamax\[sklearn\]"'
    ):
        runpy.run_path(fenchel_young_classifier.__file__)
