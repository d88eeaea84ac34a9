"""CTC against PyTorch's, where PyTorch's is a derivative, and against finite differences, where it is not."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck

import omegamax as om

T, B, C, S = 12, 5, 5, 4
INPUT_LENGTHS = torch.tensor([12, 9, 4, 12, 1])
TARGET_LENGTHS = torch.tensor([4, 3, 2, 0, 1])


@pytest.fixture
def logits():
    return torch.randn(T, B, C, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def targets():
    return torch.randint(1, C, (B, S))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("concatenated", [False, True])
def test_values_and_gradients_of_pytorch(logits, targets, reduction, concatenated):
    if concatenated:
        targets = torch.cat([row[:n] for row, n in zip(targets, TARGET_LENGTHS.tolist())])
    arguments = (targets, INPUT_LENGTHS, TARGET_LENGTHS, 0, reduction)
    ours = om.ctc_loss(logits.log_softmax(-1), *arguments)
    theirs = torch.nn.functional.ctc_loss(logits.log_softmax(-1), *arguments)
    torch.testing.assert_close(ours, theirs)
    found, expected = (torch.autograd.grad(loss.sum(), logits)[0] for loss in (ours, theirs))
    torch.testing.assert_close(found, expected)


def test_another_blank_and_plain_numbers(logits, targets):
    targets = targets - 1  # now 4 is free
    arguments = (targets, INPUT_LENGTHS.tolist(), TARGET_LENGTHS.tolist(), 4)
    ours = om.ctc_loss(logits.log_softmax(-1), *arguments)
    torch.testing.assert_close(ours, torch.nn.functional.ctc_loss(logits.log_softmax(-1), *arguments))


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)], ids=lambda o: type(o).__name__)
def test_the_gradient_is_the_derivative_of_the_value(logits, targets, omega):
    """PyTorch's is not, with respect to raw log-probabilities."""

    def loss(log_probs):
        return om.ctc_loss(log_probs, targets, INPUT_LENGTHS, TARGET_LENGTHS, reduction="none", regularizer=omega)

    assert gradcheck(loss, logits, fast_mode=True)


def test_a_target_that_does_not_fit(logits):
    targets = torch.tensor([[1, 1, 1]]).expand(B, 3)  # needs five frames
    lengths = torch.tensor([12, 5, 4, 2, 1])
    sizes = torch.full((B,), 3)
    losses = om.ctc_loss(logits.log_softmax(-1), targets, lengths, sizes, reduction="none")
    assert losses.isinf().tolist() == [False, False, True, True, True]
    losses[:2].sum().backward(retain_graph=True)
    zeroed = om.ctc_loss(logits.log_softmax(-1), targets, lengths, sizes, reduction="none", zero_infinity=True)
    assert (zeroed[2:] == 0).all()
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert (gradient[:, 2:] == 0).all() and not gradient.isnan().any()


def test_the_best_alignment_spells_the_target(logits, targets):
    potentials = om.CTC.from_log_probs(logits.log_softmax(-1), targets, TARGET_LENGTHS)
    best = om.CTC().map(potentials, lengths=INPUT_LENGTHS)
    frames = om.CTC.frames(best, targets, TARGET_LENGTHS)
    for row, target, n_frames, size in zip(frames, targets, INPUT_LENGTHS.tolist(), TARGET_LENGTHS.tolist()):
        assert (row[n_frames:] == -1).all() and (row[:n_frames] >= 0).all()
        collapsed = torch.unique_consecutive(row[:n_frames])
        assert collapsed[collapsed != 0].tolist() == target[:size].tolist()


def test_samples_spell_the_target(logits, targets):
    potentials = om.CTC.from_log_probs(logits.log_softmax(-1), targets, TARGET_LENGTHS)
    drawn = om.CTC().sample(potentials, om.SquaredNorm(), n_samples=20, lengths=INPUT_LENGTHS)
    frames = om.CTC.frames(drawn, targets, TARGET_LENGTHS)
    assert frames.shape == (20, B, T)
    for sample in frames:
        collapsed = torch.unique_consecutive(sample[0])
        assert collapsed[collapsed != 0].tolist() == targets[0].tolist()


def test_without_a_batch(logits, targets):
    alone = om.CTC().max(om.CTC.from_log_probs(logits[:, 0], targets[0]))
    whole = om.CTC().max(om.CTC.from_log_probs(logits, targets))
    torch.testing.assert_close(alone, whole[0])
    ours = om.ctc_loss(logits[:, 0].log_softmax(-1), targets[0], 12, 4)
    theirs = torch.nn.functional.ctc_loss(logits[:, 0].log_softmax(-1), targets[0], torch.tensor(12), torch.tensor(4))
    torch.testing.assert_close(ours, theirs)


