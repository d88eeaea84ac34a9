"""Every edge case, for every operator, both kernels and every float type."""

import pytest
import torch
from cases import CASES, FUSED, GROUP, HARD, OSCAR, SMOOTH, SPARSEMAX, normal

import omegamax as om
from omegamax import routing

INF, NAN = torch.inf, torch.nan

pytestmark = pytest.mark.thinned(2)  # the full round takes all

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
every = pytest.mark.parametrize("case", CASES, ids=str)
typed = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
close = torch.testing.assert_close


def both(case, scores, **keywords):
    """Weights, value, and the gradient of a function of both."""
    x = scores.clone().requires_grad_()
    smooth = case.regularizer(scores.shape[-1])
    weights = om.smooth_argmax(x, smooth, **keywords)
    value = om.smooth_max(x, smooth, **keywords)
    direction = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype)
    total = (weights * direction).sum() + torch.where(value > -INF, value, 0).sum()
    (gradient,) = torch.autograd.grad(total, x)
    assert weights.dtype == value.dtype == gradient.dtype == scores.dtype
    assert weights.shape == scores.shape and value.shape == scores.shape[:-1]
    return weights.detach(), value.detach(), gradient


def unit(dtype):
    return torch.finfo(dtype).eps


@every
@typed
def test_masked_positions_get_nothing_and_give_no_nan(case, dtype, backend):
    scores = normal(5, 6, dtype=dtype)
    scores[0, 2] = -INF
    scores[1] = -INF
    scores[2, 1:] = -INF
    weights, value, gradient = both(case, scores)
    assert not bool(weights.isnan().any() | gradient.isnan().any() | value.isnan().any())
    assert weights[0, 2] == 0 and gradient[0, 2] == 0
    assert bool((weights[1] == 0).all()) and value[1] == -INF and bool((gradient[1] == 0).all())
    assert weights[2].tolist() == [1, 0, 0, 0, 0, 0]
    assert gradient[2].tolist() == [1, 0, 0, 0, 0, 0]  # of the value alone: the weights cannot move
    by_mask = both(case, torch.where(scores == -INF, 7, scores), mask=scores > -INF)
    for a, b in zip((weights, value, gradient), by_mask):
        assert torch.equal(a, b)


@every
@typed
def test_nan_and_infinity_spoil_only_their_own_row(case, dtype, backend):
    clean = normal(6, 6, dtype=dtype)
    scores = clean.clone()
    scores[1, 3], scores[2, 0], scores[3, 5], scores[3, 1] = NAN, INF, INF, -INF
    scores[4, 2], scores[4, 3] = NAN, INF
    weights, value, gradient = both(case, scores)
    expected = both(case, clean)
    for spoiled in (1, 2, 3, 4):
        assert bool(weights[spoiled].isnan().all()) and bool(value[spoiled].isnan())
    for row in (0, 5):
        for actual, right in zip((weights, value, gradient), expected):
            assert torch.equal(actual[row], right[row])


@every
@typed
def test_a_masked_nan_is_not_there(case, dtype, backend):
    scores = normal(2, 6, dtype=dtype)
    scores[0, 1], scores[1, 4] = NAN, INF
    mask = scores.isfinite()
    weights, value, gradient = both(case, scores, mask=mask)
    expected = both(case, torch.where(mask, scores, 0), mask=mask)
    for actual, right in zip((weights, value, gradient), expected):
        assert torch.equal(actual, right)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda d: str(d)[6:])
def test_huge_scores(case, dtype, backend):
    scores = torch.tensor([[1e30, 0, -1e30, 1, -5, 3], [-1e30] * 6, [1e30] * 6, [1e30, 1e30, 0, 0, -1e30, -INF]])
    weights, value, gradient = both(case, scores.to(dtype))
    assert bool(weights.isfinite().all() & value.isfinite().all() & gradient.isfinite().all())
    close(weights.float().sum(-1), torch.ones(4), atol=6 * unit(dtype), rtol=0)
    assert weights[0].tolist() == [1, 0, 0, 0, 0, 0]
    close(value.float(), torch.tensor([1e30, -1e30, 1e30, 1e30]), rtol=2 * unit(dtype), atol=0)
    if case is not HARD:
        close(weights[2].float(), torch.full((6,), 1 / 6), rtol=2 * unit(dtype), atol=0)
        close(weights[3, :2].float(), torch.tensor([0.5, 0.5]), rtol=2 * unit(dtype), atol=0)


