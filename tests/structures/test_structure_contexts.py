"""Structures in the places where PyTorch calls them."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import omegamax as om


@pytest.fixture
def potentials():
    return torch.randn(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)


def loss(potentials):
    chain = om.Chain()
    return (2 * chain.max(2 * potentials, om.SquaredNorm())).sum() + chain.argmax(potentials).square().sum()


def test_torch_func(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    torch.testing.assert_close(torch.func.grad(loss)(potentials.detach()), expected)
    direction = torch.randn_like(expected)
    _, along = torch.func.jvp(loss, (potentials.detach(),), (direction,))
    torch.testing.assert_close(along, (expected * direction).sum())
    jacobian = torch.func.jacrev(om.Chain().max, chunk_size=1)(potentials.detach()[0])
    torch.testing.assert_close(jacobian, om.Chain().argmax(potentials.detach()[0]))


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.3)], ids=str)
@pytest.mark.thinned(2)
def test_jacobians_and_hessians(potentials, omega):
    """Transforms that differentiate along many directions at once."""
    x = potentials.detach()[0]

    def value(x):
        return om.Chain().max(x, omega)

    def weights(x):
        return om.Chain().argmax(x, omega)

    expected = torch.autograd.functional.jacobian(weights, x)
    for transform, function in (
        (torch.func.jacrev, weights),
        (torch.func.jacfwd, weights),
        (torch.func.hessian, value),
        (lambda f: torch.func.jacrev(torch.func.jacrev(f)), value),
    ):
        torch.testing.assert_close(transform(function)(x), expected)
    with pytest.raises(RuntimeError, match="differentiate once"):
        torch.func.hessian(lambda x: weights(x).square().sum())(x)


def test_a_vmap_is_a_batch(potentials):
    x = potentials.detach()
    torch.testing.assert_close(torch.func.vmap(om.Chain().max)(x), om.Chain().max(x))
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(om.Chain().max))(x), om.Chain().argmax(x))
    alphas = torch.tensor([1.2, 1.5], dtype=torch.float64)
    each = torch.stack([om.Chain().max(x, om.Tsallis(float(alpha))) for alpha in alphas])
    torch.testing.assert_close(torch.func.vmap(lambda alpha: om.Chain().max(x, om.Tsallis(alpha)))(alphas), each)


def test_several_gradients_at_once_are_refused_in_words(potentials):
    with pytest.raises(RuntimeError, match=r"one gradient at a time, got several at once .*use torch\.func\.jacrev"):
        torch.autograd.functional.jacobian(om.Chain().argmax, potentials, vectorize=True)


def test_forward_mode_twice(potentials):
    """The value has a second derivative in forward mode too; the marginals refuse theirs."""
    chain, x, v = om.Chain(), potentials.detach(), torch.randn_like(potentials)

    def along(function):
        return lambda x: torch.func.jvp(function, (x,), (v,))[1]

    def value(x):
        return chain.max(x, om.SquaredNorm()).sum()

    expected = (torch.autograd.functional.vhp(value, x, v)[1] * v).sum()
    torch.testing.assert_close(along(along(value))(x), expected)
    for outer in (along, torch.func.grad):
        with pytest.raises(RuntimeError, match="differentiate once"):
            outer(along(lambda x: chain.argmax(x).square().sum()))(x)


def test_a_solver_refuses_fake_tensors():
    """It reads memory, and fake tensors have none."""
    real = torch.randn(2, 4, 4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for scores in (real, torch.empty(2, 4, 4)):
            with pytest.raises(RuntimeError, match="SparseMAP: scores must hold numbers"):
                om.Matching().sparsemap(scores)


@pytest.mark.parametrize("structure", [om.Chain(), om.ConstituencyTree()], ids=str)
def test_lengths_may_be_reused_before_the_backward_pass(structure):
    scores = torch.randn(2, 4, 4, 4, requires_grad=True)
    lengths = torch.tensor([4, 3])
    expected = structure.argmax(scores, lengths=lengths)
    value = structure.max(scores, lengths=lengths)
    lengths.fill_(1)
    (found,) = torch.autograd.grad(value.sum(), scores)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("omega", [om.Shannon(), om.Tsallis(1.5)], ids=str)
def test_nan_beyond_the_length_spoils_no_gradient(potentials, omega):
    n = torch.tensor([4, 2])
    gold = om.Chain().map(potentials, lengths=n)
    spoiled = potentials.detach().clone()
    spoiled[1, 2:] = torch.nan
    spoiled.requires_grad_()
    (found,) = torch.autograd.grad(om.Chain().log_prob(spoiled, gold, omega, lengths=n).sum(), spoiled)
    (expected,) = torch.autograd.grad(om.Chain().log_prob(potentials, gold, omega, lengths=n).sum(), potentials)
    torch.testing.assert_close(found, expected)


def test_training_after_inference_mode():
    """What was built for a size while evaluating is remembered, and serves autograd too."""
    with torch.inference_mode():
        graph = om.Dag.from_edges([(0, 1), (0, 2), (1, 2)])
        graph.argmax(torch.zeros(3))
        om.Chain().argmax(torch.zeros(17, 2, 2), om.Tsallis(1.3))
    for structure, scores in ((graph, torch.randn(3)), (om.Chain(), torch.randn(17, 2, 2))):
        scores.requires_grad_()
        weights = structure.marginal(scores, om.SquaredNorm()).weights
        local = structure.backpointers(scores, om.Tsallis(1.5)).weights
        (found,) = torch.autograd.grad(weights.square().sum() + local.square().sum(), scores)
        assert torch.isfinite(found).all()


def test_what_is_impossible_has_no_slope(backend):
    """Zero probability: the gradient is zero, not NaN, in both kernels."""
    graph = om.Dag.from_edges([(0, 1), (0, 1), (1, 2), (1, 2)])
    scores = torch.tensor([5.0, 0.0, 0.1, 0.0], requires_grad=True)
    every = graph.enumerate(scores)
    found = graph.prob(scores, every, om.SquaredNorm())
    assert sorted(found.tolist()) == pytest.approx([0, 0, 0.45, 0.55])
    for each in found:
        (slope,) = torch.autograd.grad(each, scores, retain_graph=True)
        assert torch.isfinite(slope).all() and (each > 0 or (slope == 0).all())


def test_a_structure_without_lengths_says_so():
    with pytest.raises(ValueError, match="Dag: lengths must be None, got Tensor"):
        om.Dag.from_edges([(0, 1)]).max(torch.zeros(1), lengths=torch.tensor(1))


def test_a_length_that_is_no_number():
    with pytest.raises(TypeError, match="Chain: lengths must be an integer Tensor or a list of integers, got str"):
        om.Chain().max(torch.zeros(3, 2, 2), lengths="2")


def test_checkpointing(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    (found,) = torch.autograd.grad(checkpoint(loss, potentials, use_reentrant=False), potentials)
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiling_breaks_the_graph_and_stays_right(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    torch.compiler.reset()
    (found,) = torch.autograd.grad(torch.compile(loss, backend="eager")(potentials), potentials)
    torch.testing.assert_close(found, expected)


def test_the_product_of_the_contract(potentials):
    smooth = om.Smoothed(om.Chain(), om.SquaredNorm())
    scores = potentials.detach()
    value, weights = smooth.max_and_argmax(scores)
    torch.testing.assert_close(weights, om.Chain().argmax(scores, om.SquaredNorm()))
    torch.testing.assert_close(value, om.Chain().max(scores, om.SquaredNorm()))
    direction, step = torch.randn_like(scores), 1e-6
    product = torch.func.jvp(smooth.argmax, (scores,), (direction,))[1]
    ahead, behind = (smooth.argmax(scores + sign * step * direction) for sign in (1, -1))
    torch.testing.assert_close(product, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    assert smooth.event_ndim == 3


def test_half_precision_gradients_flow(potentials):
    half = potentials.detach().bfloat16().requires_grad_()
    om.Chain().max(half).sum().backward()
    assert half.grad.dtype == torch.bfloat16 and torch.isfinite(half.grad).all()


@pytest.mark.parametrize("structure", [om.Chain(), om.Arborescence()], ids=str)
def test_lengths_may_be_overwritten_before_the_backward_pass(structure, potentials):
    """A data loader may reuse one buffer for all lengths."""
    scores = potentials if isinstance(structure, om.Chain) else potentials.flatten(1)[:, :25].unflatten(1, (5, 5))
    lengths = torch.tensor([2, 4])
    (expected,) = torch.autograd.grad(structure.max(scores, lengths=lengths).sum(), potentials, retain_graph=True)
    value = structure.max(scores, lengths=lengths).sum()
    lengths.fill_(4)
    (found,) = torch.autograd.grad(value, potentials)
    assert torch.equal(found, expected)
