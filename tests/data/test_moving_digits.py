"""Clips of moving digits: what is drawn is what is said, splits share no picture, and wrong files and sentences."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from omegamax.data.moving_digits import (
    MOTIONS,
    SIZE,
    clip_of_sentence,
    draw_clips,
    load_digit_images,
    read_frames,
    read_sentence,
    render_clip,
    write_sentence,
)


def test_frames_show_what_is_said(monkeypatch):
    """A digit is found by brute force: the place where its picture fits exactly. Its path says what it does."""
    monkeypatch.setattr("omegamax.data.moving_digits._NOISE", 0.0)
    images = load_digit_images()
    for clip in draw_clips(12, "train", seed=3):
        frames, shown = render_clip(clip), np.zeros(clip.n_frames, bool)
        for event in clip.events:
            assert images.digits[event.image] == event.digit
            path = []
            for frame in frames[event.begin : event.begin + event.length]:
                places = np.argwhere(
                    [
                        [np.array_equal(frame[r : r + 8, c : c + 8], images.pixels[event.image]) for c in range(9)]
                        for r in range(9)
                    ]
                )
                assert len(places) == 1 and np.isclose(frame.sum(), images.pixels[event.image].sum())
                path.append(places[0])
            assert {tuple(step) for step in np.diff(path, axis=0).tolist()} == {MOTIONS[event.motion]}
            shown[event.begin : event.begin + event.length] = True
        assert not frames[~shown].any() and not shown[0] and not shown[-1]
        assert np.diff(shown.astype(int)).clip(min=0).sum() == len(clip.events)  # there is a gap between two events


def test_sentences_say_the_events_in_order():
    for clip in draw_clips(30, "dev", max_events=3):
        assert read_sentence(clip.sentence) == [(event.digit, event.motion) for event in clip.events]
        assert [event.begin for event in clip.events] == sorted(event.begin for event in clip.events)
    assert write_sentence([(8, "stays")]) == "an eight stays"
    assert read_sentence("a one rises, then a two falls.") == [(1, "rises"), (2, "falls")]


def test_splits_share_no_picture():
    used = {split: {event.image for clip in draw_clips(400, split) for event in clip.events} for split in SPLITS}
    assert not used["train"] & used["dev"] and not used["train"] & used["test"] and not used["dev"] & used["test"]
    assert draw_clips(3, "test") == draw_clips(5, "test")[:3] != draw_clips(3, "test", seed=1)


SPLITS = ("train", "dev", "test")


def test_a_sentence_is_played_with_pictures_of_the_test_split():
    clip = clip_of_sentence("a three moves left, then an eight falls")
    assert clip.sentence == "a three moves left, then an eight falls"
    assert clip == clip_of_sentence("a three moves left, then an eight falls.")
    assert clip != clip_of_sentence("a three moves left, then an eight falls", seed=1)
    frames = render_clip(clip)
    assert frames.shape == (clip.n_frames, SIZE, SIZE) and frames.min() >= 0 and frames.max() <= 1


@pytest.mark.parametrize("text", ["", "a three", "a ten falls", "a three falls and a two rises", "three falls"])
def test_wrong_sentences(text):
    with pytest.raises(ValueError, match="expected a file of frames"):
        read_sentence(text)
    with pytest.raises(ValueError, match="split must be one of train, dev, test"):
        draw_clips(1, "all")


def test_files(tmp_path):
    frames = render_clip(draw_clips(1, "test")[0])
    np.save(tmp_path / "a.npy", frames)
    np.save(tmp_path / "b.npy", (255 * frames).round().astype(np.uint8))
    np.testing.assert_array_equal(read_frames(tmp_path / "a.npy"), frames)
    np.testing.assert_allclose(read_frames(tmp_path / "b.npy"), frames, atol=0.002)
    for wrong, message in (
        (frames[:, :8], r"expected \(frames, 16, 16\)"),
        (frames[:0], r"expected \(frames, 16, 16\)"),
        (2 * frames, "expected numbers from 0 to 1"),
        (frames * np.nan, "expected numbers from 0 to 1"),
        (frames.astype(object), "expected an array of NumPy"),
    ):
        np.save(tmp_path / "wrong.npy", wrong)
        with pytest.raises(ValueError, match=message):
            read_frames(tmp_path / "wrong.npy")
    (tmp_path / "text.npy").write_text("frames")
    with pytest.raises(ValueError, match="expected an array of NumPy"):
        read_frames(tmp_path / "text.npy")
    with pytest.raises(FileNotFoundError):
        read_frames(tmp_path / "none.npy")
