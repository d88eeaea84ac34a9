"""Random non-projective trees against enumeration: by walks, by elimination, and by one after the other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from structure_cases.non_projective import CASES, drawn, expected

from omegamax.inference.arborescences import wilson

trees = pytest.mark.parametrize("case", CASES, ids=str)


@trees
@pytest.mark.parametrize("limit", ["walks", "elimination", "both"])
@pytest.mark.parametrize("scale", [0.7, 600.0])
@pytest.mark.thinned(4)
def test_sampled_frequencies(case, limit, scale, backend, monkeypatch):
    """Chi-square over all trees; at the larger scale elimination runs on logarithms, on near ties."""
    if limit != "walks":
        monkeypatch.setattr(wilson, "max_steps", lambda size: 0 if limit == "elimination" else 6)
    potentials = drawn(case, 3)
    if scale > 1:  # scores far apart, of which some tie but for a little
        potentials = scale * potentials.round() + 0.3 * drawn(case, 4)
    n_samples = 4000 if backend == "native" else 600 if limit == "walks" else 60
    generator = torch.Generator().manual_seed(11)
    found = case.structure.sample(potentials, n_samples=n_samples, generator=generator, **case.options())
    assert found.shape == (n_samples, *potentials.shape)
    for item in range(len(case.lengths)):
        every, p, _, _ = expected(case, potentials, item)
        number = {y.tobytes(): i for i, y in enumerate(every)}
        counts = np.bincount([number[y.numpy().tobytes()] for y in found[:, item]], minlength=len(every))
        likely = p * n_samples > 5
        rest = p[~likely].sum() * n_samples
        assert counts[~likely].sum() <= rest + 6 * rest**0.5 + 6
        if likely.sum() > 1:
            observed = np.append(counts[likely], counts[~likely].sum())
            hoped = np.append(p[likely], p[~likely].sum()) * n_samples
            keep = hoped > 1e-9
            statistic = ((observed - hoped)[keep] ** 2 / hoped[keep]).sum()
            assert scipy.stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4


@trees
def test_a_sampler_that_would_walk_for_ever(case, backend):
    """Two words that are each other's only likely heads: leaving them takes e^60 steps."""
    potentials = torch.zeros_like(case.potentials())
    potentials[:, 1, 2] = potentials[:, 2, 1] = 60.0
    found = case.structure.sample(
        potentials, n_samples=60, generator=torch.Generator().manual_seed(0), **case.options()
    )
    assert (found.sum((-1, -2)) == torch.tensor([float(n) for (n,) in case.lengths])).all()
    exact = case.structure.argmax(potentials, **case.options())
    assert (found.mean(0) - exact).abs().max() < 0.3


@trees
def test_samples_repeat_and_keep_to_what_is_allowed(case, backend):
    potentials = drawn(case, 5, 2.0, 0.3)
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    one, two = (case.structure.sample(potentials, n_samples=9, generator=g, **case.options()) for g in generators)
    assert torch.equal(one, two)
    feasible = case.structure.max(potentials, **case.options()) > -torch.inf
    assert torch.where(potentials == -torch.inf, one, 0).sum() == 0
    assert (one.sum((-1, -2)) == torch.tensor([float(n) for (n,) in case.lengths]) * feasible).all()
    assert case.structure.sample(potentials[:0], n_samples=2).shape == (2, 0, 5, 5)
    alone = case.structure.sample(potentials[0].nan_to_num(neginf=-3.0), generator=generators[0])
    assert alone.shape == (1, 5, 5)
