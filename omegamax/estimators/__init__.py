"""Estimators with the interface of scikit-learn. They need the extra `sklearn`."""

from omegamax.estimators.fenchel_young_classifier import FenchelYoungClassifier as FenchelYoungClassifier
from omegamax.spelling import install as _install

_install(__name__)
