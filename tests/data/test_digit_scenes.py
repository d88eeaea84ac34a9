"""Pictures of digits: what is drawn is what is said, splits share no picture, wrong sentences."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("sklearn")

from omegamax.data.digit_scenes import (
    SIZE,
    draw_scenes,
    read_scene,
    render_scene,
    scene_of_sentence,
    write_scene,
)
from omegamax.data.moving_digits import load_digit_images

SPLITS = ("train", "dev", "test")


def test_pictures_show_what_is_said(monkeypatch):
    """Each digit is found by brute force: the places where its picture fits exactly; nothing else is drawn."""
    monkeypatch.setattr("omegamax.data.digit_scenes._NOISE", 0.0)
    images = load_digit_images()
    for scene in draw_scenes(12, "train", max_rows=3, max_columns=3, seed=3):
        picture, found = render_scene(scene), []
        assert np.isclose(picture.sum(), sum(images.pixels[placed.image].sum() for placed in scene.digits))
        for placed in scene.digits:
            pixels = images.pixels[placed.image]
            places = [
                (row, column)
                for row in range(SIZE - 7)
                for column in range(SIZE - 7)
                if np.array_equal(picture[row : row + 8, column : column + 8], pixels)
            ]
            assert images.digits[placed.image] == placed.digit and (placed.row, placed.column) in places
            found.append((placed.row, placed.column, placed.digit))
        rows = [found[:1]]  # read as one reads a page: a digit that begins below the last row is in the next one
        for digit in found[1:]:
            rows.append([digit]) if digit[0] >= rows[-1][0][0] + 6 else rows[-1].append(digit)
        assert read_scene(scene.sentence) == [[digit for _, _, digit in row] for row in rows]
        for row in rows:
            assert all(right[1] >= left[1] + 8 for left, right in pairwise(row))


def test_sentences():
    assert write_scene([[8], [1, 2]]) == "an eight above a one left of a two"
    assert read_scene(" an eight above a one left of a two.") == [[8], [1, 2]]
    for scene in draw_scenes(30, "dev", max_rows=3):
        assert read_scene(scene.sentence) == [[placed.digit for placed in row] for row in scene.rows]


def test_splits_share_no_picture():
    used = {split: {placed.image for scene in draw_scenes(300, split) for placed in scene.digits} for split in SPLITS}
    assert not used["train"] & used["dev"] and not used["train"] & used["test"] and not used["dev"] & used["test"]
    assert draw_scenes(3, "test") == draw_scenes(5, "test")[:3] != draw_scenes(3, "test", seed=1)


def test_a_sentence_is_drawn_with_pictures_of_the_test_split():
    scene = scene_of_sentence("a seven left of a three above a five")
    assert scene.sentence == "a seven left of a three above a five"
    assert scene == scene_of_sentence("a seven left of a three above a five.")
    assert scene != scene_of_sentence("a seven left of a three above a five", seed=1)
    picture = render_scene(scene)
    assert picture.shape == (SIZE, SIZE) and picture.min() >= 0 and picture.max() <= 1
    assert len({(len(each.rows), *map(len, each.rows)) for each in draw_scenes(99, "test", max_columns=1)}) == 2


@pytest.mark.parametrize("text", ["", "three", "a three below a one", "a ten", "a one above", "a one left of two"])
def test_wrong_sentences(text):
    with pytest.raises(ValueError, match="expected a file with a picture"):
        read_scene(text)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="split must be one of train, dev, test"):
        draw_scenes(1, "all")
    with pytest.raises(ValueError, match="max_rows must be from 1 to 3, got 4"):
        draw_scenes(1, "test", max_rows=4)
    with pytest.raises(ValueError, match="room for 3 rows of 3 digits"):
        scene_of_sentence(" left of ".join(["a one"] * 4))
