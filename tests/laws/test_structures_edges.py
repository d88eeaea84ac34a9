"""Structures at the edges: one item, large scores, nothing feasible, masks, NaN, halves, no batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from structure_cases import like, parts_of
from structure_cases.laws import (
    dot,
    leaves,
    members,
    names,
    numpy_parts,
    regularizers,
    structures,
)
from torch.autograd import gradcheck

import omegamax as om

pytestmark = pytest.mark.thinned(3)  # the full round takes all


@structures
@regularizers
def test_one_item_is_as_good_alone(case, omega, backend):
    potentials = case.potentials()
    lengths = case.options().get("lengths")
    weights = parts_of(case.structure.argmax(potentials, omega, lengths=lengths))
    values = case.structure.max(potentials, omega, lengths=lengths)
    for item in range(len(case.lengths)):
        alone = like(potentials, [part[item] for part in parts_of(potentials)])
        own = (
            None
            if lengths is None
            else lengths[item]
            if isinstance(lengths, torch.Tensor)
            else tuple(a[item] for a in lengths)
        )
        for whole, single in zip(weights, parts_of(case.structure.argmax(alone, omega, lengths=own))):
            torch.testing.assert_close(single, whole[item], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(case.structure.max(alone, omega, lengths=own), values[item])


@structures
@regularizers
def test_large_scores_in_float32(case, omega, backend):
    """±1e4 neither overflow nor lose the answer: the expected structure is close to that in float64."""
    wide = like(case.potentials(), [1e4 * part for part in parts_of(case.potentials())])
    narrow = like(wide, [part.float() for part in parts_of(wide)])
    wide = like(wide, [part.double() for part in parts_of(narrow)])  # the same numbers
    value = case.structure.max(narrow, omega, **case.options())
    torch.testing.assert_close(value.double(), case.structure.max(wide, omega, **case.options()), rtol=1e-6, atol=0.1)
    found = case.structure.argmax(narrow, omega, **case.options())
    for part in parts_of(found):
        assert part.dtype == torch.float32 and torch.isfinite(part).all()


def with_an_infeasible_item(case):
    """The leaf of the first part, the potentials, and the same with that part of item 0 forbidden."""
    if not case.needs_first:
        pytest.skip("there are structures without these parts")
    potentials = case.potentials()
    first, *rest = leaves(potentials)
    keep = torch.ones_like(first, dtype=torch.bool)
    keep[0] = False
    return first, like(potentials, [first, *rest]), like(potentials, [torch.where(keep, first, -torch.inf), *rest])


@structures
@regularizers
def test_nothing_feasible(case, omega, backend):
    first, _, forbidden = with_an_infeasible_item(case)
    value = case.structure.max(forbidden, omega, **case.options())
    assert value[0] == -torch.inf and torch.isfinite(value[1:]).all()
    weights = parts_of(case.structure.argmax(forbidden, omega, **case.options()))
    for part in weights:
        assert (part[0] == 0).all() and not part.isnan().any()
    weights[0].square().sum().backward(retain_graph=True)
    assert (first.grad[0] == 0).all() and not first.grad.isnan().any()
    first.grad = None
    value[1:].sum().backward()
    assert (first.grad[0] == 0).all() and not first.grad.isnan().any()
    assert case.structure.count(forbidden, **case.options())[0] == 0
    assert case.structure.topk(forbidden, 2, **case.options()).scores[0].tolist() == [-np.inf, -np.inf]
    assert len(parts_of(case.structure.enumerate(forbidden, **case.options())[0])[0]) == 0


@structures
def test_divergence_where_nothing_is_feasible(case, backend):
    first, whole, without = with_an_infeasible_item(case)
    divergences = [case.structure.kl(a, b, **case.options()) for a in (whole, without) for b in (whole, without)]
    assert [each[0].item() for each in divergences] == [0, np.inf, 0, 0]
    (slope,) = torch.autograd.grad(sum(each.sum() for each in divergences), first)
    assert not slope.isnan().any()


@structures
@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm()], ids=names)
def test_a_mask_forbids(case, omega, backend):
    """What remains are the structures that use no masked part, and a masked part may hold anything."""
    potentials = case.potentials()
    first, *rest = parts_of(potentials)
    mask = torch.rand(first.shape, generator=torch.Generator().manual_seed(5)) < 0.85
    garbage = like(potentials, [torch.where(mask, first, torch.nan), *rest])
    found = case.structure.max(garbage, omega, mask=mask, **case.options())
    counts = case.structure.count(garbage, mask=mask, **case.options())
    weights = parts_of(case.structure.argmax(garbage, omega, mask=mask, **case.options()))
    assert (weights[0][~mask] == 0).all() and not weights[0].isnan().any()
    for item in range(len(case.lengths)):
        every = [y for y in members(case, potentials, item) if (y[0][~mask[item].numpy()] == 0).all()]
        assert counts[item] == len(every)
        if isinstance(omega, om.Shannon):
            scores = [dot(y, numpy_parts(potentials, item)) for y in every]
            assert found[item].item() == pytest.approx(np.logaddexp.reduce(scores) if scores else -np.inf)


@structures
@pytest.mark.thinned(5)
def test_marginal_differentiates(case):
    potentials = case.potentials()

    def weights(*parts):
        return parts_of(case.structure.marginal(like(potentials, parts), om.SquaredNorm(), **case.options()).weights)

    assert gradcheck(weights, leaves(potentials), fast_mode=True)


@structures
@regularizers
def test_nan_stays_in_its_item(case, omega, backend):
    potentials = case.potentials()
    clean = case.structure.argmax(potentials, omega, **case.options())
    spoiled = [part.clone() for part in parts_of(potentials)]
    spoiled[0][0] = torch.nan
    found = case.structure.argmax(like(potentials, spoiled), omega, **case.options())
    assert case.structure.max(like(potentials, spoiled), omega, **case.options())[0].isnan()
    for part, expected in zip(parts_of(found), parts_of(clean)):
        torch.testing.assert_close(part[1:], expected[1:])


@structures
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(case, dtype, backend):
    exact = case.potentials()
    half = like(exact, [part.to(dtype) for part in parts_of(exact)])
    same = like(exact, [part.double() for part in parts_of(half)])
    value = case.structure.max(half, om.SquaredNorm(), **case.options())
    assert value.dtype == dtype
    expected = case.structure.max(same, om.SquaredNorm(), **case.options())
    torch.testing.assert_close(value.double(), expected, rtol=2e-2, atol=2e-2)


@structures
@pytest.mark.parametrize("omega", [om.Fused(), om.GroupLasso([0, 0, 1])], ids=names)
def test_an_omega_that_depends_on_order_raises(case, omega):
    with pytest.raises(ValueError, match="order of its row"):
        case.structure.max(case.potentials(), omega, **case.options())


@structures
def test_an_empty_batch(case, backend):
    none = like(case.potentials(), [part[:0] for part in parts_of(case.potentials())])
    assert case.structure.max(none).shape == (0,)
    assert case.structure.topk(none, 2).scores.shape == (0, 2)
    assert case.structure.count(none) == []
    answers = [case.structure.argmax(none, om.SquaredNorm()), case.structure.map(none)]
    answers += [case.structure.marginal(none, om.SquaredNorm()).weights]
    for answer in answers:
        for part, expected in zip(parts_of(answer), parts_of(none)):
            assert part.shape == expected.shape
    assert parts_of(case.structure.sample(none, n_samples=3))[0].shape == (3, *parts_of(none)[0].shape)
