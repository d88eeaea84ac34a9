"""Mixed precision as PyTorch's own losses do it: float32 under autocast, the widest type where parts differ."""

import pytest
import torch

import omegamax as om
from omegamax.operator_table import TABLE

HALF, SINGLE = torch.bfloat16, torch.float32
N_TAGS = 3
TAGS = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])


def leaf(*shape, dtype=HALF):
    return torch.randn(*shape, dtype=torch.float32).to(dtype).requires_grad_()


def emitted(dtypes):
    emissions, transitions, start, end = (
        leaf(*shape, dtype=dtype)
        for shape, dtype in zip([(2, 4, N_TAGS), (N_TAGS, N_TAGS), (N_TAGS,), (N_TAGS,)], dtypes)
    )
    return om.structures.FactoredChain(emissions, transitions, start, end)


def chain_loss(loss, scores):
    """A loss of a chain at the tags, dense or factored."""
    if isinstance(scores, om.structures.FactoredChain):
        return loss(scores, om.Chain.factored_from_tags(TAGS, N_TAGS))
    return loss(scores, om.Chain.from_tags(TAGS, N_TAGS))


CHAIN_LOSSES = [
    om.CRFLoss(om.Chain()),
    om.CRFLoss(om.Chain(), gamma=0.5),
    om.PerceptronLoss(om.Chain()),
    om.SparseMAPLoss(om.Chain()),
    om.MarginSparseMAPLoss(om.Chain()),
    om.MarginLoss(om.Chain()),
    om.MarginLoss(om.Smoothed(om.Chain(), om.Shannon())),
    om.FenchelYoungLoss(om.Smoothed(om.Chain(), om.SquaredNorm())),
    om.FenchelYoungLoss(om.Smoothed(om.Chain(), om.Tsallis(1.2))),
    om.FenchelYoungLoss(om.SparseMAP(om.Chain())),
]
GROUPS = {"groups": [0, 0, 1, 1, 1]}
ROW_LOSSES = [
    *(getattr(om, facts.loss)(**GROUPS if facts.grouped else {}) for facts in TABLE if facts.loss),
    om.PerceptronLoss(),
    om.MarginLoss(om.Hard()),
    om.MarginLoss(om.SquaredNorm()),
    om.FenchelYoungLoss(om.Scaled(om.Shannon(), 0.5)),
]
CTC_TARGETS = (torch.tensor([[1, 2], [2, 2]]), [6, 5], [2, 1])
POINTS = {
    "soft_dtw": om.soft_dtw,
    "hard": lambda x, y: om.soft_dtw(x, y, regularizer=om.Hard()),
    "sparse": lambda x, y: om.soft_dtw(x, y, regularizer=om.Tsallis(1.5)),
    "banded": lambda x, y: om.soft_dtw(x, y, band=om.structures.SakoeChiba(2)),
    "lengths": lambda x, y: om.soft_dtw(x, y, lengths=([5, 4], [6, 2])),
    "divergence": om.soft_dtw_divergence,
    "loss": om.SoftDTWLoss(),
    "divergence loss": om.SoftDTWDivergenceLoss(),
    "own distance": lambda x, y: om.soft_dtw(x, y, distance=lambda a, b: (a - b).abs().sum(-1)),
    "costs": lambda x, y: om.structures.soft_dtw_from_costs((x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)),
}


