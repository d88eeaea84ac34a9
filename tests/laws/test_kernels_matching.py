"""The compiled assignment equals its NumPy twin to the bit, and SciPy's in value; the edge cases of kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.kernels.structures.matchings import best_matching, with_unmatched

pytestmark = [
    pytest.mark.skipif(routing.native is None, reason="needs the native kernels"),
    pytest.mark.thinned(3),  # the full round takes all
]

SHAPES = [(1, 1), (1, 5), (4, 4), (3, 7), (7, 3), (8, 8), (9, 17), (20, 20), (33, 33)]
KINDS = ["normal", "whole", "constant", "forbidden", "product"]


def draw(kind, batch, r, c):
    scores = torch.randn(batch, r, c, dtype=torch.float64)
    if kind == "whole":
        return scores.round()
    if kind == "constant":
        return torch.zeros_like(scores)
    if kind == "forbidden":
        return torch.where(torch.rand_like(scores) < 0.4, -torch.inf, scores)
    return scores[:, :, :1] * scores[:, :1] if kind == "product" else scores


def assert_twins(parts, lengths):
    native, twin = best_matching(*lengths, *parts), best_matching.reference(*lengths, *parts)
    torch.testing.assert_close(native.value, twin.value, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(native.columns, twin.columns)
    if len(parts) == 1:
        assert torch.equal(native.prices, twin.prices)
    return native


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_twin_and_scipy(kind, shape, dtype, arch):
    scores = draw(kind, 5, *shape).to(dtype)
    lengths = tuple(torch.full((5,), size) for size in shape)
    found = assert_twins((scores,), lengths)
    for item in range(5):
        try:
            rows, columns = linear_sum_assignment(scores[item].double().numpy(), maximize=True)
        except ValueError:
            assert found.value[item] == -torch.inf and (found.columns[item] == -1).all()
            continue
        expected = scores[item].double().numpy()[rows, columns].sum()
        assert float(found.value[item]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind, arch):
    scores = draw(kind, 6, 5, 7)
    lengths = torch.tensor([5, 1, 5, 3, 4, 2]), torch.tensor([7, 7, 2, 3, 1, 5])
    within = (torch.arange(5) < lengths[0][:, None])[:, :, None] & (torch.arange(7) < lengths[1][:, None])[:, None]
    found = assert_twins((torch.where(within, scores, torch.nan),), lengths)
    assert not found.value.isnan().any()
    for item, (r, c) in enumerate(zip(lengths[0].tolist(), lengths[1].tolist())):
        alone = best_matching(torch.tensor([r]), torch.tensor([c]), scores[item : item + 1, :r, :c])
        assert torch.equal(alone.value[0], found.value[item])
        assert torch.equal(alone.columns[0], found.columns[item, :r])
        assert (found.columns[item, r:] == -1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (6, 2), (9, 9)])
def test_staying_alone(kind, shape, arch):
    r, c = shape
    parts = draw(kind, 4, r, c), draw(kind, 4, r, 1).squeeze(2), draw(kind, 4, 1, c).squeeze(1)
    found = assert_twins(parts, (torch.full((4,), r), torch.full((4,), c)))
    for item in range(4):
        whole = with_unmatched(*(part[item].numpy() for part in parts))
        try:
            rows, columns = linear_sum_assignment(whole, maximize=True)
        except ValueError:
            assert found.value[item] == -torch.inf
            continue
        assert float(found.value[item]) == pytest.approx(whole[rows, columns].sum(), abs=1e-12)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_not_a_number_stays_in_its_item(poison, arch):
    scores = torch.randn(3, 4, 5, dtype=torch.float64)
    spoiled = scores.clone()
    spoiled[1, 2, 3] = poison
    matching = om.Matching()
    value, best = matching.max(spoiled, om.Hard()), matching.map(spoiled)
    assert value[1].isnan() and best[1].isnan().all()
    for item in (0, 2):
        assert torch.equal(best[item], matching.map(scores)[item])


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e300])
def test_scale_does_not_matter(scale, arch):
    scores = torch.randn(8, 12, 12, dtype=torch.float64)
    matching = om.Matching()
    assert torch.equal(matching.map(scores), matching.map(scale * scores))


def test_memory_in_any_order_and_threads(arch):
    scores = torch.randn(33, 6, 8, dtype=torch.float64)
    matching = om.Matching()
    found = same_with_any_threads(lambda: matching.map(scores))
    assert torch.equal(matching.map(scores.mT.contiguous().mT), found)
    assert torch.equal(matching.map(scores[:1].expand(3, 6, 8))[2], found[0])
    assert matching.map(scores[:0]).shape == (0, 6, 8)


def test_constant_scores_give_the_identity(arch):
    for shape in [(4, 4), (3, 9), (9, 3)]:
        best = om.Matching().map(torch.zeros(*shape))
        assert torch.equal(best, torch.eye(*shape)), shape


@pytest.mark.parametrize("shape", [(6, 6), (4, 7), (7, 4)])
@pytest.mark.parametrize("alone", [False, True])
def test_the_oracle_that_remembers_is_as_good(shape, alone, arch):
    """SparseMAP by the oracle that begins where it ended, and by one that begins anew each time."""
    scores = torch.randn(5, *shape, dtype=torch.float64)
    scores[4] = scores[4].round()
    lengths = torch.tensor([shape[0], 1, 3, shape[0], shape[0]]), torch.tensor([shape[1], 2, 3, shape[1], 1])
    matching = om.Matching()
    potentials = matching.with_null(scores, rows=0.2, columns=-0.1) if alone else scores
    found = matching.sparsemap(potentials, lengths=lengths)
    assert found.gap.abs().max() < 1e-10
    anew = type("Anew", (om.Matching,), {"oracle": lambda self, problem: None})()
    other = anew.sparsemap(potentials, lengths=lengths)
    marginals = [(x.pairs if alone else x) for x in (found.marginals, other.marginals)]
    torch.testing.assert_close(*marginals, rtol=1e-9, atol=1e-9)


def test_with_unmatched_is_square():
    whole = with_unmatched(np.ones((2, 3)), np.zeros(2), np.zeros(3))
    assert (
        whole.shape == (5, 5)
        and (whole[2:, 3:] == 0).all()
        and (whole[:2, 3:] == np.where(np.eye(2), 0, -np.inf)).all()
    )
