"""Named losses on rows: each is the Fenchel–Young loss of its operator; what they refuse; what they learn."""

import copy

import cases
import pytest
import torch
from torch import nn

import omegamax as om

NAMED = [
    (om.SoftmaxLoss(), om.losses.softmax_loss, {}, om.Shannon()),
    (om.SparsemaxLoss(), om.losses.sparsemax_loss, {}, om.SquaredNorm()),
    (om.Entmax15Loss(), om.losses.entmax15_loss, {}, om.Tsallis(1.5)),
    (om.EntmaxLoss(1.3), om.losses.entmax_loss, {"alpha": 1.3}, om.Tsallis(1.3)),
    (om.SqPNormMaxLoss(1.2), om.losses.sqpnormmax_loss, {"p": 1.2}, om.SquaredPNorm(1.2)),
    (om.NormmaxLoss(3.0), om.losses.normmax_loss, {"alpha": 3.0}, om.NormEntropy(3.0)),
    (om.FusedmaxLoss(0.3), om.losses.fusedmax_loss, {"strength": 0.3}, om.Fused(0.3)),
    (om.OscarmaxLoss(0.02), om.losses.oscarmax_loss, {"strength": 0.02}, om.Oscar(0.02)),
    (
        om.GroupmaxLoss([0, 0, 1, 1, 2]),
        om.losses.groupmax_loss,
        {"groups": [0, 0, 1, 1, 2]},
        om.GroupLasso([0, 0, 1, 1, 2]),
    ),
    (om.PerceptronLoss(), None, {}, om.Hard()),
]
named = pytest.mark.parametrize(("module", "function", "options", "omega"), NAMED, ids=lambda x: type(x).__name__)


@named
def test_every_name_is_a_fenchel_young_loss(module, function, options, omega):
    scores, target = cases.normal(4, 5), torch.tensor([0, 3, -100, 4])
    expected = om.FenchelYoungLoss(omega)(scores, target)
    torch.testing.assert_close(module(scores, target), expected, rtol=0, atol=0)
    if function is not None:
        torch.testing.assert_close(function(scores, target, **options), expected, rtol=0, atol=0)
        turned = function(scores.T, target, dim=0, **options)
        torch.testing.assert_close(turned, expected)


def test_alpha_learns():
    scores, target = cases.normal(6, 5, dtype=torch.float32), torch.tensor([0, 3, 1, 4, 2, 0])
    loss = om.EntmaxLoss(om.Above(1.0, start=1.5))
    (raw,) = loss.parameters()
    before = loss(scores, target)
    before.backward()
    assert raw.grad.isfinite() and raw.grad != 0
    step = 1e-3
    with torch.no_grad():
        raw += step
    alpha = 1 + nn.functional.softplus(raw.detach() - step)
    expected = om.losses.entmax_loss(scores.double(), target, alpha=float(alpha))
    torch.testing.assert_close(before.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close((loss(scores, target) - before) / step, raw.grad, rtol=0.05, atol=1e-3)


def test_alpha_and_gamma_per_row():
    scores, target = cases.normal(3, 5, 4), torch.tensor([[0, 1, 2, 3], [4, 4, 4, 4], [1, 2, 3, 0]])
    alpha = torch.tensor([1.2, 1.5, 2.0]).double().reshape(3, 1, 1)
    gamma = torch.tensor([0.5, 1.0, 2.0]).double().reshape(3, 1, 1)
    found = om.EntmaxLoss(alpha, gamma=gamma, dim=1, reduction="none")(scores, target)
    for i in range(3):
        one = om.EntmaxLoss(float(alpha[i]), gamma=float(gamma[i]), dim=0, reduction="none")(scores[i], target[i])
        torch.testing.assert_close(found[i], one)


def test_ignored_rows_do_not_reach_a_temperature():
    scores, gamma = cases.normal(3, 4), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, -100, 2])
    (expected,) = torch.autograd.grad(om.SparsemaxLoss(gamma=gamma)(scores[[0, 2]], target[[0, 2]]), gamma)
    scores[1] = torch.nan
    (found,) = torch.autograd.grad(om.SparsemaxLoss(gamma=gamma)(scores, target), gamma)
    torch.testing.assert_close(found, expected)


