"""The paired bootstrap: says whether one model would still be better than another on other test examples.

    d_i = a_i - b_i              how much better model A is on example i; for accuracy 1, 0 or -1
    mean of d over examples that are drawn again and again, with replacement

Both models are judged on the same examples, so what is hard about an example is taken away (Efron & Tibshirani, 1993;
Koehn, EMNLP 2004). It says nothing about other seeds: for those see `clearly_best`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PairedDifference(NamedTuple):
    """By how much one model is better than another, on average over examples."""

    mean: float
    low: float  # 95 % of the resampled means lie between low and high
    high: float
    p_value: float  # of "they are equally good", two-sided


def paired_bootstrap(
    a: Sequence[float], b: Sequence[float], *, n_samples: int = 10_000, seed: int = 0
) -> PairedDifference:
    """Resamples the differences of two models' scores on the same examples.

    Arguments:
        a: a score of the first model for each example, such as 1 where it is right
        b: of the second
        n_samples: how often the examples are drawn anew
        seed: of the draws

    >>> better = paired_bootstrap([1, 1, 1, 1, 0, 1] * 20, [0, 1, 1, 0, 0, 1] * 20)
    >>> round(better.mean, 3), better.low > 0, better.p_value < 0.01
    (0.333, True, True)
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(
            f"paired_bootstrap: a and b must have a score for each of the same examples, got {len(a)} and {len(b)}; "
            "evaluate both on one split"
        )
    if n_samples < 1:
        raise ValueError(f"paired_bootstrap: n_samples must be at least 1, got {n_samples}; 10 000 are usual")
    differences = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    values, counts = np.unique(differences, return_counts=True)
    # How often each value is drawn is multinomial, so that examples need not be drawn one by one.
    drawn = np.random.default_rng(seed).multinomial(len(differences), counts / counts.sum(), size=n_samples)
    means = drawn @ values / len(differences)
    low, high = np.quantile(means, [0.025, 0.975])
    # One draw is added on either side: no finite number of draws shows that p is 0.
    tail = min((means <= 0).sum(), (means >= 0).sum())
    p_value = min(1.0, 2 * (tail + 1) / (n_samples + 1))
    return PairedDifference(float(differences.mean()), float(low), float(high), float(p_value))
