"""Pictures of several handwritten digits, and a sentence that says what is where.

    a picture   32 × 32 pixels with noise; one to three rows of one to three digits each
    a sentence  "a seven left of a three above a five": rows from top to bottom, each from left to right

Every digit has a place of its own, so that one can ask whether the word "three" looks at the three. The digits are the
images of scikit-learn that moving_digits.py reads; each image is in one split only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from omegamax.data.moving_digits import DIGITS, images_of, load_digit_images
from omegamax.data.printable import short_repr

SIZE = 32  # pixels of a picture, up and across
MOST = 3  # rows of a picture, and digits of a row
DIGIT_SIZE = 8  # pixels of a digit, up and across
_BAND = 10  # pixels of a row: its digits are not quite at one height
_SPLITS = ("train", "dev", "test")
_NOISE = 0.1  # deviation of what is added to every pixel
_DIGIT = re.compile(rf"an? ({'|'.join(DIGITS)})")


class PlacedDigit(NamedTuple):
    """A digit and where it is."""

    digit: int
    image: int  # the number of its picture
    row: int  # of its upper left pixel
    column: int


class Scene(NamedTuple):
    """What is in a picture."""

    rows: tuple[tuple[PlacedDigit, ...], ...]  # from top to bottom, each from left to right
    noise: int  # the seed of it

    @property
    def sentence(self) -> str:
        """Says what is where."""
        return write_scene([[placed.digit for placed in row] for row in self.rows])

    @property
    def digits(self) -> list[PlacedDigit]:
        """The digits in the order in which the sentence has them."""
        return list(chain.from_iterable(self.rows))


def write_scene(rows: Iterable[Sequence[int]]) -> str:
    """Returns the sentence of rows of digits.

    >>> write_scene([[7, 3], [8]])
    'a seven left of a three above an eight'
    """
    return " above ".join(" left of ".join(_named(digit) for digit in row) for row in rows)


def _named(digit: int) -> str:
    return f"{'an' if digit == 8 else 'a'} {DIGITS[digit]}"


def read_scene(text: str) -> list[list[int]]:
    """Returns the rows of digits of a sentence; ValueError if it is not such a sentence.

    >>> read_scene("a seven left of a three above an eight")
    [[7, 3], [8]]
    """
    found = [
        [_DIGIT.fullmatch(part.strip()) for part in row.split(" left of ")]
        for row in text.strip().removesuffix(".").split(" above ")
    ]
    if not all(map(all, found)):
        raise ValueError(
            "caption: expected a file with a picture (.png or .npy) or a sentence such as 'a seven left of a three "
            f"above a five', got {short_repr(text)}; digits are called {', '.join(DIGITS)}"
        )
    return [[DIGITS.index(match[1]) for match in row if match] for row in found]


def draw_scenes(count: int, split: str, *, max_rows: int = 2, max_columns: int = 2, seed: int = 0) -> list[Scene]:
    """Draws scenes of a split; fewer are the beginning of more.

    Arguments:
        count: how many
        split: "train", "dev" or "test"
        max_rows: a picture has one row up to this number, each number as often
        max_columns: a row has one digit up to this number, each number as often
        seed: of the random numbers

    >>> [scene.sentence for scene in draw_scenes(2, "train")]
    ['a two left of a three above a zero left of a zero', 'an eight above a five']
    """
    if split not in _SPLITS:
        raise ValueError(f"draw_scenes: split must be one of {', '.join(_SPLITS)}, got {split!r}; choose one")
    for name, given in (("max_rows", max_rows), ("max_columns", max_columns)):
        if not 1 <= given <= MOST:
            raise ValueError(f"draw_scenes: {name} must be from 1 to {MOST}, got {given}; more have no room")
    draw = np.random.default_rng([abs(seed), seed < 0, _SPLITS.index(split)])
    scenes = []
    for _ in range(count):
        widths = draw.integers(1, max_columns + 1, draw.integers(1, max_rows + 1))
        scenes.append(place_digits([draw.integers(10, size=width).tolist() for width in widths], split, draw))
    return scenes


def place_digits(rows: Sequence[Sequence[int]], split: str, draw: np.random.Generator) -> Scene:
    """Chooses images and places for rows of digits.

    Arguments:
        rows: of digits, from top to bottom, each from left to right; three of three at most
        split: whose images are shown
        draw: random numbers
    """
    if max(len(rows), *map(len, rows)) > MOST:
        raise ValueError(f"caption: a picture has room for {MOST} rows of {MOST} digits, got more; say fewer")
    placed = []
    for digits, top in zip(rows, _apart(len(rows), _BAND, draw)):
        lefts = _apart(len(digits), DIGIT_SIZE, draw)
        placed.append(
            tuple(
                PlacedDigit(
                    digit,
                    int(draw.choice(images_of(split)[digit])),
                    top + int(draw.integers(_BAND - DIGIT_SIZE + 1)),
                    left,
                )
                for digit, left in zip(digits, lefts)
            )
        )
    return Scene(tuple(placed), int(draw.integers(2**31)))


def _apart(count: int, size: int, draw: np.random.Generator) -> list[int]:
    """Draws where things of this size begin along an axis of the picture, so that none overlap."""
    slack = np.sort(draw.integers(SIZE - count * size + 1, size=count))
    return [int(free) + place * size for place, free in enumerate(slack)]


def scene_of_sentence(text: str, *, seed: int = 0) -> Scene:
    """Draws what a sentence says with images of the test split; the same sentence gives the same scene.

    Arguments:
        text: as "a seven left of a three above a five"
        seed: of the images and places

    >>> scene_of_sentence("a seven above a three").sentence
    'a seven above a three'
    """
    rows = read_scene(text)
    return place_digits(rows, "test", np.random.default_rng([abs(seed), seed < 0, *write_scene(rows).encode()]))


def render_scene(scene: Scene) -> np.ndarray:
    """Returns the picture of a scene, (32, 32), float32, from 0 (dark) to 1."""
    pixels = load_digit_images().pixels
    picture = np.zeros((SIZE, SIZE), np.float32)
    for placed in scene.digits:
        rows, columns = (slice(start, start + DIGIT_SIZE) for start in (placed.row, placed.column))
        picture[rows, columns] = pixels[placed.image]
    noise = np.random.default_rng(scene.noise).standard_normal(picture.shape, np.float32)
    return np.clip(picture + _NOISE * noise, 0, 1)
