"""GridTV: the laws of the table, for an event of two axes, and what is special to the grid."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from cases import normal
from oracles.finite_difference import jacobian
from oracles.simplex_qp import by_orderings
from scipy import optimize
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

STRENGTHS = [0.02, 0.1, 0.5, 3.0]


def edges_of(kept):
    """Pairs of cells that are next to each other in a row or a column once the others are taken out."""
    rows, columns = kept.shape
    lines = [[(i, j) for j in range(columns) if kept[i, j]] for i in range(rows)]
    lines += [[(i, j) for i in range(rows) if kept[i, j]] for j in range(columns)]
    return [pair for line in lines for pair in itertools.pairwise(line)]


def total_variation(p, kept=None):
    kept = np.ones(p.shape, bool) if kept is None else kept
    return sum(abs(p[a] - p[b]) for a, b in edges_of(kept))


def numpy_omega(p, strength, kept=None):
    return 0.5 * ((p**2).sum() - 1) + strength * total_variation(p, kept)


def violation(theta, p, strength, kept):
    """How far p is from optimal: the least error of θ − p = τ − ν + D'u, |u| ≤ strength, ν ≥ 0, ν = 0 where p > 0.

    A linear program over u, τ, ν and the error, which shares nothing with the solver.
    """
    cells = [tuple(c) for c in np.argwhere(kept)]
    index = {cell: k for k, cell in enumerate(cells)}
    edges = edges_of(kept)
    equations = np.zeros((len(cells), len(edges) + 1 + len(cells) + 1))
    for e, (a, b) in enumerate(edges):
        sign = np.sign(p[b] - p[a])
        equations[index[a], e], equations[index[b], e] = -1, 1
        edges[e] = (strength * sign, strength * sign) if sign else (-strength, strength)
    equations[:, len(edges)] = 1
    equations[:, len(edges) + 1 : -1] = -np.eye(len(cells))
    free = [(0, 0) if p[cell] > 0 else (0, None) for cell in cells]
    target = np.array([theta[cell] - p[cell] for cell in cells])
    above, below = equations.copy(), -equations
    above[:, -1] = below[:, -1] = -1
    result = optimize.linprog(
        np.eye(equations.shape[1])[-1],
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([target, -target]),
        bounds=[*edges, (None, None), *free, (0, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.success
    return result.x[-1]


def smooth_grids(strength, count, *shape, mask=None, reach=2e-3):
    """Scores that stay away from kinks: no move of one of them changes which weights are zero or equal."""
    cells = shape[0] * shape[1]
    moves = reach * torch.cat([torch.zeros(1, cells), torch.eye(cells), -torch.eye(cells)]).double()
    found = []
    for seed in range(500):
        scores = normal(*shape, seed=seed, scale=0.6)
        p = om.GridTV(strength).argmax(scores + moves.reshape(-1, *shape), mask=mask).flatten(-2)
        pattern = torch.cat([p > 0, ((p.unsqueeze(-1) - p.unsqueeze(-2)).abs() < 1e-7).flatten(-2)], -1)
        if bool((pattern == pattern[0]).all()) and p[0][p[0] > 0].min() > 0.01 and pattern[0, :cells].sum() > 2:
            found.append(scores)
        if len(found) == count:
            return torch.stack(found)
    raise AssertionError("no smooth scores")


# ---------------------------------------------------------------- the problem is solved


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)], ids=str)
@pytest.mark.parametrize("strength", [0.1, 0.5])
@pytest.mark.slow
def test_weights_and_value_agree_with_all_orderings(shape, strength):
    theta = normal(*shape, seed=1, scale=0.7)
    best = by_orderings(theta.numpy().ravel(), lambda p: strength * total_variation(p.reshape(shape))).reshape(shape)
    smooth = om.GridTV(strength)
    torch.testing.assert_close(smooth.argmax(theta), torch.from_numpy(best), atol=1e-12, rtol=0)
    assert float(smooth.max(theta)) == pytest.approx((best * theta.numpy()).sum() - numpy_omega(best, strength))


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 6), (9, 7)], ids=str)
@pytest.mark.thinned(3)
def test_weights_satisfy_the_conditions_of_optimality(shape, strength, backend):
    for seed, scale in enumerate([0.2, 1.0, 10.0]):
        theta = normal(*shape, seed=seed, scale=scale)
        kept = torch.rand(shape) > 0.25 * seed
        kept[0, 0] = True
        weights = om.GridTV(strength).argmax(theta, mask=kept)
        assert violation(theta.numpy(), weights.numpy(), strength, kept.numpy()) < 1e-8
        assert bool((weights >= 0).all()) and float(weights.sum()) == pytest.approx(1, abs=1e-14)
        assert bool((weights[~kept] == 0).all())


@pytest.mark.parametrize("strength", [0.25, 1.0])
def test_images_full_of_ties(strength):
    """Whole numbers make every component a borderline case."""
    for seed in range(6):
        theta = torch.randint(0, 3, (6, 6), generator=torch.Generator().manual_seed(seed)).double()
        weights = om.GridTV(strength).argmax(theta)
        weights = weights.round(decimals=12)  # components that only just separate may differ by rounding
        assert violation(theta.numpy(), weights.numpy(), strength, np.ones((6, 6), bool)) < 1e-8


def test_value_is_the_objective_at_the_weights_and_nothing_is_better():
    theta = normal(4, 5, 5, scale=0.5)
    smooth = om.GridTV(0.2)
    points = np.random.default_rng(0).dirichlet(np.full(25, 0.3), size=50).reshape(-1, 5, 5)
    for grid, p, value in zip(theta, smooth.argmax(theta), smooth.max(theta)):
        assert float(value) == pytest.approx(float((p * grid).sum()) - numpy_omega(p.numpy(), 0.2), abs=1e-12)
        assert float(value) >= max((q * grid.numpy()).sum() - numpy_omega(q, 0.2) for q in points)
        assert float(smooth.omega(p)) == pytest.approx(numpy_omega(p.numpy(), 0.2))


def test_regions_are_equal_to_the_bit_and_connected():
    """A bright square under noise becomes one region."""
    theta = 0.1 * normal(8, 8)
    theta[2:5, 3:7] += 1.5
    weights = om.GridTV(0.3).argmax(theta)
    region = weights > 0
    assert torch.equal(region[2:5, 3:7], torch.ones(3, 4).bool()) and int(region.sum()) == 12
    assert len(weights[region].unique()) == 1


# ---------------------------------------------------------------- its relatives


def test_no_strength_is_sparsemax(backend):
    theta = normal(5, 4, 6)
    torch.testing.assert_close(
        om.GridTV(0.0).argmax(theta).flatten(-2), om.sparsemax(theta.flatten(-2)), atol=1e-15, rtol=1e-14
    )


@pytest.mark.parametrize("strength", STRENGTHS)
def test_one_row_or_column_is_fused(strength, backend):
    theta, mask = normal(20, 9), torch.rand(20, 9) > 0.3
    expected = om.fusedmax(theta, strength=strength, mask=mask)
    smooth = om.GridTV(strength)
    torch.testing.assert_close(smooth.argmax(theta[:, None], mask=mask[:, None])[:, 0], expected, atol=1e-12, rtol=0)
    by_column = smooth.argmax(theta[..., None], mask=mask[..., None])[..., 0]
    torch.testing.assert_close(by_column, expected, atol=1e-12, rtol=0)
    value = smooth.max(theta[:, None], mask=mask[:, None])
    torch.testing.assert_close(value, om.Fused(strength).max(theta, mask=mask), atol=1e-12, rtol=0)


def test_a_large_strength_or_gamma_gives_uniform_weights_and_a_small_gamma_the_best_cell():
    theta = normal(3, 4, 5)
    uniform = torch.full((3, 4, 5), 1 / 20, dtype=torch.float64)
    torch.testing.assert_close(om.GridTV(100.0).argmax(theta), uniform, atol=1e-14, rtol=0)
    torch.testing.assert_close(om.Scaled(om.GridTV(0.1), 1e9).argmax(theta), uniform, atol=1e-6, rtol=0)
    hard = torch.nn.functional.one_hot(theta.flatten(-2).argmax(-1), 20).double().reshape(3, 4, 5)
    torch.testing.assert_close(om.Scaled(om.GridTV(0.1), 1e-4).argmax(theta), hard, atol=1e-12, rtol=0)


def test_symmetries_of_the_grid():
    theta, smooth = normal(5, 6, scale=0.5), om.GridTV(0.15)
    weights = smooth.argmax(theta)
    for moved, back in [(theta.T, weights.T), (theta.flip(0), weights.flip(0)), (theta.rot90(), weights.rot90())]:
        torch.testing.assert_close(smooth.argmax(moved), back, atol=1e-12, rtol=0)
    torch.testing.assert_close(smooth.argmax(theta + 7), weights, atol=1e-12, rtol=0)
    torch.testing.assert_close(smooth.max(theta + 7), smooth.max(theta) + 7)


# ---------------------------------------------------------------- derivatives


@pytest.mark.parametrize("strength", [0.05, 0.2])
@pytest.mark.slow
def test_gradcheck(strength):
    theta = smooth_grids(strength, 2, 3, 4).requires_grad_()
    smooth = om.GridTV(strength)
    assert gradcheck(smooth.max, (theta,), check_forward_ad=True)
    assert gradcheck(smooth.argmax, (theta,), check_forward_ad=True)
    assert gradgradcheck(smooth.max, (theta[:1].detach().requires_grad_(),))
    (gradient,) = torch.autograd.grad(smooth.max(theta).sum(), theta)
    assert torch.equal(gradient, smooth.argmax(theta))


def test_gradcheck_with_a_mask():
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]]).bool()
    theta = smooth_grids(0.1, 2, 3, 4, mask=mask).requires_grad_()
    assert gradcheck(lambda t: om.GridTV(0.1).argmax(t, mask=mask), (theta,))


def test_jacobian_is_symmetric_positive_semidefinite_and_centred():
    (theta,) = smooth_grids(0.1, 1, 3, 4)
    smooth = om.GridTV(0.1)
    jac = torch.autograd.functional.jacobian(smooth.argmax, theta).reshape(12, 12)
    torch.testing.assert_close(jac, jac.T, atol=1e-13, rtol=0)
    torch.testing.assert_close(jac.sum(-1), torch.zeros(12).double(), atol=1e-12, rtol=0)
    assert float(torch.linalg.eigvalsh(jac).min()) > -1e-12
    differences = jacobian(
        lambda x: smooth.argmax(torch.from_numpy(x).reshape(-1, 3, 4)).reshape(-1, 12).numpy(),
        theta.numpy().ravel(),
        1e-3,
    )
    torch.testing.assert_close(jac, torch.from_numpy(differences), atol=1e-6, rtol=0)


def test_the_strength_learns():
    theta = smooth_grids(0.1, 2, 3, 4)
    strength = torch.full((2, 1, 1), 0.1, dtype=torch.float64).requires_grad_()
    assert gradcheck(lambda s: om.GridTV(s).max(theta), (strength,), check_forward_ad=True)
    assert gradcheck(lambda s: om.GridTV(s).argmax(theta), (strength,), check_forward_ad=True)
    one = torch.tensor(0.1, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]]).bool()
    masked = smooth_grids(0.1, 1, 3, 4, mask=mask)
    assert gradcheck(lambda s: om.GridTV(s).argmax(masked, mask=mask), (one,))
    assert gradcheck(lambda s: om.GridTV(s).max(masked, mask=mask), (one,))


def test_functional_transforms():
    theta, direction = normal(3, 3, 4, scale=0.5), normal(3, 3, 4, seed=5)
    smooth = om.GridTV(0.1)
    weights = torch.func.vmap(smooth.argmax)(theta)
    torch.testing.assert_close(weights, smooth.argmax(theta), atol=1e-15, rtol=0)
    _, forward = torch.func.jvp(smooth.argmax, (theta,), (direction,))
    _, pull = torch.func.vjp(smooth.argmax, theta)
    torch.testing.assert_close(forward, pull(direction)[0], atol=1e-13, rtol=0)
    alone = torch.func.vmap(torch.func.jacrev(smooth.argmax))(theta)
    torch.testing.assert_close((alone * direction[:, None, None]).sum((-2, -1)), forward, atol=1e-13, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of PyTorch, where the graph breaks
def test_compiled_with_a_graph_break():
    theta = normal(2, 4, 4).requires_grad_()

    def energy(scores):
        return om.GridTV(0.1).argmax(2 * scores).square().sum()

    (expected,) = torch.autograd.grad(energy(theta), theta)
    (found,) = torch.autograd.grad(torch.compile(energy, backend="aot_eager")(theta), theta)
    torch.testing.assert_close(found, expected)


# ---------------------------------------------------------------- masks, edges, errors


def test_masking_a_row_or_a_column_is_removing_it():
    theta, smooth = normal(5, 6, scale=0.5), om.GridTV(0.15)
    rows, columns = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 2, 4, 5])
    mask = torch.zeros(5, 6).bool()
    mask[rows[:, None], columns] = True
    smaller = theta[rows[:, None], columns]
    weights = smooth.argmax(theta, mask=mask)
    torch.testing.assert_close(weights[rows[:, None], columns], smooth.argmax(smaller), atol=1e-12, rtol=0)
    torch.testing.assert_close(smooth.max(theta, mask=mask), smooth.max(smaller))
    torch.testing.assert_close(
        smooth.omega_without(weights, ~mask), smooth.omega(weights[rows[:, None], columns]), atol=1e-13, rtol=0
    )


def test_lengths_count_columns():
    theta, lengths = normal(3, 4, 5), torch.tensor([5, 2, 0])
    weights = om.GridTV(0.1).argmax(theta, lengths=lengths)
    mask = (torch.arange(5) < lengths[:, None]).unsqueeze(1)
    assert torch.equal(weights, om.GridTV(0.1).argmax(theta, mask=mask.expand_as(theta)))
    assert bool((weights[2] == 0).all())


def test_batches_dtypes_and_views():
    theta = normal(2, 3, 5, 4, scale=0.5)
    smooth = om.GridTV(torch.tensor([0.05, 0.1, 0.4], dtype=torch.float64).reshape(3, 1, 1))
    weights = smooth.argmax(theta)
    for i in range(2):
        for j, strength in enumerate([0.05, 0.1, 0.4]):
            torch.testing.assert_close(weights[i, j], om.GridTV(strength).argmax(theta[i, j]), atol=1e-12, rtol=0)
    view = theta.transpose(-1, -2)
    torch.testing.assert_close(smooth.argmax(view), weights.transpose(-1, -2), atol=1e-12, rtol=0)
    for dtype, atol in [(torch.float32, 1e-6), (torch.bfloat16, 4e-2), (torch.float16, 1e-2)]:
        rounded = om.GridTV(0.1).argmax(theta.to(dtype))
        assert rounded.dtype is dtype
        torch.testing.assert_close(rounded.double(), om.GridTV(0.1).argmax(theta), atol=atol, rtol=0)


def test_edges_of_the_domain():
    smooth = om.GridTV(0.1)
    nothing = torch.full((2, 3), -torch.inf).double().requires_grad_()
    weights = smooth.argmax(nothing)
    assert torch.equal(weights, torch.zeros(2, 3).double()) and float(smooth.max(nothing).detach()) == -torch.inf
    (gradient,) = torch.autograd.grad(weights.sum(), nothing)
    assert torch.equal(gradient, torch.zeros(2, 3).double())
    for shape in [(0, 3), (2, 0), (4, 0, 0)]:
        assert smooth.argmax(torch.zeros(shape)).shape == shape
        assert bool((smooth.max(torch.zeros(shape)) == -torch.inf).all())
    assert smooth.argmax(torch.zeros(0, 2, 3)).shape == (0, 2, 3)
    assert torch.equal(smooth.argmax(torch.tensor([[3.0]])), torch.tensor([[1.0]]))
    for bad in (torch.nan, torch.inf):
        theta = normal(2, 3, 3)
        theta[1, 0, 0] = bad
        weights = smooth.argmax(theta)
        assert bool(weights[1].isnan().all()) and torch.equal(weights[0], smooth.argmax(theta[0]))
    far = normal(4, 4)
    lowered = torch.where(torch.eye(4).bool(), -1e30, far)
    near = torch.where(torch.eye(4).bool(), -50.0, far)
    torch.testing.assert_close(smooth.argmax(lowered), smooth.argmax(near), atol=1e-12, rtol=0)


def test_stopping_early_warns_once_with_the_gap():
    theta = normal(4, 6, 6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        om.GridTV(0.1, max_iter=1).argmax(theta)
    assert len(caught) == 1 and "duality gap" in str(caught[0].message)


def test_errors():
    with pytest.raises(ValueError, match="strength must be non-negative"):
        om.GridTV(-1.0)
    with pytest.raises(ValueError, match="max_iter must be a positive int"):
        om.GridTV(0.1, max_iter=0)
    with pytest.raises(ValueError, match="two axes for the grid"):
        om.GridTV().argmax(torch.zeros(3))
    with pytest.raises(ValueError, match="size 1 along the grid"):
        om.GridTV(torch.ones(2)).argmax(torch.zeros(3, 2))