def assert_as_in_float32(function, *given):
    """Under autocast: the value of the same numbers in float32, in float32; gradients in the type of each leaf."""
    with torch.autocast("cpu", dtype=HALF):
        found = function(*given)
    assert found.dtype is SINGLE
    wide = [tensor.detach().float().requires_grad_() for tensor in given]
    expected = function(*wide)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    ours, theirs = (torch.autograd.grad(value.sum(), leaves) for value, leaves in ((found, given), (expected, wide)))
    for tensor, gradient, exact in zip(given, ours, theirs):
        assert gradient.dtype is tensor.dtype
        torch.testing.assert_close(gradient.float(), exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("loss", CHAIN_LOSSES, ids=lambda loss: f"{type(loss).__name__}-{loss.extra_repr()}")
class TestChains:
    def test_dense(self, loss):
        assert_as_in_float32(lambda scores: chain_loss(loss, scores), leaf(2, 4, N_TAGS, N_TAGS))

    def test_factored(self, loss):
        parts = emitted([HALF, SINGLE, SINGLE, HALF])
        assert_as_in_float32(lambda *given: chain_loss(loss, om.structures.FactoredChain(*given)), *parts)

    def test_parts_of_several_types_without_autocast(self, loss):
        parts = emitted([HALF, SINGLE, SINGLE, SINGLE])
        found = chain_loss(loss, parts)
        expected = chain_loss(loss, om.structures.FactoredChain(*(part.detach().float() for part in parts)))
        assert found.dtype is SINGLE
        torch.testing.assert_close(found, expected)
        for part, gradient in zip(parts, torch.autograd.grad(found, parts)):
            assert gradient.dtype is part.dtype

    def test_the_type_of_the_scores_without_autocast(self, loss):
        assert chain_loss(loss, leaf(2, 4, N_TAGS, N_TAGS)).dtype is HALF


@pytest.mark.parametrize("loss", ROW_LOSSES, ids=lambda loss: f"{type(loss).__name__}-{loss.extra_repr()}")
def test_rows(loss):
    target = torch.tensor([0, 3, 1])
    assert_as_in_float32(lambda scores: loss(scores, target), leaf(3, 5))
    assert loss(leaf(3, 5), target).dtype is HALF


@pytest.mark.parametrize(
    "loss", [om.losses.softmax_loss, om.losses.sparsemax_loss, om.losses.entmax15_loss, om.losses.fusedmax_loss]
)
def test_row_losses_as_functions(loss):
    assert_as_in_float32(lambda scores: loss(scores, torch.tensor([0, 3, 1])), leaf(3, 5))


@pytest.mark.parametrize("name", POINTS)
def test_time_series(name):
    given = leaf(2, 5, 3), leaf(2, 6, 3)
    if name != "costs":
        assert_as_in_float32(POINTS[name], *given)
        assert POINTS[name](*given).dtype is HALF
    mixed = leaf(2, 5, 3), leaf(2, 6, 3, dtype=SINGLE)
    if name != "costs":
        assert_as_in_float32(POINTS[name], *mixed)
    assert POINTS[name](*mixed).dtype is SINGLE


@pytest.mark.parametrize(
    "loss", [om.CTCLoss(), om.CTCLoss(regularizer=om.SquaredNorm())], ids=["Shannon", "SquaredNorm"]
)
def test_ctc(loss):
    def spelled(logits):
        return loss(logits.float().log_softmax(-1).to(logits.dtype), *CTC_TARGETS)

    assert_as_in_float32(lambda log_probs: loss(log_probs, *CTC_TARGETS), leaf(6, 2, 3))
    assert spelled(leaf(6, 2, 3)).dtype is HALF


@pytest.mark.parametrize("omega", [om.Hard(), om.Shannon()], ids=str)
def test_edit_distance(omega):
    a, b = torch.tensor([0, 1, 2]), torch.tensor([2, 1])
    assert_as_in_float32(lambda cost: om.edit_distance(a, b, substitution=cost.sum(), regularizer=omega), leaf(1))


STRUCTURES = [
    (om.Chain(), lambda: leaf(2, 4, 3, 3)),
    (om.Alignment(), lambda: leaf(2, 4, 5)),
    (om.ProjectiveTree(), lambda: leaf(2, 5, 5)),
    (om.Arborescence(), lambda: leaf(2, 5, 5)),
    (om.Subset(2), lambda: leaf(2, 5)),
]


@pytest.mark.parametrize(("structure", "draw"), STRUCTURES, ids=lambda case: type(case).__name__)
def test_smoothed_maxima(structure, draw):
    """Numbers are float32 under autocast, weights have the type of the scores."""
    scores = draw()
    for smooth in (om.Smoothed(structure, om.Shannon()), om.SparseMAP(structure)):
        assert_as_in_float32(smooth.max, scores)
        with torch.autocast("cpu", dtype=HALF):
            assert smooth.argmax(scores).dtype is HALF
        assert smooth.max(scores).dtype is HALF


def test_factored_weights_have_the_widest_type():
    parts = emitted([HALF, SINGLE, SINGLE, SINGLE])
    wide = om.structures.FactoredChain(*(part.detach().float() for part in parts))
    for smooth in (om.Smoothed(om.Chain(), om.Shannon()), om.SparseMAP(om.Chain())):
        for found, expected in zip(smooth.argmax(parts), smooth.argmax(wide)):
            assert found.dtype is SINGLE
            torch.testing.assert_close(found, expected)
    assert om.Chain().sample(parts).emissions.dtype is SINGLE and om.Chain().map(parts).emissions.dtype is SINGLE


def test_a_training_step_under_autocast():
    layer, transitions = torch.nn.Linear(4, N_TAGS), torch.zeros(N_TAGS, N_TAGS, requires_grad=True)
    with torch.autocast("cpu", dtype=HALF):
        emissions = layer(torch.randn(2, 4, 4, dtype=torch.float32))
        loss = om.CRFLoss(om.Chain())(
            om.Chain.from_emissions(emissions, transitions), om.Chain.factored_from_tags(TAGS, N_TAGS)
        )
    assert emissions.dtype is HALF and loss.dtype is SINGLE
    loss.backward()
    assert transitions.grad.dtype is SINGLE and layer.weight.grad.dtype is SINGLE
