"""CTC and soft-DTW as modules."""

import inspect

import pytest
import torch

import omegamax as om

T, N, C = 12, 3, 5
TARGETS, SIZES, FRAMES = torch.tensor([[1, 2, 2, 3], [4, 4, -1, -1], [2, 1, 3, -1]]), (4, 2, 3), (12, 9, 10)


def both(targets, frames, sizes, unbatched=False, **options):
    """Value and gradient of PyTorch's loss and of ours, through log_softmax."""
    found = []
    for kind in (torch.nn.CTCLoss, om.CTCLoss):
        torch.manual_seed(1)
        logits = torch.randn(T, C) if unbatched else torch.randn(T, N, C)
        logits.requires_grad_()
        loss = kind(**options)(logits.log_softmax(-1), targets, frames, sizes)
        if loss.isfinite().all():
            loss.sum().backward()
        found.append((loss.detach(), logits.grad))
    return found


@pytest.mark.parametrize(
    ("targets", "frames", "sizes", "options"),
    [
        (TARGETS, torch.tensor(FRAMES), torch.tensor(SIZES), {}),
        (TARGETS, torch.tensor(FRAMES), torch.tensor(SIZES), {"reduction": "sum"}),
        (TARGETS, torch.tensor(FRAMES), torch.tensor(SIZES), {"reduction": "none"}),
        (TARGETS, FRAMES, SIZES, {}),
        (TARGETS.int(), list(FRAMES), list(SIZES), {}),
        (torch.tensor([1, 2, 2, 3, 4, 4, 2, 1, 3]), FRAMES, SIZES, {}),
        (TARGETS.clamp(max=3), FRAMES, SIZES, {"blank": 4}),
        (TARGETS, (3, 9, 10), SIZES, {"reduction": "none"}),
        (TARGETS, (3, 9, 10), SIZES, {"zero_infinity": True}),
        (TARGETS, (0, 9, 10), (4, 0, 3), {"zero_infinity": True, "reduction": "none"}),
        (TARGETS, (0, 9, 10), (0, 0, 3), {}),
        (TARGETS, (0, 9, 10), SIZES, {"reduction": "none"}),
    ],
)
def test_ctc_is_that_of_pytorch(targets, frames, sizes, options):
    theirs, ours = both(targets, frames, sizes, **options)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    if theirs[1] is not None:
        torch.testing.assert_close(ours[1], theirs[1], rtol=1e-4, atol=1e-6)


def test_ctc_without_a_batch():
    for frames, sizes in ((torch.tensor(12), torch.tensor(4)), ((12,), (4,))):
        theirs, ours = both(TARGETS[0], frames, sizes, unbatched=True)
        torch.testing.assert_close(ours, theirs)


def test_ctc_is_constructed_and_called_as_that_of_pytorch():
    theirs, ours = inspect.signature(torch.nn.CTCLoss), inspect.signature(om.CTCLoss)
    assert [(p.name, p.default) for p in theirs.parameters.values()] == [
        (p.name, p.default) for p in list(ours.parameters.values())[:3]
    ]
    assert list(inspect.signature(torch.nn.CTCLoss.forward).parameters) == list(
        inspect.signature(om.CTCLoss.forward).parameters
    )
    om.CTCLoss(0, "sum", True)
    with pytest.raises(ValueError, match="CTCLoss: reduction"):
        om.CTCLoss(reduction="max")


def test_sparse_ctc():
    log_probs = torch.randn(T, N, C).double().log_softmax(-1)
    sparse = om.CTCLoss(reduction="none", regularizer=om.SquaredNorm())(log_probs, TARGETS, FRAMES, SIZES)
    hard = om.CTCLoss(reduction="none", regularizer=om.Hard())(log_probs, TARGETS, FRAMES, SIZES)
    soft = om.CTCLoss(reduction="none")(log_probs, TARGETS, FRAMES, SIZES)
    assert (soft <= hard).all() and (sparse <= hard).all()


def test_soft_dtw():
    x, y = torch.randn(3, 6, 2), torch.randn(3, 8, 2)
    lengths = (torch.tensor([6, 4, 5]), torch.tensor([8, 8, 2]))
    for gamma in (0.1, 1.0):
        each = om.soft_dtw(x, y, gamma, lengths=lengths)
        assert torch.equal(om.SoftDTWLoss(gamma, "none")(x, y, lengths=lengths), each)
        torch.testing.assert_close(om.SoftDTWLoss(gamma)(x, y, lengths=lengths), each.mean())
        torch.testing.assert_close(om.SoftDTWLoss(gamma, "sum")(x, y, lengths=lengths), each.sum())
        own = om.SoftDTWDivergenceLoss(gamma, "none")(x, y, lengths=lengths)
        assert torch.equal(own, om.soft_dtw_divergence(x, y, gamma, lengths=lengths))
    assert om.SoftDTWDivergenceLoss()(x, x) == 0
    dtw = om.SoftDTWLoss(regularizer=om.Hard(), band=om.structures.SakoeChiba(2))(x, x)
    assert dtw == 0
    with pytest.raises(ValueError, match="SoftDTWLoss: reduction"):
        om.SoftDTWLoss(1.0, "max")
    assert "gamma=0.5" in repr(om.SoftDTWLoss(0.5)) and "reduction='mean'" in repr(om.SoftDTWDivergenceLoss(0.5))
