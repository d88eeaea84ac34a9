"""The compiled sweeps of chains with positions left out, against the same sweeps over what is left."""

from __future__ import annotations

import pytest
import torch
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.hypergraphs.chain_program import ChainProgram
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.positions import kept_order, kept_order_reference
from omegamax.structures.positions import KeptPositions

pytestmark = pytest.mark.skipif(routing.native is None, reason="no compiled kernels")


def test_kept_order():
    """As a stable sort gives it; also for one place, for no place and for no item."""
    for shape in ((40, 33), (3, 1), (2, 0), (0, 4)):
        kept = torch.rand(*shape) > 0.4
        for found, expected in zip(kept_order(kept), kept_order_reference(kept)):
            assert torch.equal(found, expected) and found.dtype is expected.dtype
    columns = (torch.rand(9, 4) > 0.5).T  # not contiguous
    assert torch.equal(kept_order(columns)[0], kept_order_reference(columns)[0])


def masks(n_items, n_places):
    """Few, many and all positions; runs of them; the last one alone."""
    kept = torch.rand(n_items, n_places) < torch.rand(n_items, 1)
    kept[0] = True
    kept[1] = torch.arange(n_places) == n_places - 1
    kept[2] = torch.arange(n_places) % 5 < 3
    kept[3, n_places // 2 :], kept[3, : n_places // 2] = True, False
    kept[:, 0] |= ~kept.any(1)
    return kept


def draw(form, n_items, n_places, n_tags, scale, dtype):
    def scores(*shape):
        found = scale * torch.randn(*shape, dtype=dtype)
        return torch.where(torch.rand(*shape) < 0.1, -torch.inf, found)

    if form == "dense":
        return (scores(n_items, n_places, n_tags, n_tags),)
    own = scores(n_items, n_tags, n_tags) if form == "factored" else scores(1, n_tags, n_tags).expand(n_items, -1, -1)
    return scores(n_items, n_places, n_tags), own, scores(n_items, n_tags), scores(n_items, n_tags)


@pytest.mark.parametrize("omega", list(Omega))
@pytest.mark.parametrize("form", ["dense", "factored", "shared"])
@pytest.mark.parametrize("n_tags", [1, 4, 19, 45])
@pytest.mark.parametrize("scale, dtype", [(1, torch.float64), (1, torch.float32), (1e6, torch.float32)])
@pytest.mark.thinned(7)
def test_same_bits_as_a_chain_of_what_is_left(arch, omega, form, n_tags, scale, dtype):
    """With infeasible items, NaN inside some and garbage at removed places; large floats are swept in double."""
    n_items, n_places = 9, 19
    kept = KeptPositions.of("test", masks(n_items, n_places))
    parts = draw(form, n_items, n_places, n_tags, scale, dtype)
    parts[0][~kept.mask] = torch.nan
    parts[0][4][kept.mask[4]] = torch.nan if n_tags == 4 else -torch.inf
    moved = (kept.in_front(parts[0]), *parts[1:])
    given = ChainProgram(omega, kept.lengths, len(parts), kept.order)
    alone = ChainProgram(omega, kept.lengths, len(parts))
    value, state = given.value(parts)
    expected, known = alone.value(moved)
    same = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(value, expected, **same)
    direction = tuple(torch.randn_like(part) for part in parts)
    along = (kept.in_front(direction[0]), *direction[1:])
    direction[0][~kept.mask] = torch.nan
    for found, wanted in (
        (given.marginals(parts, state), alone.marginals(moved, known)),
        (given.tangent(parts, state, direction), alone.tangent(moved, known, along)),
    ):
        torch.testing.assert_close(found.parts[0], kept.put_back(wanted.parts[0]), **same)
        for one, other in zip(found.parts[1:], wanted.parts[1:]):
            torch.testing.assert_close(one, other, **same)
        assert (found.parts[0][~kept.mask] == 0).all()


def test_any_number_of_threads_gives_the_same(arch):
    potentials = om.Chain.from_emissions(torch.randn(40, 30, 19), torch.randn(19, 19))
    kept = torch.rand(40, 30) > 0.3
    for omega in (om.Shannon(), om.SquaredNorm()):
        same_with_any_threads(lambda: om.Chain().argmax(potentials, omega, positions=kept))  # noqa: B023
