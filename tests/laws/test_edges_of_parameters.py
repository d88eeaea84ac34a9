"""Edge rows when α, strength or γ learn: each row's parameter sees its own row only."""

import pytest
import torch
from cases import CASES, LEARNABLE, normal

import omegamax as om

INF = torch.inf
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
typed = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])


def edge_rows(dtype):
    rows = normal(8, 6, dtype=dtype)
    rows[0, 2] = -INF  # one masked
    rows[1] = -INF  # nothing allowed
    rows[2, 1:] = -INF  # one allowed
    rows[3] = 0.5  # ties
    rows[4, 0], rows[4, 1] = (1e30, -1e30) if dtype is not torch.float16 else (6e4, -6e4)
    rows[5, 3] = torch.nan
    rows[6, 0] = INF
    return rows


def gradients(smooth_of, parameter, rows):
    """The gradient of a parameter per row, through the weights and through the value, and that of the scores."""
    parameter, rows = parameter.clone().requires_grad_(), rows.clone().requires_grad_()
    smooth = smooth_of(parameter)
    weights, value = smooth.argmax(rows), smooth.max(rows)
    direction = torch.arange(1, 7, dtype=rows.dtype)
    of_weights = torch.autograd.grad((weights * direction).sum(), (parameter, rows), retain_graph=True)
    of_value = torch.autograd.grad(value.sum(), (parameter, rows))
    return of_weights, of_value


def check(smooth_of, parameter, dtype):
    rows = edge_rows(dtype)
    together = gradients(smooth_of, parameter, rows)
    for row in (0, 1, 2, 3, 4, 7):  # the others are NaN
        alone = gradients(smooth_of, parameter[row : row + 1], rows[row : row + 1])
        for (of_parameter, of_scores), (p, s) in zip(together, alone):
            assert bool(p.isfinite().all()) and bool(s.isfinite().all())
            torch.testing.assert_close(of_parameter[row : row + 1], p, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(of_scores[row : row + 1], s, atol=1e-6, rtol=1e-5)
    for of_parameter, of_scores in together:
        assert bool((of_parameter[1] == 0).all()) and bool((of_scores[1] == 0).all())


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
@typed
def test_parameters_of_edge_rows(case, dtype, backend):
    value = torch.full((8, 1), case.options[case.learnable])
    check(lambda v: case.regularizer(6, **{case.learnable: v}), value, dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
@typed
@pytest.mark.thinned(3)
def test_temperatures_of_edge_rows(case, dtype, backend):
    check(lambda g: om.Scaled(case.regularizer(6), g), torch.linspace(0.5, 2, 8).unsqueeze(-1), dtype)


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
@pytest.mark.parametrize("shape", [(1,), (3, 1), (0, 4), (3, 0), (0,)], ids=str)
def test_parameters_of_small_rows(case, shape, backend):
    value = torch.tensor(case.options[case.learnable], requires_grad=True)
    scores = normal(*shape, dtype=torch.float32).requires_grad_()
    smooth = case.regularizer(shape[-1], **{case.learnable: value})
    total = smooth.argmax(scores).sum()
    if shape[-1]:
        total = total + smooth.max(scores).sum()
    of_value, of_scores = torch.autograd.grad(total, (value, scores))
    assert bool(of_value.isfinite()) and of_scores.shape == shape


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_a_parameter_keeps_its_own_dtype(case, backend):
    """A float32 parameter beside half or double scores gets a float32 gradient."""
    for dtype in DTYPES:
        value = torch.full((4, 1), case.options[case.learnable], requires_grad=True)
        scores = normal(4, 6, dtype=dtype).requires_grad_()
        weights = case.regularizer(6, **{case.learnable: value}).argmax(scores)
        weights.square().sum().backward()
        assert weights.dtype is dtype and scores.grad.dtype is dtype and value.grad.dtype is torch.float32


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_a_parameter_per_row_is_each_row_alone(case, backend):
    scores = normal(5, 6)
    values = case.options[case.learnable] * torch.linspace(1, 2, 5, dtype=torch.float64).unsqueeze(-1)
    together = case.regularizer(6, **{case.learnable: values}).argmax(scores)
    alone = [case.regularizer(6, **{case.learnable: float(v)}).argmax(x) for v, x in zip(values, scores)]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-14, rtol=1e-13)
