"""The describer of clips: its formulas in NumPy, receptive fields, padding, steps against teacher forcing."""

import numpy as np
import pytest
import torch

from omegamax.models.video_describer import FrameEncoder, MotionEncoder, VideoDescriber
from omegamax.operators import Shannon, SquaredNorm


def describer(normalizer=None, **options):
    torch.manual_seed(0)
    encoders = [FrameEncoder(6, size=16), MotionEncoder(5, size=16)]
    return VideoDescriber(encoders, 9, normalizer=normalizer, embedding_size=4, hidden_size=7, **options).eval()


def test_a_frame_is_its_brightest_window_and_where_it_is():
    encoder = FrameEncoder(6, size=16)
    clip = torch.rand(1, 3, 16, 16)
    found = encoder(clip, torch.ones(1, 3, dtype=torch.bool))
    for time, frame in enumerate(clip[0].numpy()):
        sums = {(r, c): frame[r : r + 8, c : c + 8].sum() for r in range(9) for c in range(9)}
        row, column = max(sums, key=sums.get)
        window = frame[row : row + 8, column : column + 8]
        where = np.zeros(18)
        where[[row, 9 + column]] = window.mean()
        hidden = encoder.first(torch.from_numpy(np.concatenate([window.ravel(), where])).float()).relu()
        torch.testing.assert_close(found[0, time], encoder.second(hidden), atol=1e-5, rtol=1e-4)


def test_motion_is_seen_within_five_frames():
    encoder = MotionEncoder(6, size=16)
    clip = torch.rand(1, 9, 16, 16, requires_grad=True)
    encoder(clip, torch.ones(1, 9, dtype=torch.bool))[0, 4].sum().backward()
    seen = clip.grad[0].abs().amax((1, 2)) > 0
    assert seen.tolist() == [False, False, True, True, True, True, True, False, False]


@torch.no_grad()
@pytest.mark.parametrize("normalizer", [None, Shannon(), SquaredNorm()], ids=str)
def test_padding_changes_nothing(normalizer):
    model = describer(normalizer)
    clips, target = torch.rand(2, 6, 16, 16), torch.randint(4, 9, (2, 5))
    together = model(clips, torch.tensor([6, 4]), target)
    clips[1, 4:] = 0.5
    torch.testing.assert_close(model(clips, torch.tensor([6, 4]), target), together)
    torch.testing.assert_close(model(clips[1:, :4], torch.tensor([4]), target[1:]), together[1:])
    torch.testing.assert_close(model(clips[:1], None, target[:1]), together[:1])


@torch.no_grad()
@pytest.mark.parametrize("normalizer", [None, Shannon(), SquaredNorm()], ids=str)
def test_steps_are_those_of_teacher_forcing(normalizer):
    model = describer(normalizer)
    clips, lengths, target = torch.rand(2, 6, 16, 16), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))
    encoded = model.encode(clips, lengths)
    state, values, looked = model.start(encoded), [], []
    for place in range(4):
        log_probs, state, weights = model.step(target[:, place], state, encoded)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2))
        values.append(log_probs.gather(1, target[:, place + 1 : place + 2]).squeeze(1))
        looked.append(weights)
    torch.testing.assert_close(torch.stack(values, 1), model.log_likelihood(clips, lengths, target))
    if normalizer is None:
        assert model.attend(clips, lengths, target) is None and looked == [None] * 4
    else:
        weights = model.attend(clips, lengths, target)
        torch.testing.assert_close(torch.stack(looked, 1), weights)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4))
        assert not weights[1, :, 4:].any()


@torch.no_grad()
def test_without_positions_frames_are_a_set():
    """A clip whose frames are shuffled is the same to attention over single frames, unless they say when they are."""
    clips, order, target = torch.rand(1, 6, 16, 16), torch.tensor([3, 0, 5, 1, 4, 2]), torch.randint(4, 9, (1, 5))
    for positions in (False, True):
        torch.manual_seed(0)
        model = VideoDescriber([FrameEncoder(6, size=16)], 9, normalizer=Shannon(), positions=positions).eval()
        given, shuffled = (model(each, torch.tensor([6]), target) for each in (clips, clips[:, order]))
        assert torch.allclose(given, shuffled, atol=1e-6) is not positions
