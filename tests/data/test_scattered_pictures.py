"""Scattered pictures: found again by brute force, clutter made of real pieces, splits apart, files."""

import gzip
import struct

import numpy as np
import pytest

pytest.importorskip("sklearn")

from omegamax.data.moving_digits import load_digit_images
from omegamax.data.scattered_pictures import (
    Pictures,
    enlarge,
    load_digit_pictures,
    read_image,
    read_pictures,
    render_picture,
    scatter_pictures,
)


def test_a_picture_is_where_it_is_said_to_be():
    pictures = load_digit_pictures()
    for each in scatter_pictures(5, "train", pictures, side=40):
        image = render_picture(each, pictures, side=40, pieces=0)
        wanted = pictures["train"].pixels[each.picture] / np.float32(255)
        places = [
            (row, column)
            for row in range(17)
            for column in range(17)
            if np.allclose(image[row : row + 24, column : column + 24], wanted)
        ]
        assert places == [(each.row, each.column)] and np.isclose(image.sum(), wanted.sum())
        assert pictures["train"].labels[each.picture] == each.label


def test_clutter_is_made_of_pieces_of_pictures_of_the_split():
    """Where nothing else is, a bright patch is a piece of some picture; what is behind the picture stays hidden."""
    draw = np.random.default_rng(0)
    pictures = {"test": Pictures(draw.integers(1, 256, (3, 10, 10)).astype(np.uint8), np.arange(3))}
    for each in scatter_pictures(6, "test", pictures, side=80, seed=1):
        image = np.round(255 * render_picture(each, pictures, side=80, pieces=1)).astype(np.uint8)
        alone = np.round(255 * render_picture(each, pictures, side=80, pieces=0)).astype(np.uint8)
        assert (image >= alone).all()
        rest = image * (alone == 0)
        rows, columns = np.flatnonzero(rest.any(1)), np.flatnonzero(rest.any(0))
        piece = rest[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        if piece.shape == (8, 8) and piece.all():  # it does not meet the picture
            pieces = [
                pixels[r : r + 8, c : c + 8] for pixels in pictures["test"].pixels for r in range(3) for c in range(3)
            ]
            assert sum(np.array_equal(piece, other) for other in pieces) == 1
            return
    raise AssertionError("every piece met the picture")


def test_splits_share_no_picture():
    pictures = load_digit_pictures()
    assert sum(len(each.labels) for each in pictures.values()) == 1797
    content = {split: {row.tobytes() for row in each.pixels} for split, each in pictures.items()}
    assert not content["train"] & content["test"] and not content["train"] & content["dev"]
    some = scatter_pictures(5, "test", pictures, side=60)
    assert (
        some[:3]
        == scatter_pictures(3, "test", pictures, side=60)
        != scatter_pictures(3, "test", pictures, side=60, seed=1)
    )
    places = np.array([(each.row, each.column) for each in scatter_pictures(2000, "train", pictures, side=26)])
    assert sorted(map(tuple, np.unique(places, axis=0).tolist())) == [(r, c) for r in range(3) for c in range(3)]


def test_enlarged_pictures_are_interpolated():
    given = load_digit_images().pixels[:2]
    found = enlarge(given, 3)
    np.testing.assert_allclose(found[:, 1::3, 1::3], given, atol=1e-6)  # the middle of three is the pixel
    np.testing.assert_allclose(found[:, 1, 2], (2 * given[:, 0, 0] + given[:, 0, 1]) / 3, atol=1e-6)
    np.testing.assert_array_equal(enlarge(np.ones((1, 1, 1)), 2), np.ones((1, 2, 2)))


def test_folders_of_idx_files(tmp_path):
    pixels, labels = np.arange(20 * 6).reshape(20, 2, 3).astype(np.uint8), np.arange(20, dtype=np.uint8)
    for start, count in (("train", 20), ("t10k", 4)):
        for name, values in (("images-idx3", pixels[:count]), ("labels-idx1", labels[:count])):
            header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
            (tmp_path / f"{start}-{name}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes()))
    found = read_pictures(tmp_path)
    assert found["dev"].labels.tolist() == [0, 10] and len(found["train"].labels) == 18
    np.testing.assert_array_equal(found["test"].pixels, pixels[:4])


def test_wrong_arguments_and_files(tmp_path):
    pictures = load_digit_pictures()
    with pytest.raises(ValueError, match="split must be one of train, dev, test"):
        scatter_pictures(1, "all", pictures, side=60)
    with pytest.raises(ValueError, match="side must be at least 24"):
        scatter_pictures(1, "test", pictures, side=20)
    image = render_picture(scatter_pictures(1, "test", pictures, side=30)[0], pictures, side=30, pieces=2)
    np.save(tmp_path / "a.npy", (255 * image).round().astype(np.uint8))
    np.testing.assert_allclose(read_image(tmp_path / "a.npy"), image, atol=1e-6)
    for wrong, message in (
        (image[None], "expected a grey image"),
        (image[:0], "expected a grey image"),
        (image * np.nan, "expected numbers from 0 to 1"),
        (image.astype(object), "expected an array of NumPy"),
    ):
        np.save(tmp_path / "wrong.npy", wrong)
        with pytest.raises(ValueError, match=message):
            read_image(tmp_path / "wrong.npy")
