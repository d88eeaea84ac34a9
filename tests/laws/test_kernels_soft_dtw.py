"""Soft-DTW of points in one kernel, against the generic engine on a matrix of costs."""

import pytest
import torch
from kernel_cases import DTYPES, INF, NAN
from threads import with_threads

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.kernels.soft_dtw import soft_dtw_of_points

OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm()]  # by their number in the kernel
KINDS = range(len(OMEGAS))
name_of = lambda kind: type(OMEGAS[kind]).__name__  # noqa: E731


def points(batch, m, n, d, dtype=torch.float64):
    return torch.randn(batch, m, d, dtype=dtype), torch.randn(batch, n, d, dtype=dtype)


def some_lengths(batch, m, n):
    """The first item is full."""
    found = torch.stack([torch.randint(1, m + 1, (batch,)), torch.randint(1, n + 1, (batch,))], 1)
    found[0] = torch.tensor([m, n])
    return found


def expected(x, y, lengths, gamma, kind):
    """The generic engine gives the alignment, autograd through the distances the rest; in float64."""
    x, y = (points.double().requires_grad_() for points in (x, y))
    costs = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(-1)
    structure = om.Alignment()
    problem = structure.bind(costs.detach() / -gamma, None if lengths is None else tuple(lengths.unbind(1)))
    program = LatticeProgram(problem.lattice, OMEGAS[kind], problem.goals)
    value, state = program.value(problem.parts)
    alignment = program.marginals(problem.parts, state).parts[0]
    return (-gamma * value, *torch.autograd.grad(costs, (x, y), alignment))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 1, 9, 3), (2, 40, 1, 2), (3, 9, 11, 2), (3, 33, 70, 4), (2, 70, 33, 5)], ids=str
)
@pytest.mark.thinned(3)
def test_the_definition(twin, shape, kind, dtype):
    x, y = points(*shape, dtype)
    tolerance = 1e-3 if dtype == torch.float32 else 1e-10
    for lengths in (None, some_lengths(*shape[:3])):
        for gamma in (1.0, 0.3):
            found = twin(soft_dtw_of_points, x, y, lengths, gamma, kind, True, True)
            for each, should_be in zip(found, expected(x, y, lengths, gamma, kind)):
                assert each.dtype == dtype
                torch.testing.assert_close(each.double(), should_be, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_weights_that_are_computed_again(arch, kind):
    x, y = points(2, 230, 240, 3)  # too many weights to keep
    lengths = torch.tensor([[230, 240], [225, 33]])
    found = soft_dtw_of_points(x, y, lengths, 0.5, kind, True, True)
    for each, should_be in zip(found, expected(x, y, lengths, 0.5, kind)):
        torch.testing.assert_close(each, should_be, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@pytest.mark.parametrize("size", [(20, 25), (400, 390)], ids=str)
def test_what_is_asked_for_does_not_change_what_is_found(arch, size, kind):
    x, y = points(3, *size, 2, torch.float32)
    value, to_x, to_y = soft_dtw_of_points(x, y, None, 1.0, kind, True, True)
    for wants in ((False, False), (True, False), (False, True)):
        again, *gradients = soft_dtw_of_points(x, y, None, 1.0, kind, *wants)
        assert torch.equal(again, value)
        for each, full, wanted in zip(gradients, (to_x, to_y), wants):
            assert torch.equal(each, full) if wanted else each is None
    n_threads = 3 - min(torch.get_num_threads(), 2)
    other = with_threads(n_threads, lambda: soft_dtw_of_points(x, y, None, 1.0, kind, True, True))
    assert all(torch.equal(a, b) for a, b in zip(other, (value, to_x, to_y)))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@pytest.mark.parametrize("garbage", [NAN, INF, 1e30])
def test_padding_is_not_read(twin, kind, garbage):
    lengths = torch.tensor([[3, 40], [35, 5], [1, 1]])
    x, y = points(3, 36, 41, 2)
    clean = twin(soft_dtw_of_points, x, y, lengths, 1.0, kind, True, True)
    for item, (m, n) in enumerate(lengths.tolist()):
        x[item, m:], y[item, n:] = garbage, garbage
    dirty = twin(soft_dtw_of_points, x, y, lengths, 1.0, kind, True, True)
    for a, b in zip(clean, dirty):
        assert torch.equal(a, b)
    assert (dirty[1][0, 3:] == 0).all() and (dirty[2][1, 5:] == 0).all()


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_what_is_not_finite_stays_in_its_item(twin, kind):
    x, y = points(4, 37, 20, 2)
    clean = twin(soft_dtw_of_points, x, y, None, 1.0, kind, True, True)
    x[0, 33, 1] = NAN  # not a number
    y[1, 7, 0] = INF  # out of reach
    x[2, 0], y[2, 0] = INF, INF  # inf - inf
    value, to_x, to_y = twin(soft_dtw_of_points, x, y, None, 1.0, kind, True, True)
    assert value[0].isnan() and to_x[0].isnan().all() and to_y[0].isnan().all()
    assert value[1] == INF and (to_x[1] == 0).all() and (to_y[1] == 0).all()
    assert value[2].isnan() and to_x[2].isnan().all() and to_y[2].isnan().all()
    for found, before in zip((value, to_x, to_y), clean):
        assert torch.equal(found[3], before[3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_away_and_far_apart(twin, dtype):
    x = torch.arange(6, dtype=dtype).reshape(1, 6, 1)
    near = twin(soft_dtw_of_points, x, x, None, 1.0, 1, True, True)
    for each, moved in zip(near, twin(soft_dtw_of_points, x + 1e4, x + 1e4, None, 1.0, 1, True, True)):
        assert torch.equal(each, moved)  # differences are exact
    value, to_x, _ = twin(soft_dtw_of_points, 1e3 * x, -1e3 * x, None, 1.0, 1, True, True)
    torch.testing.assert_close(value, twin(soft_dtw_of_points, 1e3 * x, -1e3 * x, None, 1.0, 0, True, True)[0])
    assert to_x.isfinite().all()


def test_strides_and_an_empty_batch(twin):
    x, y = torch.randn(2, 3, 6).mT, torch.randn(1, 4, 3).expand(2, 4, 3)
    for a, b in zip(
        twin(soft_dtw_of_points, x, y, None, 1.0, 1, True, True),
        twin(soft_dtw_of_points, x.contiguous(), y.contiguous(), None, 1.0, 1, True, True),
    ):
        assert torch.equal(a, b)
    assert [tuple(t.shape) for t in twin(soft_dtw_of_points, x[:0], y[:0], None, 1.0, 1, True, True)] == [
        (0,),
        (0, 6, 3),
        (0, 4, 3),
    ]
