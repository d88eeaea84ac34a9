"""Small pictures somewhere in large dark images, alone or among pieces of other pictures.

    translated   one picture at a random place of side × side pixels
    cluttered    the same, and pieces of 8 × 8 pixels cut from other pictures, at random places

Made as in Mnih et al., "Recurrent models of visual attention", NIPS 2014, who have digits of MNIST, 28 × 28, in 60 × 60
or 100 × 100. Here the pictures are the digits of scikit-learn, enlarged from 8 × 8 to 24 × 24, or those of IDX files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from omegamax.data.idx import read_idx_folder
from omegamax.data.moving_digits import load_digit_images

SPLITS = ("train", "dev", "test")
_ENLARGED = 3  # pixels of ours for one of scikit-learn, up and across
_PIECE = 8  # pixels of a piece, up and across


class Pictures(NamedTuple):
    """Small pictures of one size."""

    pixels: np.ndarray  # (n, rows, columns), uint8
    labels: np.ndarray  # (n,)


class ScatteredPicture(NamedTuple):
    """Where one picture is, in an image that has nothing else but clutter."""

    split: str  # whose pictures it is made of
    picture: int
    label: int
    row: int  # of its upper left pixel
    column: int
    clutter: int  # the seed of it


@cache
def load_digit_pictures() -> Mapping[str, Pictures]:
    """Enlarges the digits of scikit-learn; of ten images of a digit one is for dev, two for test."""
    found = load_digit_images()
    pixels, labels = np.round(255 * enlarge(found.pixels, _ENLARGED)).astype(np.uint8), found.digits
    rank = np.zeros(len(labels), int)  # how many images of the same digit come before
    for digit in range(10):
        rank[labels == digit] = np.arange((labels == digit).sum())
    parts = {"train": (3, 10), "dev": (0, 1), "test": (1, 3)}
    chosen = {split: (rank % 10 >= first) & (rank % 10 < end) for split, (first, end) in parts.items()}
    return {split: Pictures(pixels[some], labels[some]) for split, some in chosen.items()}


def read_pictures(folder: str | Path) -> dict[str, Pictures]:
    """Reads pictures from a folder of IDX files; every tenth training picture is for dev.

    Arguments:
        folder: as that of MNIST or Fashion-MNIST
    """
    train, test = (Pictures(*read_idx_folder(folder, kind)) for kind in ("train", "test"))
    if train.pixels.shape[1:] != test.pixels.shape[1:] or len(train.labels) < 10:
        raise ValueError(
            f"{folder}: expected ten training pictures or more and test pictures of their size, got "
            f"{train.pixels.shape} and {test.pixels.shape}; take all files from one data set"
        )
    held_out = np.arange(len(train.labels)) % 10 == 0
    dev = Pictures(train.pixels[held_out], train.labels[held_out])
    return {"train": Pictures(train.pixels[~held_out], train.labels[~held_out]), "dev": dev, "test": test}


def enlarge(pixels: np.ndarray, times: int) -> np.ndarray:
    """Makes pictures (n, rows, columns) larger, with linear interpolation between the centres of pixels.

    Arguments:
        pixels: numbers
        times: how many pixels each becomes, up and across
    """
    for axis in (1, 2):
        size = pixels.shape[axis]
        at = np.clip((np.arange(size * times) + 0.5) / times - 0.5, 0, size - 1)
        low = np.minimum(at.astype(int), max(0, size - 2))
        high = np.minimum(low + 1, size - 1)
        share = (at - low).reshape([-1 if each == axis else 1 for each in range(3)])
        pixels = (1 - share) * pixels.take(low, axis) + share * pixels.take(high, axis)
    return pixels


def scatter_pictures(
    count: int, split: str, pictures: Mapping[str, Pictures], *, side: int, seed: int = 0
) -> list[ScatteredPicture]:
    """Draws pictures of a split and their places; fewer are the beginning of more.

    Arguments:
        count: how many
        split: "train", "dev" or "test"
        pictures: of every split
        side: pixels of an image, up and across
        seed: of the random numbers

    >>> pictures = load_digit_pictures()
    >>> scatter_pictures(1, "test", pictures, side=60)
    [ScatteredPicture(split='test', picture=80, label=3, row=23, column=12, clutter=917614269)]
    """
    if split not in SPLITS:
        raise ValueError(f"scatter_pictures: split must be one of {', '.join(SPLITS)}, got {split!r}; choose one")
    labels, size = pictures[split].labels, pictures[split].pixels.shape[1:]
    if side < max(size):
        raise ValueError(
            f"scatter_pictures: side must be at least {max(size)}, the size of the pictures, got {side}; choose a "
            "larger one"
        )
    draw = np.random.default_rng([abs(seed), seed < 0, SPLITS.index(split)])
    most = [len(labels), side - size[0] + 1, side - size[1] + 1, 2**31]
    numbers = draw.integers(0, most, size=(count, 4)).tolist()
    return [
        ScatteredPicture(split, picture, int(labels[picture]), row, column, clutter)
        for picture, row, column, clutter in numbers
    ]


def render_picture(
    scattered: ScatteredPicture, pictures: Mapping[str, Pictures], *, side: int, pieces: int
) -> np.ndarray:
    """Returns the image (side, side), float32, from 0 to 1; where two things meet, the brighter pixel is seen.

    Arguments:
        scattered: what is where
        pictures: of every split
        side: pixels up and across
        pieces: how many pieces of other pictures are there
    """
    pixels = pictures[scattered.split].pixels
    image = np.zeros((side, side), np.uint8)
    here = pixels[scattered.picture]
    image[scattered.row : scattered.row + here.shape[0], scattered.column : scattered.column + here.shape[1]] = here
    if pieces:
        height, width = min(_PIECE, here.shape[0]), min(_PIECE, here.shape[1])
        most = [len(pixels), here.shape[0] - height + 1, here.shape[1] - width + 1]
        most += [side - height + 1, side - width + 1]
        drawn = np.random.default_rng(scattered.clutter).integers(0, most, size=(pieces, 5)).tolist()
        for other, down, right, row, column in drawn:
            place = image[row : row + height, column : column + width]
            np.maximum(place, pixels[other, down : down + height, right : right + width], out=place)
    return image.astype(np.float32) / 255


def read_image(path: str | Path) -> np.ndarray:
    """Reads an image from a file of NumPy: (side, side), numbers from 0 to 1, or whole numbers up to 255.

    Arguments:
        path: of a .npy file
    """
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an array of NumPy, got {error}; save it with numpy.save") from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or not 1 <= min(found.shape) <= max(found.shape) <= 4096:
        shape = found.shape if isinstance(found, np.ndarray) else "several arrays"
        raise ValueError(f"{path}: expected a grey image (rows, columns) up to 4096, got {shape}; take one channel")
    image = found / np.float32(255) if found.dtype.kind in "iu" else found
    if image.dtype.kind != "f" or not ((image >= 0) & (image <= 1)).all():
        raise ValueError(f"{path}: expected numbers from 0 to 1, or whole ones from 0 to 255, got others; scale them")
    return image.astype(np.float32)
