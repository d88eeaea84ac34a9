"""Row operators never make the host wait for a device, forwards or backwards, and give the same weights there."""

import cases
import pytest
import torch
from devices.host_reads import devices, fake, fake_cuda, host_reads, standing_in_for_a_device

import omegamax as om
from omegamax import proximal, routing
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.isotonic import isotonic
from omegamax.kernels.tv1d import prox_tv1d

LOSSES = [om.SparsemaxLoss, om.Entmax15Loss, om.FusedmaxLoss, om.OscarmaxLoss]
PROXIMAL = {
    "project_simplex": proximal.project_simplex,
    "prox_tv1d": lambda x: proximal.prox_tv1d(x, 0.3),
    "prox_oscar": lambda x: proximal.prox_oscar(x, 0.1),
    "prox_owl": lambda x: proximal.prox_owl(x, torch.arange(7, 0, -1, device=x.device) / 10),
    "prox_group": lambda x: proximal.prox_group(x, [0, 0, 1, 1, 2, 2, 2], 0.2),
    "isotonic_regression": proximal.isotonic_regression,
    "soft_sort": lambda x: om.soft_sort(x, gamma=0.5),
    "soft_rank": lambda x: om.soft_rank(x, gamma=0.5),
    "soft_quantile": lambda x: om.soft_quantile(x, 0.3),
    "soft_rank, entropic": lambda x: om.soft_rank(x, gamma=0.5, regularizer=om.Shannon()),
}


@pytest.fixture(autouse=True)
def on_a_device(monkeypatch):
    with standing_in_for_a_device(monkeypatch):
        yield


def rows():
    """Every kind of row: ordinary, with ties, with removed entries, with nothing left."""
    x = cases.normal(6, 7)
    x[1] = x[1].round()
    x[2, [0, 3]] = -torch.inf
    x[3] = 2.5
    x[4] = -torch.inf
    return x


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_solution_and_products_read_nothing(case):
    x, operator = rows(), case.regularizer(7)
    assert host_reads(operator.solve, x) == {}
    certificate, direction = operator.solve(x).certificate, cases.normal(6, 7, seed=1)
    assert host_reads(lambda *given: operator.hessian_product(given[:-1], given[-1]), *certificate, direction) == {}


