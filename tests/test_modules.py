"""Modules: parameters that stay in their range and learn."""

import numpy as np
import pytest
import torch
from cases import CASES, LEARNABLE, normal

import omegamax as om
from omegamax.modules import ArgmaxModule

BOUNDS = {"alpha": (1.0, 1.5), "strength": (0.0, 0.1)}
close = torch.testing.assert_close


def test_above_starts_where_told_and_stays_above():
    for bound, start in ((1.0, 1.5), (0.0, 0.01), (1.0, 1.0001), (0.0, 50.0), (0.0, 1000.0)):
        number = om.Above(bound, start)
        assert float(number().detach()) == pytest.approx(start, rel=1e-5)
        with torch.no_grad():
            number.raw.fill_(-30.0)
        assert float(number().detach()) >= bound
        with torch.no_grad():
            number.raw.fill_(40.0)
        assert float(number().detach()) == pytest.approx(bound + 40)
    assert om.Above(1.0, 2.0, (3, 1, 1))().shape == (3, 1, 1)
    assert "bound=1.0" in repr(om.Above(1.0, 2.0))


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_a_learnable_parameter_lowers_a_loss(case):
    """The target is what the same operator gives at another value."""
    bound, start = BOUNDS[case.learnable]
    scores = normal(64, 6, dtype=torch.float32)
    goal = start + 0.4 if case.learnable == "alpha" else 0.01
    target = case.functional(scores, **case.arguments(6, **{case.learnable: goal}))
    module = case.module(**case.arguments(6, **{case.learnable: om.Above(bound, start)}))
    assert len(list(module.parameters())) == 1
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        loss = (module(scores) - target).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    learned = float(getattr(module, case.learnable)().detach())
    assert abs(learned - goal) < abs(start - goal)


def test_a_learnable_temperature():
    scores = normal(32, 6, dtype=torch.float32)
    target = om.sparsemax(scores, gamma=0.4)
    module = om.Sparsemax(gamma=om.Above(0.0, 1.0))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(60):
        loss = (module(scores) - target).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(module.gamma().detach()) == pytest.approx(0.4, abs=0.02)


def test_one_order_per_head():
    """(batch, heads, queries, keys) with alpha (heads, 1, 1): each head as if alone."""
    scores = normal(2, 3, 4, 5, dtype=torch.float32)
    module = om.Entmax(alpha=om.Above(1.0, 1.5, (3, 1, 1)))
    with torch.no_grad():
        module.alpha.raw.copy_(torch.tensor([-5.0, 0.0, 2.0]).reshape(3, 1, 1))
    weights = module(scores)
    for head, alpha in enumerate(module.alpha().detach().flatten()):
        close(weights[:, head], om.entmax(scores[:, head], alpha=alpha.item()), atol=1e-6, rtol=1e-5)
    (weights * normal(2, 3, 4, 5, seed=1, dtype=torch.float32)).sum().backward()
    assert module.alpha.raw.grad.shape == (3, 1, 1) and bool((module.alpha.raw.grad != 0).all())


def test_a_parameter_per_row_with_another_dim():
    """alpha broadcasts against scores with size 1 along dim, whichever dim."""
    scores, alpha = normal(5, 4), torch.tensor([[1.1, 1.5, 2.0, 3.0]]).double()
    weights = om.Entmax(0, alpha=alpha)(scores)
    for column in range(4):
        close(weights[:, column], om.entmax(scores[:, column], alpha=float(alpha[0, column])), atol=1e-13, rtol=0)
    gamma = torch.tensor([[0.1, 0.5, 1.0, 2.0]]).double()
    by_gamma = om.sparsemax(scores, 0, gamma=gamma)
    for column in range(4):
        close(by_gamma[:, column], om.sparsemax(scores[:, column], gamma=float(gamma[0, column])), atol=1e-13, rtol=0)


