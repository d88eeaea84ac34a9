"""Kernels on lists of series, against their references and against recursions written cell by cell."""

import itertools
import math

import pytest
import torch
from kernel_cases import DTYPES, INF, NAN

import omegamax as om
from omegamax.kernels.series_distances import BandKind, PlainBand, inside_band, series_distances
from omegamax.kernels.series_search import series_bounds, series_search
from omegamax.kernels.soft_dtw import soft_dtw_of_points
from omegamax.kernels.structures.omega import Omega
from omegamax.structures.bands import Itakura, SakoeChiba

BANDS = [PlainBand(), PlainBand(BandKind.SAKOE_CHIBA, 2.0), PlainBand(BandKind.ITAKURA, 2.0)]
OMEGAS = [Omega.HARD, Omega.SHANNON, Omega.SQUARED_NORM]


def lists(n, p, m, columns, d, dtype=torch.float64, unequal=True):
    x, y = torch.randn(n, m, d, dtype=dtype), torch.randn(p, columns, d, dtype=dtype)
    lengths = [torch.full((n,), m), torch.full((p,), columns)]
    if unequal:
        lengths = [torch.randint(1, m + 1, (n,)), torch.randint(1, columns + 1, (p,))]
    return x, y, *lengths


def by_cells(x, y, inside):
    """The cheapest path, as a textbook has it."""
    m, n = len(x), len(y)
    found = [[math.inf] * (n + 1) for _ in range(m + 1)]
    found[0][0] = 0.0
    for i, j in itertools.product(range(m), range(n)):
        if inside[i][j]:
            cost = sum((a - b) ** 2 for a, b in zip(x[i].tolist(), y[j].tolist()))
            found[i + 1][j + 1] = cost + min(found[i][j], found[i][j + 1], found[i + 1][j])
    return found[m][n]


@pytest.mark.parametrize("band", BANDS, ids=lambda band: band.kind.name)
def test_dtw_is_the_textbook_recursion(twin, band):
    x, y, x_lengths, y_lengths = lists(4, 9, 7, 8, 2)
    found = twin(series_distances, x, y, x_lengths, y_lengths, 1.0, Omega.HARD, band, False)
    for i, j in itertools.product(range(4), range(9)):
        m, n = int(x_lengths[i]), int(y_lengths[j])
        plain = {BandKind.SAKOE_CHIBA: SakoeChiba(2), BandKind.ITAKURA: Itakura(2.0)}.get(band.kind)
        inside = torch.ones(m, n, dtype=torch.bool)
        if plain is not None:
            first, last = plain.rows(m, torch.tensor([m]), torch.tensor([n]))
            inside = (torch.arange(n) >= first[0].unsqueeze(1)) & (torch.arange(n) <= last[0].unsqueeze(1))
        assert float(found[i, j]) == pytest.approx(by_cells(x[i, :m], y[j, :n], inside.tolist()), rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: omega.name)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (3, 70, 6, 9, 1), (9, 13, 20, 5, 3)], ids=str)