def test_targets_may_all_be_empty(logits):
    """Silence only: the blank at every frame."""
    nothing, none = torch.zeros(B, 0, dtype=torch.long), torch.zeros(B, dtype=torch.long)
    log_probs = logits.log_softmax(-1)
    for targets in (nothing, nothing.flatten()):
        found = om.ctc_loss(log_probs, targets, INPUT_LENGTHS, none, reduction="none")
        expected = [-log_probs[:n, item, 0].sum() for item, n in enumerate(INPUT_LENGTHS.tolist())]
        torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("wrong", [[S + 1, 3, 2, 0, 1], [-1, 3, 2, 0, 1], [2], 2], ids=str)
def test_target_lengths_that_do_not_fit(logits, targets, wrong):
    with pytest.raises(ValueError, match="target_lengths must be 5 numbers from 0 to 4, got "):
        om.ctc_loss(logits, targets, INPUT_LENGTHS, wrong)


def test_lengths_are_whole_numbers(logits, targets):
    with pytest.raises(TypeError, match="target_lengths must be integers"):
        om.ctc_loss(logits, targets, INPUT_LENGTHS, TARGET_LENGTHS.float())
    with pytest.raises(TypeError, match="input_lengths must be integers"):
        om.ctc_loss(logits, targets, INPUT_LENGTHS.float(), TARGET_LENGTHS)


def test_errors(logits, targets):
    with pytest.raises(ValueError, match="other than the blank 0, got 0"):
        om.CTC.from_log_probs(logits, torch.zeros(B, S, dtype=torch.long))
    with pytest.raises(ValueError, match="one of the 5 classes, got 9"):
        om.CTC.from_log_probs(logits, targets, blank=9)
    with pytest.raises(ValueError, match="for 5 items, got 2"):
        om.CTC.from_log_probs(logits, targets[:2])
    with pytest.raises(TypeError, match="integer Tensor"):
        om.CTC.from_log_probs(logits, targets.float())
    with pytest.raises(TypeError, match=r"use CTC\.from_log_probs"):
        om.CTC().max(logits)
    with pytest.raises(ValueError, match="lengths must lie between 1 and 12, got 1 to 13"):
        om.ctc_loss(logits, targets, torch.tensor([12, 13, 1, 1, 1]), TARGET_LENGTHS)
    with pytest.raises(ValueError, match="reduction"):
        om.ctc_loss(logits, targets, INPUT_LENGTHS, TARGET_LENGTHS, reduction="all")


class TestFramesOfLists:
    """Structures of `topk` have the batch first, samples have it second."""

    def draw(self, n_items):
        log_probs = torch.randn(6, n_items, 4, dtype=torch.float64).log_softmax(-1)
        targets = torch.tensor([[1, 2], [3, 1], [2, 3]])[:n_items]
        return om.CTC.from_log_probs(log_probs, targets), targets

    @staticmethod
    def spelled(frames):
        return [label for label, _ in itertools.groupby(frames.tolist()) if label != 0]

    @pytest.mark.parametrize("n_items", [1, 2, 3])
    def test_of_the_best(self, n_items):
        potentials, targets = self.draw(n_items)
        for k in (1, 2, 3, 4):
            frames = om.CTC.frames(om.CTC().topk(potentials, k).structures, targets, dim=0)
            assert frames.shape == (n_items, k, 6)
            assert all(self.spelled(frames[i, j]) == targets[i].tolist() for i in range(n_items) for j in range(k))

    def test_the_axis_is_found_where_only_one_fits(self):
        potentials, targets = self.draw(3)
        best = om.CTC().topk(potentials, 2).structures
        drawn = om.CTC().sample(potentials, n_samples=2)
        assert torch.equal(om.CTC.frames(best, targets), om.CTC.frames(best, targets, dim=0))
        assert torch.equal(om.CTC.frames(drawn, targets), om.CTC.frames(drawn, targets, dim=1))

    def test_two_axes_that_fit_are_not_guessed(self):
        potentials, targets = self.draw(3)
        with pytest.raises(ValueError, match=r"CTC.frames: one leading axis .* got 2 of them; pass dim=0"):
            om.CTC.frames(om.CTC().topk(potentials, 3).structures, targets)
        with pytest.raises(ValueError, match=r"CTC.frames: .* got none"):
            om.CTC.frames(om.CTC().topk(potentials, 3).structures, targets[:2])

    def test_without_a_batch(self):
        log_probs = torch.randn(6, 4, dtype=torch.float64).log_softmax(-1)
        targets = torch.tensor([1, 2])
        best = om.CTC().topk(om.CTC.from_log_probs(log_probs, targets), 3).structures
        frames = om.CTC.frames(best, targets)
        assert frames.shape == (3, 6) and all(self.spelled(row) == [1, 2] for row in frames)
