"""Every operator under every way PyTorch has of running a function, against the plain eager answer."""

import copy
import io
import pickle

import pytest
import torch
from cases import CASES, ENTMAX13, HARD, LEARNABLE, OSCAR, normal, smooth_scores
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import jacfwd, jacrev
from torch.utils.checkpoint import checkpoint

import omegamax as om

every = pytest.mark.parametrize("case", CASES, ids=str)
learnable = pytest.mark.parametrize("case", LEARNABLE, ids=str)
close = torch.testing.assert_close


def parameter(case, shape=(), dtype=torch.float64):
    return torch.full(shape, case.options[case.learnable], dtype=dtype)


def weighted(case, columns, direction, **changed):
    """A scalar that depends on both outputs."""
    smooth = case.regularizer(columns, **changed)
    return lambda x: (smooth.argmax(x) * direction).sum(-1) + smooth.max(x)


# ---------------------------------------------------------------- with and without gradient


@every
def test_no_grad_and_grad_give_the_same_bits(case, backend):
    scores = normal(4, 6)
    tracked = case(scores.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(case(scores.clone().requires_grad_()), tracked)
    with torch.inference_mode():
        assert torch.equal(case(scores.clone()), tracked)
    assert tracked.requires_grad and not case(scores).requires_grad


@learnable
def test_a_gradient_for_the_parameter_alone(case, backend):
    """The scores need none; the parameter is one per row or one number; value and weights are both checked."""
    scores, direction = smooth_scores(case, 3, 5, seed=3), normal(3, 5, seed=4)
    for shape in ((3, 1), (1, 1), (1,), ()):
        value = parameter(case, shape).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda v: om.smooth_argmax(scores, case.regularizer(5, **{case.learnable: v})) * direction, (value,)
        )
        assert torch.autograd.gradcheck(
            lambda v: om.smooth_max(scores, case.regularizer(5, **{case.learnable: v})), (value,)
        )


@learnable
def test_parameter_gradient_when_positions_are_masked(case, backend):
    """It is the same as when they are removed; weights on both sides of a gap make the neighbours matter."""
    scores, kept = torch.tensor([0.31, 9.0, -0.12, -0.05, 9.0, 0.17], dtype=torch.float64), [0, 2, 3, 5]
    mask = torch.zeros(6, dtype=torch.bool)
    mask[kept] = True
    direction = normal(6, seed=6)
    gradients = []
    for x, d, positions, m in ((scores, direction, range(6), mask), (scores[kept], direction[kept], kept, None)):
        value = parameter(case).requires_grad_()
        smooth = case.regularizer(positions, **{case.learnable: value})
        (of_weights,) = torch.autograd.grad((smooth.argmax(x, mask=m) * d).sum(), value)
        (of_value,) = torch.autograd.grad(smooth.max(x, mask=m), value)
        gradients.append(torch.stack([of_weights, of_value]))
    close(*gradients, atol=1e-12, rtol=1e-10)


@every
def test_a_gradient_for_gamma_alone(case, backend):
    scores, direction = smooth_scores(case, 3, 5, seed=3), normal(3, 5, seed=4)
    gamma = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: case(scores, gamma=g) * direction, (gamma,))
    assert torch.autograd.gradcheck(lambda g: om.smooth_max(scores, case.regularizer(5), gamma=g), (gamma,))


@learnable
@pytest.mark.thinned(2)
def test_scores_and_parameter_in_forward_and_reverse_mode(case, backend):
    scores = smooth_scores(case, 2, 5, seed=7).requires_grad_()
    value = parameter(case, (2, 1)).requires_grad_()
    function = lambda x, v: case.functional(x, **case.arguments(5, **{case.learnable: v}))  # noqa: E731
    assert torch.autograd.gradcheck(function, (scores, value), check_forward_ad=True)


@learnable
def test_a_second_derivative_of_a_parameter_raises(case, backend):
    scores = normal(2, 5).requires_grad_()
    value = parameter(case).requires_grad_()
    smooth = case.regularizer(5, **{case.learnable: value})
    for output in (smooth.argmax(scores).square().sum(), smooth.max(scores).square().sum()):
        (first,) = torch.autograd.grad(output, value, create_graph=True)
        for asked in (value, scores):
            with pytest.raises(RuntimeError, match="once"):
                torch.autograd.grad(first, asked, retain_graph=True)