def test_numbers_of_numpy_are_numbers():
    scores = normal(2, 5)
    alpha = np.float32(1.3)
    for smooth in (om.Tsallis, lambda a: om.Scaled(om.SquaredNorm(), a)):  # in double, whoever gives it
        assert torch.equal(smooth(alpha).argmax(scores), smooth(float(alpha)).argmax(scores))
    assert torch.equal(om.fusedmax(scores, strength=np.float32(0.25)), om.fusedmax(scores, strength=0.25))
    assert torch.equal(
        om.sqpnormmax(scores, p=np.float32(1.5), gamma=np.float16(0.5)), om.sqpnormmax(scores, gamma=0.5)
    )


def test_every_gate_may_have_its_own_temperature():
    scores, gamma = normal(2, 3), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    alone = [om.gate(scores[:, i], om.SquaredNorm(), gamma=float(gamma[i])) for i in range(3)]
    close(om.gate(scores, om.SquaredNorm(), gamma=gamma), torch.stack(alone, -1))


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_every_parameter_turns_with_dim(case):
    """As a function and as a layer, along the first axis."""
    scores = normal(6, 3)
    values = case.options[case.learnable] * torch.tensor([[1.0, 1.5, 2.0]], dtype=torch.float64)
    alone = [
        case.functional(scores[:, i], **case.arguments(6, **{case.learnable: float(values[0, i])})) for i in range(3)
    ]
    options = case.arguments(6, **{case.learnable: values})
    for weights in (case.functional(scores, 0, **options), case.module(0, **options)(scores)):
        close(weights, torch.stack(alone, -1), atol=1e-14, rtol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_modules_describe_themselves_and_hold_no_hidden_state(case):
    module = case.module(gamma=0.5, **case.arguments(6))
    shown = {name: tuple(value) if name == "groups" else value for name, value in case.arguments(6).items()}
    for name, value in {"dim": -1, "gamma": 0.5, **shown}.items():
        assert f"{name}={value}" in repr(module)
    assert module.state_dict() == {}


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_tensors_that_do_not_learn_move_with_the_module(case):
    value = torch.full((3, 1), case.options[case.learnable])
    module = case.module(gamma=torch.tensor(0.5), **case.arguments(6, **{case.learnable: value}))
    assert not list(module.parameters()) and f"{case.learnable}=<(3, 1)>" in repr(module)
    assert sorted(module.state_dict()) == sorted(["gamma", case.learnable])
    assert module.double().gamma.dtype is getattr(module, case.learnable).dtype is torch.float64


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_parameters_are_found_saved_and_loaded(case):
    bound, start = BOUNDS[case.learnable]
    make = lambda start: case.module(**case.arguments(6, **{case.learnable: om.Above(bound, start)}))  # noqa: E731
    module, other = make(start), make(2 * start + 1)
    assert list(module.state_dict()) == [f"{case.learnable}.raw"]
    scores = normal(3, 6)
    assert not torch.allclose(module(scores), other(scores))
    other.load_state_dict(module.state_dict())
    assert torch.equal(module(scores), other(scores))


def test_a_layer_of_ones_own_names_its_regularizer():
    class Steep(ArgmaxModule):
        def regularizer(self, scores):
            return om.Tsallis(3.0)

    scores = normal(2, 5)
    assert torch.equal(Steep()(scores), om.entmax(scores, alpha=3.0))
    with pytest.raises(TypeError, match="abstract"):
        ArgmaxModule()


def test_a_parameter_given_belongs_to_the_module():
    """A Parameter given as alpha belongs to the module."""
    alpha = torch.nn.Parameter(torch.tensor(1.5))
    module = om.Entmax(alpha=alpha)
    assert [id(p) for p in module.parameters()] == [id(alpha)]


def test_a_mixture_that_runs_only_its_experts():
    """Gates that are exactly zero skip the computation and change nothing."""
    scores = normal(40, 4, dtype=torch.float32)
    gates = om.gate(scores, om.SquaredNorm())
    experts = torch.randn(4)
    closed = gates == 0
    assert bool(closed.any()) and bool((gates == 1).any())
    dense = (gates * experts).sum(-1)
    sparse = torch.stack([sum((g * e for g, e in zip(row, experts) if g > 0), torch.tensor(0.0)) for row in gates])
    close(dense, sparse)