@every
@pytest.mark.parametrize("gamma", [1e-12, torch.full((4, 1), 1e-12)], ids=["number", "tensor"])
def test_huge_scores_at_a_small_temperature(case, gamma, backend):
    """Their quotient is no float32; what is far below is still there, and not masked."""
    scores = torch.tensor([[1e30, 0, -1e30, 1, -5, 3], [-1e30] * 6, [1e30, 1e30, 0, 0, 0, -INF], [-INF] * 6])
    x = scores.clone().requires_grad_()
    weights, value = case(x, gamma=gamma), om.smooth_max(x, case.regularizer(6), gamma=gamma)
    (gradient,) = torch.autograd.grad((weights * weights).sum() + value[:3].sum(), x)
    double = gamma.double() if isinstance(gamma, torch.Tensor) else gamma
    close(weights.double(), case(scores.double(), gamma=double), atol=1e-6, rtol=0)
    close(value, torch.tensor([1e30, -1e30, 1e30, -INF]))
    assert bool(gradient.isfinite().all()) and torch.equal(case(scores, gamma=gamma), weights)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
@typed
def test_ties_are_equal_to_the_bit(case, dtype, backend):
    rows = torch.tensor([[0.3] * 8, [1, 1, 1, 1, 0.7, 0.7, 0.7, 0.7], [0.1, 0.1, -2, -2, 0.1, 0.1, -2, -2]]).to(dtype)
    for scores in (rows, rows + 100, rows - 100):
        weights = case(scores)
        for row, x in zip(weights, scores):
            for value in x.unique():
                same = row[x == value]
                positions_alike = case.symmetric or len(x.unique()) == 1
                if positions_alike:
                    assert len(same.unique()) == 1
        if not case.symmetric:  # neighbours in the same segment, members of the same group
            assert weights[1, 0] == weights[1, 1] and weights[2, 0] == weights[2, 1]


def test_hard_ties_go_to_the_lowest_index(backend):
    scores = torch.tensor([[2.0, 3, 3, 1], [-INF, -INF, 0, 0], [5, 5, 5, 5]])
    assert HARD(scores).argmax(-1).tolist() == [1, 2, 0]
    assert bool((HARD(scores).sum(-1) == 1).all())


@every
@typed
@pytest.mark.parametrize("shape", [(1,), (3, 1), (0, 4), (2, 0, 3), (0,), (3, 0), (0, 0)], ids=str)
def test_sizes_zero_and_one(case, dtype, shape, backend):
    scores = normal(*shape, dtype=dtype)
    weights, value, gradient = both(case, scores)
    if shape[-1] == 1:
        assert bool((weights == 1).all()) and torch.equal(gradient, torch.ones_like(gradient))
        penalty = case.numpy_omega([1.0])  # of groups alone
        close(value, scores.squeeze(-1) - penalty, atol=4 * unit(dtype), rtol=unit(dtype))
        single = om.Scaled(case.regularizer(1), 0.5).argmax(scores)
        assert bool((single == 1).all())
    if shape[-1] == 0:
        assert bool((value == -INF).all())


def test_a_single_score_pays_its_own_group_penalty(backend):
    """One position in one group: Ω = strength, the only operator whose value is not the score."""
    close(om.smooth_max(torch.tensor([2.0]), om.GroupLasso([0], 0.25)), torch.tensor(1.75))


@every
@typed
def test_layouts_and_dims(case, dtype, backend):
    """Non-contiguous, expanded, sliced, and any dim are the contiguous last axis."""

    def same(actual, expected):  # PyTorch's own sums depend on strides in the last bit
        if backend == "native":
            assert torch.equal(actual, expected)
        else:
            close(actual, expected, atol=unit(dtype), rtol=4 * unit(dtype))

    base = normal(4, 6, 5, dtype=dtype)
    mask = torch.rand(4, 6, 5) > 0.2
    for dim in (0, 1, 2, -1, -2, -3):
        moved = base.movedim(dim, -1).contiguous()
        same(case(base, dim), case(moved).movedim(-1, dim))
        same(case(base, dim, mask=mask), case(moved, mask=mask.movedim(dim, -1)).movedim(-1, dim))
    row = normal(6, dtype=dtype)
    same(case(row.expand(3, 6)), case(row).expand(3, 6))
    wide = normal(3, 12, dtype=dtype)
    for view in (wide[:, ::2], wide[:, 3:9], wide[::2, :6], wide[:, :1].expand(3, 6), wide.T[:6]):
        same(case(view), case(view.clone(memory_format=torch.contiguous_format)))
    value = om.smooth_max(base, case.regularizer(4), 0)
    same(value, om.smooth_max(base.movedim(0, -1).contiguous(), case.regularizer(4)))