def test_class_weights_are_a_buffer():
    loss = om.SparsemaxLoss(weight=torch.tensor([1.0, 2.0]))
    assert "weight" in loss.state_dict() and loss.double().weight.dtype is torch.float64
    twin = copy.deepcopy(loss)
    scores, target = cases.normal(3, 2), torch.tensor([0, 1, 1])
    assert torch.equal(loss(scores, target), twin(scores, target))


def test_soft_targets_have_the_expected_weight():
    weight, scores = torch.tensor([1.0, 3.0, 0.5]).double(), cases.normal(4, 3)
    classes = torch.tensor([0, 2, 1, 1])
    hot = nn.functional.one_hot(classes, 3).double()
    loss = om.Entmax15Loss(weight=weight)
    torch.testing.assert_close(loss(scores, classes), loss(scores, hot))


def test_lengths_take_classes_away():
    scores = cases.normal(2, 5)
    found = om.SparsemaxLoss(reduction="none")(scores, torch.tensor([0, 1]), lengths=torch.tensor([5, 2]))
    short = om.SparsemaxLoss(reduction="none")(scores[1:, :2], torch.tensor([1]))
    torch.testing.assert_close(found[1:], short)


def test_third_derivatives_are_those_of_the_operator():
    scores = cases.normal(1, 4).requires_grad_()
    (first,) = torch.autograd.grad(om.losses.softmax_loss(scores, torch.tensor([1])), scores, create_graph=True)
    (second,) = torch.autograd.grad(first[0, 0], scores, create_graph=True)
    p = scores.softmax(-1)[0]
    expected = p[0] * (nn.functional.one_hot(torch.tensor(0), 4) - p)
    torch.testing.assert_close(second[0], expected)
    (third,) = torch.autograd.grad(second[0, 0], scores)
    torch.testing.assert_close(third[0, 0], (p[0] * (1 - p[0]) * (1 - 2 * p[0])).detach())


def test_the_direct_path_makes_no_one_hot(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a dense target was made")

    monkeypatch.setattr("omegamax.losses.evaluation.smoothed_one_hot", refuse)
    for omega in (om.Shannon(), om.SquaredNorm(), om.Tsallis(1.2), om.SquaredPNorm(), om.Hard()):
        om.fenchel_young_loss(cases.normal(3, 4), torch.tensor([0, 1, 2]), omega)


def test_differentiable_regularizers():
    """Ω need not vanish at the corners."""
    ridge = om.Differentiable(lambda p: 0.5 * p.square().sum(-1))
    scores, target = cases.normal(3, 4), torch.tensor([0, 1, 2])
    found = om.fenchel_young_loss(scores, target, ridge, reduction="none")
    torch.testing.assert_close(found, om.losses.sparsemax_loss(scores, target, reduction="none"))


@pytest.mark.slow
@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Fused(0.1)], ids=lambda o: type(o).__name__)
def test_compiled(omega):
    scores, target = cases.normal(4, 5).requires_grad_(), torch.tensor([0, 3, -100, 4])
    loss = om.FenchelYoungLoss(omega)
    found = torch.compile(loss, fullgraph=True, backend="aot_eager")(scores, target)
    torch.testing.assert_close(found, loss(scores, target))
    torch.testing.assert_close(
        torch.autograd.grad(found, scores)[0], torch.autograd.grad(loss(scores, target), scores)[0]
    )


def test_autocast_and_inference():
    scores, target = cases.normal(4, 5, dtype=torch.float32), torch.tensor([0, 3, 1, 4])
    with torch.inference_mode():
        found = om.SparsemaxLoss()(scores, target)
    assert torch.equal(found, om.SparsemaxLoss()(scores, target))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert om.SparsemaxLoss()(scores, target).dtype is torch.float32


