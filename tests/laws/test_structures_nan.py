"""A NaN among the scores makes the answers of its own item NaN, lists included, and changes no other item."""

from __future__ import annotations

import pytest
import torch
from structure_cases import ORACLE_CASES, like, parts_of
from structure_cases.laws import structures

import omegamax as om

pytestmark = pytest.mark.thinned(2)  # the full round takes all
BAD = [torch.nan, torch.inf]


def with_bad(case, bad):
    """Potentials whose item 0 holds something else than a number, at an entry that its best structure uses."""
    potentials = case.potentials()
    best = parts_of(case.structure.map(potentials, **case.options()))[0]
    parts = [part.clone() for part in parts_of(potentials)]
    parts[0][0].view(-1)[best[0].flatten().argmax()] = bad
    return potentials, like(potentials, parts)


def assert_only_first(found, expected, axis=0):
    """Item 0 is NaN where it could have something; all other items are as they were."""
    for part, other in zip(parts_of(found), parts_of(expected)):
        first, rest = part.select(axis, 0), part.narrow(axis, 1, part.shape[axis] - 1)
        torch.testing.assert_close(rest, other.narrow(axis, 1, part.shape[axis] - 1), equal_nan=False)
        assert bool((first.isnan() | (first == 0)).all())
    assert any(bool(part.select(axis, 0).isnan().any()) for part in parts_of(found))


@pytest.mark.parametrize("bad", BAD, ids=str)
@structures
def test_lists_of_dynamic_programs(case, bad, backend):
    clean, spoiled = with_bad(case, bad)
    structure, options = case.structure, case.options()
    for omega in om.Shannon(), om.SquaredNorm():
        assert structure.max(spoiled, omega, **options)[0].isnan()
        assert_only_first(structure.argmax(spoiled, omega, **options), structure.argmax(clean, omega, **options))
        drawn, expected = (
            structure.sample(p, omega, n_samples=2, generator=torch.Generator().manual_seed(1), **options)
            for p in (spoiled, spoiled)
        )
        for part, again in zip(parts_of(drawn), parts_of(expected)):
            torch.testing.assert_close(part, again, equal_nan=True)
            assert not bool(part[:, 1:].isnan().any())
        assert any(bool(part[:, 0].isnan().any(-1).any()) for part in parts_of(drawn))
        found, whole = (structure.support(p, omega, limit=5, **options) for p in (spoiled, clean))
        assert bool(found.probabilities[0].isnan().all()) and not bool(found.complete[0])
        width = min(found.probabilities.shape[1], whole.probabilities.shape[1])
        torch.testing.assert_close(found.probabilities[1:, :width], whole.probabilities[1:, :width])
        assert_only_first(
            like(clean, [part[:, :1] for part in parts_of(found.structures)]),
            like(clean, [part[:, :1] for part in parts_of(whole.structures)]),
        )
        assert structure.log_prob(spoiled, structure.map(clean, **options), omega, **options)[0].isnan()
        assert structure.log_prob(spoiled, drawn, omega, **options)[:, 0].isnan().all()
    top, best = structure.topk(spoiled, 3, **options), structure.topk(clean, 3, **options)
    assert bool(top.scores[0].isnan().all())
    torch.testing.assert_close(top.scores[1:], best.scores[1:])
    assert_only_first(top.structures, best.structures)
    assert_only_first(structure.map(spoiled, **options), structure.map(clean, **options))
    assert structure.entropy(spoiled, **options)[0].isnan()
    assert structure.kl(spoiled, clean, **options)[0].isnan() and structure.kl(clean, spoiled, **options)[0].isnan()
    counts = structure.count(clean, **options)
    assert structure.count(spoiled, **options) == counts  # what is allowed does not depend on scores


@structures
def test_marginal_and_sparsemap(case):
    clean, spoiled = with_bad(case, torch.nan)
    found, expected = (case.structure.marginal(p, om.SquaredNorm(), **case.options()) for p in (spoiled, clean))
    assert bool(found.probabilities[0].isnan().all())
    assert_only_first(found.weights, expected.weights)
    if isinstance(case.structure, om.FactorGraph):
        return  # its SparseMAP has no list
    sparse = case.structure.sparsemap(spoiled, **case.options())
    assert bool(sparse.probabilities[0].isnan().all()) and bool(sparse.gap[0].isnan())
    assert not bool(sparse.probabilities[1:].isnan().any())
    assert all(bool(part[0].isnan().any()) for part in parts_of(sparse.structures))


@pytest.mark.parametrize("case", ORACLE_CASES, ids=str)
def test_oracle_structures(case):
    clean, spoiled = with_bad(case, torch.nan)
    assert_only_first(case.structure.map(spoiled, **case.options()), case.structure.map(clean, **case.options()))
    if isinstance(case.structure, om.FactorGraph):
        return  # its SparseMAP has no list, and with cycles it has no samples
    assert bool(case.structure.sparsemap(spoiled, **case.options()).probabilities[0].isnan().all())
    if hasattr(case.structure, "sample"):
        drawn = case.structure.sample(spoiled, n_samples=3, **case.options())
        assert bool(drawn[:, 0].isnan().any()) and not bool(drawn[:, 1:].isnan().any())


def test_what_lies_beyond_the_length_may_be_anything(backend):
    potentials = torch.randn(2, 4, 3, 3, dtype=torch.float64)
    lengths = torch.tensor([2, 4])
    expected = om.Chain().topk(potentials, 2, lengths=lengths)
    potentials[0, 2:] = torch.nan
    found = om.Chain().topk(potentials, 2, lengths=lengths)
    torch.testing.assert_close(found.scores, expected.scores)
    torch.testing.assert_close(found.structures, expected.structures)