@pytest.mark.thinned(3)
def test_native_is_the_reference(arch, shape, omega, dtype):
    tolerance = 2e-4 if dtype == torch.float32 else 1e-11
    for band, unequal in itertools.product(BANDS, (False, True)):
        inputs = (*lists(*shape, dtype, unequal), 0.5, omega, band, False)
        found = series_distances.native(*inputs)
        assert found.dtype == dtype
        torch.testing.assert_close(found, series_distances.reference(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: omega.name)
def test_a_triangle_is_a_part_of_the_square(arch, omega):
    x, _, lengths, _ = lists(70, 1, 9, 1, 1)
    square = series_distances(x, x, lengths, lengths, 1.0, omega, BANDS[0], False)
    triangle = series_distances(x, x, lengths, lengths, 1.0, omega, BANDS[0], True)
    torch.testing.assert_close(triangle, square.triu(), rtol=1e-12, atol=1e-12)


def test_equal_series_are_at_distance_zero(twin):
    x, _, lengths, _ = lists(5, 1, 9, 1, 3)
    found = twin(series_distances, 1e3 + x, 1e3 + x, lengths, lengths, 1.0, Omega.HARD, BANDS[1], False)
    assert (found.diagonal() == 0).all()
    assert torch.equal(found, found.mT)


@pytest.mark.parametrize("garbage", [NAN, INF, 1e30])
def test_padding_is_not_read(twin, garbage):
    x, y, x_lengths, y_lengths = lists(3, 20, 6, 7, 2)
    clean = twin(series_distances, x, y, x_lengths, y_lengths, 1.0, Omega.SHANNON, BANDS[1], False)
    for series, lengths in ((x, x_lengths), (y, y_lengths)):
        for one, length in zip(series, lengths.tolist()):
            one[length:] = garbage
    assert torch.equal(clean, twin(series_distances, x, y, x_lengths, y_lengths, 1.0, Omega.SHANNON, BANDS[1], False))


@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_a_series_that_is_not_finite_has_no_distances(twin, wrong):
    x, y, x_lengths, y_lengths = lists(3, 20, 6, 7, 1, unequal=False)
    x[1, 3], y[4, 6] = wrong, wrong
    found = twin(series_distances, x, y, x_lengths, y_lengths, 1.0, Omega.HARD, BANDS[0], False).isnan()
    expected = torch.zeros(3, 20, dtype=torch.bool)
    expected[1], expected[:, 4] = True, True
    assert torch.equal(found, expected)


@pytest.mark.parametrize("band", [SakoeChiba(0), SakoeChiba(3), Itakura(1.0), Itakura(2.5)], ids=str)
def test_bands_are_those_of_structures(band):
    kind = BandKind.SAKOE_CHIBA if isinstance(band, SakoeChiba) else BandKind.ITAKURA
    plain = PlainBand(kind, float(band.width if isinstance(band, SakoeChiba) else band.slope))
    sizes = torch.cartesian_prod(torch.arange(1, 14), torch.arange(1, 14))
    first, last = band.rows(13, *sizes.unbind(1))
    j = torch.arange(13)
    expected = (j >= first.unsqueeze(2)) & (j <= last.unsqueeze(2))
    assert torch.equal(inside_band(plain, 13, 13, *sizes.unbind(1)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("band", BANDS, ids=lambda band: band.kind.name)
def test_bounds_are_below_the_distances(twin, band, dtype):
    for unequal in (False, True):
        inputs = lists(9, 21, 12, 12 if band.kind else 9, 2, dtype, unequal)
        distances = series_distances(*inputs, 1.0, Omega.HARD, band, False)
        for bound in twin(series_bounds, *inputs, band):
            assert (bound <= distances * (1 + 1e-5)).all()
            assert (bound >= 0).all() and (bound > 0).any()
        torch.testing.assert_close(twin(series_bounds, *inputs, band), series_bounds.reference(*inputs, band))


def searched(twin, inputs, band, k, radius, dense):
    kim, keogh = series_bounds(*inputs, band)
    bound = torch.maximum(kim, keogh) * (1 - 1e-4)
    return twin(series_search, *inputs, band, bound.argsort(1), kim * (1 - 1e-4), bound, k, radius, dense)


@pytest.mark.parametrize("band", BANDS, ids=lambda band: band.kind.name)
@pytest.mark.parametrize("unequal", [False, True])
def test_a_search_finds_what_the_matrix_has(twin, band, unequal):
    x, y, x_lengths, y_lengths = lists(6, 90, 14, 14, 1, unequal=unequal)
    x, y = x.round(), y.round()  # many ties
    inputs = x, y, x_lengths, y_lengths
    matrix = series_distances(*inputs, 1.0, Omega.HARD, band, False)
    distances, numbers = matrix.sort(dim=1, stable=True)
    for k in (1, 3, 90):
        found = searched(twin, inputs, band, k, math.inf, False)
        assert torch.equal(found.nearest, distances[:, :k]) and torch.equal(found.numbers, numbers[:, :k])
        assert (found.counts.sum(1) == 90).all()
    radius = float(distances[:, 9].median())
    found = searched(twin, inputs, band, 0, radius, True)
    assert torch.equal(
        torch.where(found.distances <= radius, found.distances, INF), matrix.where(matrix <= radius, INF)
    )


def test_a_search_rules_pairs_out(arch):
    inputs = lists(20, 400, 30, 30, 1, unequal=False)
    smooth = [each.cumsum(1) for each in inputs[:2]]
    found = searched(lambda kernel, *rest: kernel.native(*rest), (*smooth, *inputs[2:]), BANDS[1], 1, math.inf, False)
    assert (found.counts[:, :2].sum(1) > 0).all() and found.counts[:, 3].sum() < 20 * 400 / 4


# Long series: rows are computed again, and nothing changes.


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_in_a_band(twin, dtype):
    x, y = torch.randn(3, 40, 2, dtype=dtype), torch.randn(3, 37, 2, dtype=dtype)
    lengths = torch.tensor([[40, 37], [21, 30], [1, 9]])
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    for band, omega in itertools.product((SakoeChiba(3), Itakura(2.0)), OMEGAS):
        rows = tuple(each.int() for each in band.rows(40, *lengths.unbind(1)))
        found = twin(soft_dtw_of_points, x, y, lengths, 0.5, omega, True, True, rows)
        a, b = (each.double().requires_grad_() for each in (x, y))
        costs = (a.unsqueeze(2) - b.unsqueeze(1)).square().sum(-1)
        regularizer = [om.Hard(), om.Shannon(), om.SquaredNorm()][omega]
        value = om.structures.soft_dtw_from_costs(
            costs, 0.5, lengths=tuple(lengths.unbind(1)), regularizer=regularizer, band=band
        )
        expected = (value, *torch.autograd.grad(value.sum(), (a, b)))
        for each, should_be in zip(found, expected):
            torch.testing.assert_close(each.double(), should_be.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("omega", [Omega.SHANNON, Omega.SQUARED_NORM], ids=lambda omega: omega.name)
def test_rows_that_are_computed_again(omega):
    """A grid so large that rows are kept for one segment of strips at a time; transposed it has other segments."""
    x, y = torch.randn(1, 4100, 1, dtype=torch.float64), torch.randn(1, 8200, 1, dtype=torch.float64)
    value, to_x, to_y = soft_dtw_of_points(x, y, None, 1.0, omega, True, True)
    other, along_y, along_x = soft_dtw_of_points(y, x, None, 1.0, omega, True, True)
    for a, b in ((value, other), (to_x, along_x), (to_y, along_y)):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    assert abs(float(to_x.sum() + to_y.sum())) < 1e-6  # a shift of both changes nothing
    assert to_x.abs().sum() > 1