X, Y = torch.zeros(2, 3), torch.tensor([0, 1])
CRF = om.Smoothed(om.Chain(), om.Shannon())


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: om.SparsemaxLoss()(X, torch.tensor([0, 3])), ValueError, "between 0 and 2, got 3"),
        (lambda: om.SparsemaxLoss()(X, torch.tensor([0, -1])), ValueError, "got -1"),
        (lambda: om.SparsemaxLoss()(X, torch.zeros(2, 3).long()), ValueError, r"shape \(2,\)"),
        (lambda: om.SparsemaxLoss()(X, [0, 1]), TypeError, "SparsemaxLoss: target must be an integer Tensor"),
        (lambda: om.SparsemaxLoss()(X, torch.zeros(2, dtype=torch.bool)), TypeError, "torch.bool"),
        (lambda: om.SparsemaxLoss()(X, torch.zeros(2)), ValueError, "shaped as the scores"),
        (lambda: om.SparsemaxLoss()(X, torch.full((2, 3), 0.5)), ValueError, "sum 1, got an entry 0.5 and a sum 0.5"),
        (lambda: om.SparsemaxLoss()(X, torch.tensor([[2.0, -1.0, 0.0]] * 2)), ValueError, "got an entry -1"),
        (lambda: om.SparsemaxLoss()(torch.zeros(2, 0), Y), ValueError, "at least one class"),
        (lambda: om.SparsemaxLoss()([[1.0]], Y), TypeError, "SparsemaxLoss: scores must be a Tensor"),
        (lambda: om.SparsemaxLoss(weight=torch.ones(2))(X, Y), ValueError, "one entry per class"),
        (lambda: om.SparsemaxLoss(weight=torch.ones(3).long())(X, Y), TypeError, "floating-point"),
        (lambda: om.SparsemaxLoss(reduction="avg"), ValueError, "'none', 'mean' or 'sum', got 'avg'"),
        (lambda: om.SparsemaxLoss(label_smoothing=1.5), ValueError, "SparsemaxLoss: label_smoothing"),
        (lambda: om.SparsemaxLoss(dim=2)(X, Y), ValueError, "dim must lie in"),
        (lambda: om.FenchelYoungLoss(om.SquaredNorm), TypeError, "must be a SmoothMax"),
        (lambda: om.fenchel_young_loss(X, Y, "sparsemax"), TypeError, "must be a SmoothMax, got the string"),
        (
            lambda: om.FenchelYoungLoss(om.Smoothed(om.Chain(), om.Hard()), weight=X[0]),
            ValueError,
            "weight is for classes",
        ),
        (lambda: om.PerceptronLoss(om.Chain(), label_smoothing=0.1), ValueError, "label_smoothing is for classes"),
        (lambda: om.CRFLoss(om.Chain), TypeError, "CRFLoss: structure must be a Structure, got the class Chain"),
        (lambda: om.CRFLoss(om.Chain())(torch.zeros(2, 2, 2), [1, 2]), TypeError, "must be a structure in the form"),
        (lambda: om.CRFLoss(om.Chain())(torch.zeros(2, 2, 2), torch.zeros(3, 2, 2)), ValueError, "shaped as the"),
        (lambda: om.CRFLoss(om.Chain())(torch.zeros(2, 2, 2), torch.zeros(5, 2, 2, 2)), ValueError, "batch axes"),
        (lambda: om.losses.sparsemax_loss(X, Y, label_smoothing=-0.1), ValueError, r"must lie in \[0, 1\]"),
        (lambda: om.losses.sparsemax_loss(X, Y, target_edges=X), ValueError, "target_edges is for structures"),
        (
            lambda: om.fenchel_young_loss(X, Y, CRF, weight=X[0]),
            ValueError,
            "fenchel_young_loss: weight is for classes",
        ),
        (lambda: om.EntmaxLoss(0.5), ValueError, "EntmaxLoss: alpha must be at least 1"),
        (
            lambda: om.fenchel_young_loss(X, Y, om.Scaled(om.Smoothed(om.Chain(), om.Hard()), 2.0)),
            ValueError,
            "temperature of a structure belongs to its Ω",
        ),
        (
            lambda: om.FenchelYoungLoss(om.Scaled(om.Smoothed(om.Chain(), om.Shannon()), 2.0))(
                torch.zeros(3, 2, 2), torch.zeros(3, 2, 2)
            ),
            ValueError,
            "temperature of a structure belongs to its Ω",
        ),
    ],
)
def test_refuses(call, kind, said):
    with pytest.raises(kind, match=said):
        call()


def test_operators_over_two_axes_are_refused():
    with pytest.raises(ValueError, match="rows or on a structure, got GridTV over 2 axes; write"):
        om.FenchelYoungLoss(om.GridTV())(torch.zeros(2, 3, 3), torch.zeros(2, 3, 3))