@every
def test_backward_of_layouts(case, backend):
    base = normal(6, 4)
    for view in (lambda x: x.T, lambda x: x[:, ::2].T, lambda x: x[:, :1].T.expand(3, 6)):
        gradients = []
        for arrange in (lambda x: x, torch.clone):
            x = base.clone().requires_grad_()
            weights = case(arrange(view(x)))
            gradients.append(torch.autograd.grad((weights * normal(*weights.shape, seed=1)).sum(), x)[0])
        close(*gradients, atol=1e-15, rtol=1e-14)
        x = base.clone().requires_grad_()
        weights = case(view(x))
        (through_expand,) = torch.autograd.grad(weights, x, torch.ones(1, 1).double().expand_as(weights))
        close(through_expand, torch.zeros_like(base), atol=1e-14, rtol=0)


def check_long_half_rows(case, dtype):
    scores = normal(4, 4096, dtype=dtype) * torch.tensor([[0.01], [0.3], [3.0], [30.0]], dtype=dtype)
    weights = case(scores)
    assert weights.dtype is dtype
    close(weights.float().sum(-1), torch.ones(4), atol=0.01, rtol=0)


halves = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=lambda d: str(d)[6:])


@every
@halves
def test_half_rows_of_4096_sum_to_one(case, dtype):
    check_long_half_rows(case, dtype)


@pytest.mark.slow
@every
@halves
def test_half_rows_of_4096_sum_to_one_in_the_reference(case, dtype, monkeypatch):
    monkeypatch.setattr(routing, "native", None)
    check_long_half_rows(case, dtype)


@every
@halves
def test_half_types_are_rounded_once(case, dtype, backend):
    scores = normal(20, 30, dtype=dtype)
    assert torch.equal(case(scores), case(scores.float()).to(dtype))


@every
@typed
def test_batch_is_loop(case, dtype, backend):
    scores = normal(3, 7, 6, dtype=dtype)
    one_by_one = torch.stack([torch.stack([case(row) for row in block]) for block in scores])
    close(case(scores), one_by_one, atol=unit(dtype), rtol=4 * unit(dtype))


@every
def test_masking_is_removing(case, backend):
    for seed in range(8):
        scores = normal(7, seed=seed)
        kept = torch.rand(7, generator=torch.Generator().manual_seed(seed)).argsort()[: 1 + seed % 6].sort().values
        mask = torch.zeros(7, dtype=torch.bool)
        mask[kept] = True
        direction = normal(7, seed=50 + seed)
        x = scores.clone().requires_grad_()
        smooth = case.regularizer(7)
        weights, value = smooth.argmax(x, mask=mask), smooth.max(x, mask=mask)
        (gradient,) = torch.autograd.grad((weights * direction).sum() + value, x)
        y = scores[kept].clone().requires_grad_()
        smaller = case.regularizer(kept.tolist())
        fewer, smaller_value = smaller.argmax(y), smaller.max(y)
        (expected,) = torch.autograd.grad((fewer * direction[kept]).sum() + smaller_value, y)
        assert bool((weights[~mask] == 0).all()) and bool((gradient[~mask] == 0).all())
        close(weights[kept], fewer, atol=1e-13, rtol=0)
        close(value, smaller_value, atol=1e-13, rtol=0)
        close(gradient[kept], expected, atol=1e-12, rtol=1e-10)


@every
def test_masks_broadcast(case, backend):
    scores = normal(3, 4, 6)
    for shape in ((6,), (1, 6), (4, 6), (3, 1, 6), (4, 1), (3, 1, 1), ()):
        mask = torch.rand(shape) > 0.4
        assert torch.equal(case(scores, mask=mask), case(scores, mask=mask.expand(3, 4, 6).clone()))


@every
def test_float32_is_close_to_float64(case, backend):
    for scale in (0.1, 1.0, 10.0):
        scores = normal(50, 64, scale=scale, dtype=torch.float32)
        single, double = case(scores), case(scores.double())
        close(single.double(), double, atol=3e-5 if case.name == "entmax(3.0)" else 3e-6, rtol=1e-4)
        value = om.smooth_max(scores, case.regularizer(64))
        close(value.double(), om.smooth_max(scores.double(), case.regularizer(64)), atol=2e-6, rtol=2e-6)


@every
def test_zeros_are_exact_far_below_the_top(case, backend):
    scores = normal(20, 30, scale=0.1)
    scores[:, ::3] -= case.half_window + 1
    weights = case(scores)
    if case.sparse:
        assert bool((weights[:, ::3] == 0).all())
    else:
        assert bool((weights > 0).all())


@pytest.mark.parametrize("case", [SPARSEMAX, FUSED, OSCAR, GROUP], ids=str)
def test_the_inputs_are_left_alone(case, backend):
    scores = normal(3, 6)
    scores[0, 0] = -INF
    before = scores.clone()
    mask = torch.ones(3, 6, dtype=torch.bool)
    case(scores, mask=mask, gamma=0.5)
    case(scores)
    assert torch.equal(scores, before) and bool(mask.all())