@learnable
def test_a_second_derivative_of_scores_beside_a_learnable_parameter(case, backend):
    """Mixed derivatives raise or are right, never a silent zero."""
    scores = smooth_scores(case, 1, 5, seed=8)[0].requires_grad_()
    value = parameter(case).requires_grad_()
    smooth = case.regularizer(5, **{case.learnable: value})
    (first,) = torch.autograd.grad(smooth.max(scores).square(), scores, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), scores, retain_graph=True)
    plain = torch.func.hessian(lambda x: case.regularizer(5).max(x).square())(scores.detach())
    close(second, plain.sum(0), atol=1e-10, rtol=1e-10)
    direction = normal(5, seed=1)
    (of_weights,) = torch.autograd.grad(smooth.argmax(scores) @ direction, scores, create_graph=True)
    try:
        (mixed,) = torch.autograd.grad((of_weights * direction).sum(), value, allow_unused=False)
    except RuntimeError:
        return
    step = 1e-5
    moved = [
        torch.autograd.functional.jacobian(
            case.regularizer(5, **{case.learnable: case.options[case.learnable] + s}).argmax, scores.detach()
        )
        for s in (step, -step)
    ]
    expected = direction @ ((moved[0] - moved[1]) / (2 * step)) @ direction
    close(mixed, expected, atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------- torch.func and forward mode


@every
def test_torch_func_transforms(case, backend):
    scores, direction = smooth_scores(case, 3, 5, seed=9), normal(5, seed=1)
    function = weighted(case, 5, direction)
    tracked = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad(function(tracked).sum(), tracked)
    close(torch.func.vmap(torch.func.grad(function))(scores), expected, atol=1e-13, rtol=1e-12)
    close(torch.func.vmap(function)(scores), function(scores), atol=1e-14, rtol=1e-13)
    close(torch.func.vmap(function, in_dims=1)(scores.T.contiguous()), function(scores), atol=1e-14, rtol=1e-13)
    _, along = torch.func.jvp(function, (scores,), (torch.ones_like(scores),))
    close(along, expected.sum(-1), atol=1e-13, rtol=1e-12)


@every
def test_torch_func_jacobians_and_hessians(case, backend):
    row, direction = smooth_scores(case, 1, 5, seed=9)[0], normal(5, seed=1)
    smooth = case.regularizer(5)
    expected = torch.autograd.functional.jacobian(smooth.argmax, row)
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        close(jacobian(smooth.argmax)(row), expected, atol=1e-12, rtol=1e-11)
    close(torch.func.hessian(smooth.max)(row), expected, atol=1e-12, rtol=1e-11)
    function = weighted(case, 5, direction)
    close(torch.func.hessian(function)(row), torch.autograd.functional.hessian(function, row), atol=1e-11, rtol=1e-10)


NESTINGS = [(outer, inner) for outer in (jacrev, jacfwd) for inner in (jacrev, jacfwd)]


@every
@pytest.mark.thinned(3)
def test_second_derivatives_in_every_nesting(case, backend):
    """PyTorch switches forward mode off inside a Function's jvp, and with it that of an outer transform."""
    row, direction = smooth_scores(case, 1, 5, seed=9)[0], normal(5, seed=1)
    function = weighted(case, 5, direction)
    expected = torch.autograd.functional.hessian(function, row)
    for outer, inner in NESTINGS:
        close(outer(inner(function))(row), expected, atol=1e-11, rtol=1e-10)


@every
def test_many_gradients_at_once(case, backend):
    """`is_grads_batched=True`, which is PyTorch's own vmap and not `torch.func`'s."""
    scores = smooth_scores(case, 2, 5, seed=9).requires_grad_()
    inputs = (scores, parameter(case, (2, 1)).requires_grad_()) if case.learnable else (scores,)

    def both(x, *value):
        smooth = case.regularizer(5, **dict(zip([case.learnable], value)))
        return smooth.argmax(x), smooth.max(x)

    assert torch.autograd.gradcheck(both, inputs, check_batched_grad=True)


@learnable
@pytest.mark.thinned(2)
def test_second_derivatives_of_a_parameter_in_every_nesting(case, backend):
    """Reverse mode takes it once and raises; forward mode inside is right."""
    row, direction, step = smooth_scores(case, 1, 5, seed=9)[0], normal(5, seed=1), 1e-5

    def function(x, v):
        return weighted(case, 5, direction, **{case.learnable: v})(x)

    value = parameter(case)
    slope = jacfwd(function, 1)
    expected = (slope(row, value + step) - slope(row, value - step)) / (2 * step)
    for outer in (jacrev, jacfwd):
        close(outer(slope, 1)(row, value), expected, atol=1e-6, rtol=1e-6)
        with pytest.raises(RuntimeError, match="once"):
            outer(jacrev(function, 1), 1)(row, value)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(value.requires_grad_(), torch.ones_like(value))
        with pytest.raises(RuntimeError, match="once"):
            torch.autograd.grad(function(row, dual), dual)


@learnable
def test_vmap_over_the_parameter(case, backend):
    scores, values = normal(4, 5), parameter(case, (4,)) * torch.tensor([1.0, 1.1, 1.2, 1.3])
    function = lambda x, v: case.functional(x, **case.arguments(5, **{case.learnable: v}))  # noqa: E731
    one_by_one = torch.stack([function(x, v) for x, v in zip(scores, values)])
    close(torch.func.vmap(function)(scores, values), one_by_one, atol=1e-14, rtol=1e-13)
    together = torch.func.vmap(function, in_dims=(1, 1))(scores.T, values.reshape(1, 4))
    close(together, one_by_one, atol=1e-14, rtol=1e-13)
    shared = torch.stack([function(scores, v) for v in values])
    close(torch.func.vmap(function, in_dims=(None, 0))(scores, values), shared, atol=1e-14, rtol=1e-13)
    slope = torch.func.vmap(torch.func.grad(lambda v, x: function(x, v).square().sum()))(values, scores)
    tracked = values.clone().requires_grad_()
    (expected,) = torch.autograd.grad(function(scores, tracked.unsqueeze(-1)).square().sum(), tracked)
    close(slope, expected, atol=1e-12, rtol=1e-11)


@every
def test_forward_mode(case, backend):
    row, tangent = smooth_scores(case, 1, 5, seed=10)[0], normal(5, seed=2)
    expected = torch.autograd.functional.jacobian(case, row) @ tangent
    with forward_ad.dual_level():
        dual = case(forward_ad.make_dual(row, tangent))
        close(forward_ad.unpack_dual(dual).tangent, expected, atol=1e-13, rtol=1e-12)


# ---------------------------------------------------------------- other tensors


@every
def test_fake_and_meta_tensors(case):
    for dtype in (torch.float64, torch.bfloat16):
        meta = case(torch.empty(3, 6, device="meta", dtype=dtype))
        assert meta.shape == (3, 6) and meta.is_meta and meta.dtype is dtype
    value = om.smooth_max(torch.empty(3, 6, device="meta"), case.regularizer(6))
    assert value.shape == (3,) and value.is_meta
    with FakeTensorMode():
        scores = torch.empty(3, 6, requires_grad=True)
        weights = case(scores)
        weights.sum().backward()
        assert weights.shape == (3, 6) and scores.grad.shape == (3, 6)


@every
def test_tensor_subclasses(case):
    class Tagged(torch.Tensor):
        pass

    scores = normal(3, 6)
    close(case(scores.as_subclass(Tagged)).as_subclass(torch.Tensor), case(scores), atol=1e-14, rtol=1e-13)


@every
def test_activation_checkpointing(case, backend):
    direction = normal(4, 6, seed=1)
    gradients = []
    for run in (case, lambda x: checkpoint(case, x, use_reentrant=False)):
        scores = normal(4, 6).requires_grad_()
        gradients.append(torch.autograd.grad((run(scores) * direction).sum(), scores)[0])
    assert torch.equal(*gradients)


@every
def test_modules_are_copied_and_pickled(case):
    module, scores = case.module(gamma=0.5, **case.arguments(6)), normal(4, 6)
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    for twin in (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(saved, weights_only=False),
    ):
        assert twin is not module and torch.equal(twin(scores), module(scores))
    for regularizer in (case.regularizer(6),):
        twin = pickle.loads(pickle.dumps(regularizer))
        assert torch.equal(twin.argmax(scores), regularizer.argmax(scores))


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_autocast_keeps_the_dtype(case, dtype):
    scores = normal(4, 6, dtype=dtype).requires_grad_()
    expected = case(scores)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weights = case(scores)
        value = om.smooth_max(scores, case.regularizer(6))
    assert weights.dtype is dtype and value.dtype is dtype
    close(weights, expected, atol=0, rtol=0)
    weights.sum().backward()
    assert scores.grad.dtype is dtype


def test_hardmax_has_a_zero_gradient_that_is_there():
    scores = normal(3, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(HARD(scores).sum(), scores)
    assert torch.equal(gradient, torch.zeros(3, 4).double())


def test_an_inner_and_an_outer_derivative():
    """grad of a function that itself uses grad: gradient penalties."""

    def penalty(x):
        (inner,) = torch.autograd.grad(om.smooth_max(x, om.Tsallis(1.3)).square().sum(), x, create_graph=True)
        return inner.square().sum()

    assert torch.autograd.gradcheck(penalty, (smooth_scores(ENTMAX13, 2, 5).requires_grad_(),))
    assert torch.autograd.gradgradcheck(
        lambda x: OSCAR(x).square().sum(), (smooth_scores(OSCAR, 2, 5).requires_grad_(),)
    )


def test_a_tensor_that_outlived_its_transform_is_a_plain_one():
    kept = []
    torch.func.grad(lambda x: (kept.append(x), x.sum())[1])(torch.tensor([1.0, 0.5, -2.0]))
    assert kept[0].requires_grad  # so it says, though there is no graph any more
    close(om.sparsemax(kept[0]), torch.tensor([0.75, 0.25, 0.0]))