@pytest.mark.parametrize("case", cases.LEARNABLE, ids=str)
def test_learnable_parameters_read_nothing(case):
    parameter = torch.full((6, 1), float(case.options[case.learnable]), dtype=torch.float64, requires_grad=True)
    x = rows().requires_grad_()

    def both(x, parameter):
        weights = case.functional(x, **case.arguments(7, **{case.learnable: parameter}))
        torch.autograd.grad(weights.square().sum(), (x, parameter))

    assert host_reads(both, x, parameter) == {}


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_functions_with_masks_read_nothing(case):
    x = rows().requires_grad_()
    mask = cases.normal(6, 7, seed=2) > -1

    def both(x, mask):
        torch.autograd.grad(case(x, mask=mask, gamma=0.5).square().sum(), x)

    assert host_reads(both, x, mask) == {}


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_results_stay_on_cuda(case):
    operator = case.regularizer(7)
    with fake_cuda():
        x = fake(rows())
        solution = operator.solve(x)
        assert devices(solution) == {"cuda"}
        assert solution.weights.shape == x.shape
        assert solution.value.shape == x.shape[:-1]
        assert devices(operator.hessian_product(solution.certificate, x)) == {"cuda"}
        assert devices(case(x, mask=fake(torch.ones(7, dtype=torch.bool)))) == {"cuda"}
        if case.learnable:
            parameter = fake(torch.ones(6, 1))
            learned = case.regularizer(7, **{case.learnable: parameter})
            assert devices(learned.slopes(learned.solve(x).certificate)) == {"cuda"}


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_the_same_weights_as_on_the_host(case, monkeypatch):
    x, operator, direction = rows(), case.regularizer(7), cases.normal(6, 7, seed=1)
    there = operator.solve(x)
    product = operator.hessian_product(there.certificate, direction)
    monkeypatch.setattr(routing, "on_host", lambda *tensors: True)
    here = operator.solve(x)
    torch.testing.assert_close(there.weights, here.weights, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(there.value, here.value, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(product, operator.hessian_product(here.certificate, direction), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", PROXIMAL)
def test_proximal_operators_and_ranks_read_nothing(name):
    x = cases.normal(4, 7).requires_grad_()

    def both(x):
        torch.autograd.grad(PROXIMAL[name](x).square().sum(), x)

    assert host_reads(both, x) == {}


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_losses_read_nothing(loss):
    x, target = cases.normal(6, 7).requires_grad_(), torch.arange(6)

    def both(x, target):
        torch.autograd.grad(loss()(x, target), x)

    assert host_reads(both, x, target) == {}
    assert host_reads(both, x, torch.softmax(cases.normal(6, 7, seed=1), -1)) == {}
    with fake_cuda():
        assert devices(loss(reduction="none")(fake(x), fake(target))) == {"cuda"}


def test_a_read_is_found():
    """The detectors see what they are for."""

    def threshold(x):
        return x[x > x.mean()] if x.sum().item() > 0 else x

    found = host_reads(threshold, torch.ones(3))
    assert found.keys() == {"_local_scalar_dense in a test", "index in a test"} or sum(found.values()) == 2
    with fake_cuda():
        x = fake(torch.ones(3))
        with pytest.raises(RuntimeError):  # of the same family as a tensor on the wrong device
            x.sum().item()
        with pytest.raises(RuntimeError, match="device"):
            x + torch.arange(3)


# ------------------------------------------------ programs with a fixed number of steps, against those of the host

LENGTHS = (1, 2, 3, 5, 8, 33, 130)
KINDS = {
    "normal": lambda x: x,
    "ties": lambda x: (2 * x).round() + 0.0,
    "rising": lambda x: x.exp().cumsum(-1),
    "falling": lambda x: -x.exp().cumsum(-1),
    "steep": lambda x: x * 1.5 ** torch.arange(x.shape[-1]),
    "flat": lambda x: torch.ones_like(x),
}


def here_and_there(monkeypatch, kernel, *inputs):
    there = kernel.reference(*inputs)
    monkeypatch.setattr(routing, "on_host", lambda *tensors: True)
    return kernel.reference(*inputs), there


def close(x, here, there):
    size = x.abs().amax(-1, keepdim=True) if here.dim() == x.dim() else x.abs().amax(-1)
    torch.testing.assert_close(there / size.clamp(min=1), here / size.clamp(min=1), atol=1e-13, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_isotonic_regression_by_merging(n, kind, monkeypatch):
    x = KINDS[kind](cases.normal(20, n, seed=n))
    here, there = here_and_there(monkeypatch, isotonic, x)
    close(x, here[0], there[0])
    assert (there[0].diff(dim=-1) >= 0).all()
    if kind != "ties":  # means that tie may be pooled or not
        assert torch.equal(here[1], there[1])


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, 1e4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_total_variation_by_messages(n, kind, strength, monkeypatch):
    x = KINDS[kind](cases.normal(20, n, seed=n))
    here, there = here_and_there(monkeypatch, prox_tv1d, x, strength)
    close(x, here[0], there[0])
    if kind != "ties":
        assert torch.equal(here[1], there[1])


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, 1e4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_fusedmax_by_messages(n, kind, strength, monkeypatch):
    x = KINDS[kind](cases.normal(20, n, seed=n))
    x[::3, n // 2 :: 4] = -torch.inf
    here, there = here_and_there(monkeypatch, fusedmax, x, strength)
    torch.testing.assert_close(there[0], here[0], atol=1e-11, rtol=0)
    torch.testing.assert_close(there[1], here[1], atol=1e-11, rtol=1e-13)
