"""SparseMAP of every structure: against a quadratic program on all its members, and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import structure_cases
import torch
from oracles import vertex_qp
from structure_cases import like, parts_of
from structure_cases.laws import dot, listed, members, numpy_parts, scaled
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

pytestmark = pytest.mark.thinned(3)  # the full round takes all

CASES = [*structure_cases.CASES, *structure_cases.ORACLE_CASES]
structures = pytest.mark.parametrize("case", CASES, ids=str)
# A factor graph's solver has marginals and residuals, and no list of structures.
listing = pytest.mark.parametrize("case", [c for c in CASES if not isinstance(c.structure, om.FactorGraph)], ids=str)


def flat(parts, n=None):
    return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts[:n]])


def moved(potentials, direction, step):
    return like(potentials, [p + step * d for p, d in zip(parts_of(potentials), direction)])


def first_parts(case, weights):
    """The regularised components, (batch, parts)."""
    parts = parts_of(weights)[: case.structure.n_regularized]
    return torch.cat([part.flatten(1) for part in parts], 1)


@structures
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.usefixtures("backend")
@pytest.mark.thinned(3)
def test_equals_the_quadratic_program(case, scale):
    potentials = scaled(case, scale, seed=1)
    found = case.structure.sparsemap(potentials, **case.options())
    n = case.structure.n_regularized
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        scores = np.array([dot(y, numpy_parts(potentials, item)) for y in every])
        possible = scores > -np.inf
        vertices = np.stack([flat(y, n) for y in every])[possible]
        expected = vertex_qp.solve(vertices, scores[possible])
        assert np.abs(flat(numpy_parts(found.marginals, item), n) - expected).max() < 1e-8


@listing
@pytest.mark.usefixtures("backend")
def test_a_sparse_distribution_over_structures(case):
    potentials = case.potentials(2)
    found = case.structure.sparsemap(potentials, **case.options())
    for item in range(len(case.lengths)):
        every = {flat(y).tobytes() for y in members(case, potentials, item)}
        probabilities = found.probabilities[item].numpy()
        chosen = [y for y, p in zip(listed(found.structures, item), probabilities) if p > 0]
        assert {flat(y).tobytes() for y in chosen} <= every
        assert len({flat(y).tobytes() for y in chosen}) == len(chosen) <= flat(chosen[0]).size + 1
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert (np.diff(probabilities) <= 0).all() and probabilities.min() >= 0
        mean = sum(p * flat(y) for p, y in zip(probabilities, chosen))
        assert np.abs(mean - flat(numpy_parts(found.marginals, item))).max() < 1e-12
        for y, p in zip(listed(found.structures, item), probabilities):
            assert p > 0 or not flat(y).any()


@listing
@pytest.mark.usefixtures("backend")
def test_the_gap_certifies(case):
    potentials = case.potentials(3)
    found = case.structure.sparsemap(potentials, **case.options())
    n = case.structure.n_regularized
    for item in range(len(case.lengths)):
        mean, scores = numpy_parts(found.marginals, item), numpy_parts(potentials, item)
        gradient = [s - m if n is None or k < n else s for k, (s, m) in enumerate(zip(scores, mean))]
        best = max(dot(y, gradient) for y in members(case, potentials, item))
        assert best - dot(mean, gradient) < 1e-12
        assert found.gap[item] < 1e-12
    assert (found.n_iterations >= 2).all()


@structures
@pytest.mark.usefixtures("backend")
@pytest.mark.thinned(5)
def test_derivatives(case):
    smooth = om.SparseMAP(case.structure)
    potentials = scaled(case, 0.5, seed=4)
    finite = [part > -torch.inf for part in parts_of(potentials)]
    inputs = tuple(p[f].clone().requires_grad_() for p, f in zip(parts_of(potentials), finite))

    def at(*values):
        parts = [p.masked_scatter(f, v) for p, f, v in zip(parts_of(potentials), finite, values)]
        return like(potentials, parts)

    assert gradcheck(lambda *v: smooth.max(at(*v), **case.options()), inputs, fast_mode=True)
    assert gradcheck(lambda *v: parts_of(smooth.argmax(at(*v), **case.options())), inputs, fast_mode=True)
    assert gradgradcheck(lambda *v: smooth.max(at(*v), **case.options()), inputs, fast_mode=True)


@structures
@pytest.mark.usefixtures("backend")
@pytest.mark.thinned(5)
def test_the_jacobian_at_ties(case):
    """At constant scores the derivative is that of the whole face, wherever there is a derivative."""
    potentials = scaled(case, 0.0)
    smooth = om.SparseMAP(case.structure)

    def mean(at):
        return first_parts(case, smooth.argmax(at, **case.options()))

    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parts_of(potentials)]
        n = case.structure.n_regularized
        direction = [d if n is None or k < n else 0 * d for k, d in enumerate(direction)]
        here, step = mean(potentials), 1e-4
        ahead, behind = mean(moved(potentials, direction, step)), mean(moved(potentials, direction, -step))
        smooth_there = (ahead + behind - 2 * here).abs().amax(1) < 1e-9  # elsewhere there is a kink
        # A function of the potentials alone: forward mode, one product.
        _, along = torch.func.jvp(lambda *p: mean(like(potentials, p)), parts_of(potentials), tuple(direction))
        difference = (along - (ahead - behind) / (2 * step)).abs().amax(1)
        assert (difference[smooth_there] < 1e-8).all()


@structures
def test_the_jacobian_is_symmetric_and_positive(case):
    smooth = om.SparseMAP(case.structure)
    potentials = case.potentials(5)
    (first, *rest) = parts_of(potentials)

    def mean(x):
        return parts_of(smooth.argmax(like(potentials, [x, *rest]), **case.options()))[0][0].flatten()

    jacobian = torch.autograd.functional.jacobian(mean, first)[:, 0].flatten(1)
    torch.testing.assert_close(jacobian, jacobian.T)
    assert torch.linalg.eigvalsh(jacobian).min() > -1e-12


@listing
@pytest.mark.usefixtures("backend")
def test_a_warm_start_changes_nothing_but_the_work(case):
    potentials = scaled(case, 0.5, seed=6)
    cold = case.structure.sparsemap(potentials, **case.options())
    direction = [torch.sin(torch.arange(p.numel(), dtype=p.dtype)).reshape(p.shape) for p in parts_of(potentials)]
    nearby = moved(potentials, direction, 1e-3)
    warm = case.structure.sparsemap(nearby, start=cold, **case.options())
    expected = case.structure.sparsemap(nearby, **case.options())
    for a, b in zip(parts_of(warm.marginals), parts_of(expected.marginals)):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)
    again = case.structure.sparsemap(potentials, start=cold, **case.options())
    assert (again.n_iterations == 1).all()


@listing
@pytest.mark.usefixtures("backend")
def test_a_start_of_other_lengths_is_left_out(case):
    """A structure of one length is none of another: as a start it would be averaged in, and no gap would show it."""
    potentials = case.potentials(6)
    longest = case.structure.sparsemap(potentials)
    warm = case.structure.sparsemap(potentials, start=longest, **case.options())
    expected = case.structure.sparsemap(potentials, **case.options())
    for a, b in zip(parts_of(warm.marginals), parts_of(expected.marginals)):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


@structures
@pytest.mark.usefixtures("backend")
def test_nan_stays_in_its_item(case):
    potentials = case.potentials(7)
    expected = case.structure.sparsemap(potentials, **case.options())
    parts = [part.clone() for part in parts_of(potentials)]
    parts[0][0] = torch.nan
    found = case.structure.sparsemap(like(potentials, parts), **case.options())
    for a, b in zip(parts_of(found.marginals), parts_of(expected.marginals)):
        assert a[0].isnan().all()
        torch.testing.assert_close(a[1:], b[1:])


@structures
@pytest.mark.usefixtures("backend")
def test_large_scores_give_the_best(case):
    potentials = scaled(case, 1e8, seed=8)
    found = case.structure.sparsemap(potentials, **case.options()).marginals
    best = case.structure.map(potentials, **case.options())
    for a, b in zip(parts_of(found), parts_of(best)):
        torch.testing.assert_close(a, b)


@structures
def test_halves_and_float32(case):
    potentials = case.potentials(9)
    expected = case.structure.sparsemap(potentials, **case.options()).marginals
    for dtype, atol in ((torch.float32, 1e-5), (torch.bfloat16, 0.2)):
        small = like(potentials, [part.to(dtype) for part in parts_of(potentials)])
        found = case.structure.sparsemap(small, **case.options()).marginals
        for a, b in zip(parts_of(found), parts_of(expected)):
            assert a.dtype is dtype
            torch.testing.assert_close(a.double(), b, atol=atol, rtol=0)


@structures
def test_value_is_the_maximum(case):
    smooth = om.SparseMAP(case.structure)
    potentials = case.potentials(10)
    value = smooth.max(potentials, **case.options())
    mean = smooth.argmax(potentials, **case.options())
    score = sum(torch.where(m != 0, m * p, 0).flatten(1).sum(1) for m, p in zip(parts_of(mean), parts_of(potentials)))
    torch.testing.assert_close(value, score - smooth.omega(mean, **case.options()))


FOREIGN = {  # a structure, and one of the same shapes and lengths that has vertices outside it
    "trees": (om.ProjectiveTree(), om.Arborescence(), (5, 5)),
    "roots": (om.Arborescence(), om.Arborescence(single_root=False), (4, 4)),
    "subsets": (om.Subset(2), om.Subset(3), (5,)),
    "polytopes": (
        om.Polytope.from_oracle(lambda scores: torch.eye(4).double()[scores.argmax()]),
        om.Polytope.from_oracle(lambda scores: 2 * torch.eye(4).double()[scores.argmax()]),
        (4,),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.usefixtures("backend")
def test_a_start_of_another_structure_is_refused_or_changes_nothing(name):
    structure, other, shape = FOREIGN[name]
    generator = torch.Generator().manual_seed(0)
    refused = 0
    for _ in range(20):
        scores = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
        expected = structure.sparsemap(scores)
        try:
            found = structure.sparsemap(scores, start=other.sparsemap(scores))
        except ValueError as error:
            assert "start must hold structures of" in str(error)
            refused += 1
        else:
            torch.testing.assert_close(found.marginals, expected.marginals, atol=1e-9, rtol=0)
    assert refused > 0


def test_a_start_of_an_equal_structure_is_not_searched_again():
    scores = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = om.Arborescence(single_root=False).sparsemap(scores)
    assert torch.equal(before.origin, om.Arborescence(single_root=False).sparsemap(scores).origin)
    assert not torch.equal(before.origin, om.Arborescence().sparsemap(scores).origin)
    assert (om.Arborescence(single_root=False).sparsemap(scores, start=before).n_iterations == 1).all()
