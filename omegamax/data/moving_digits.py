"""Short clips of handwritten digits that move, one after the other, and a sentence that says what happens.

    a clip      16 × 16 pixels; a digit appears, moves by one pixel from frame to frame or stays, and disappears; then
                there is nothing for a few frames; then comes the next digit
    a sentence  "a three moves left, then an eight falls"

No single frame shows a direction, and no few frames show which digit came first, so that the words need time. The
digits are the 1797 images of 8 × 8 pixels of scikit-learn (Alpaydin & Kaynak, 1998); each image is in one split only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from omegamax.data.printable import short_repr
from omegamax.extras import how_to_install

SIZE = 16  # pixels of a frame, up and across
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# What is said of a digit, and by how many pixels it goes down and to the right from one frame to the next.
MOTIONS = {"moves left": (0, -1), "moves right": (0, 1), "rises": (-1, 0), "falls": (1, 0), "stays": (0, 0)}
MAX_FRAMES = 1000  # of a clip in a file
_SPLITS = ("train", "dev", "test")
_DIGIT = 8  # pixels of a digit, up and across
_SHORTEST, _LONGEST = 4, 6  # frames of an event
_LONGEST_GAP = 3  # frames without a digit before an event and after the last; the shortest has one
_NOISE = 0.1  # deviation of what is added to every pixel
_SENTENCE = re.compile(rf"an? ({'|'.join(DIGITS)}) ({'|'.join(MOTIONS)})")


class DigitEvent(NamedTuple):
    """A digit that is shown for some frames."""

    digit: int
    motion: str  # a key of MOTIONS
    image: int  # the number of its picture
    begin: int  # the first frame
    length: int  # frames
    row: int  # of its upper left pixel, in the first frame
    column: int


class Clip(NamedTuple):
    """What happens in a clip, one event after the other."""

    events: tuple[DigitEvent, ...]
    n_frames: int
    noise: int  # the seed of it

    @property
    def sentence(self) -> str:
        """Says what happens, in the order in which it does."""
        return write_sentence([(event.digit, event.motion) for event in self.events])


class DigitImages(NamedTuple):
    """Pictures of handwritten digits, and which digit each of them shows."""

    pixels: np.ndarray  # (images, 8, 8), float32, from 0 to 1
    digits: np.ndarray  # (images,), which digit each shows


def write_sentence(events: Sequence[tuple[int, str]]) -> str:
    """Returns the sentence of digits and their motions.

    >>> write_sentence([(3, "moves left"), (8, "falls")])
    'a three moves left, then an eight falls'
    """
    return ", then ".join(f"{'an' if digit == 8 else 'a'} {DIGITS[digit]} {motion}" for digit, motion in events)


def read_sentence(text: str) -> list[tuple[int, str]]:
    """Returns the digits of a sentence and their motions; ValueError if it is not such a sentence.

    >>> read_sentence("a three moves left, then an eight falls")
    [(3, 'moves left'), (8, 'falls')]
    """
    found = [_SENTENCE.fullmatch(part.strip()) for part in text.strip().removesuffix(".").split(", then")]
    if not all(found):
        raise ValueError(
            "video: expected a file of frames (.npy) or a sentence such as 'a three moves left, then an eight falls', "
            f"got {short_repr(text)}; digits are called {', '.join(DIGITS)}, and what they do is {', '.join(MOTIONS)}"
        )
    return [(DIGITS.index(match[1]), match[2]) for match in found if match]


@cache
def load_digit_images() -> DigitImages:
    """Reads the pictures of scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError(f"pictures of digits need scikit-learn; {how_to_install('sklearn')}") from None
    found = load_digits()
    return DigitImages((found.images / 16).astype(np.float32), found.target)


@cache
def images_of(split: str) -> tuple[np.ndarray, ...]:
    """Returns the numbers of the images of each digit in a split: of ten images one is for dev, two are for test."""
    digits = load_digit_images().digits
    places = [np.flatnonzero(digits == digit) for digit in range(10)]
    of_split = {"train": range(3, 10), "dev": (0,), "test": (1, 2)}[split]
    return tuple(each[np.isin(np.arange(len(each)) % 10, of_split)] for each in places)


def draw_clips(count: int, split: str, *, max_events: int = 2, seed: int = 0) -> list[Clip]:
    """Draws clips of a split; fewer are the beginning of more.

    Arguments:
        count: how many
        split: "train", "dev" or "test"
        max_events: a clip has one event up to this number, each number as often
        seed: of the random numbers

    >>> [clip.sentence for clip in draw_clips(2, "train")]
    ['a six rises, then a two moves right', 'a five stays, then a two stays']
    """
    if split not in _SPLITS:
        raise ValueError(f"draw_clips: split must be one of {', '.join(_SPLITS)}, got {split!r}; choose one")
    draw = np.random.default_rng([abs(seed), seed < 0, _SPLITS.index(split)])
    motions = list(MOTIONS)
    clips = []
    for _ in range(count):
        n_events = int(draw.integers(1, max_events + 1))
        said = [(int(draw.integers(10)), motions[draw.integers(len(motions))]) for _ in range(n_events)]
        clips.append(stage_clip(said, split, draw))
    return clips


def stage_clip(events: Sequence[tuple[int, str]], split: str, draw: np.random.Generator) -> Clip:
    """Chooses images, places, lengths and gaps for digits that move.

    Arguments:
        events: digits and their motions
        split: whose images are shown
        draw: random numbers
    """
    staged, now = [], 0
    for digit, motion in events:
        now += int(draw.integers(1, _LONGEST_GAP + 1))
        length = int(draw.integers(_SHORTEST, _LONGEST + 1))
        row, column = (_start(step, length, draw) for step in MOTIONS[motion])
        image = int(draw.choice(images_of(split)[digit]))
        staged.append(DigitEvent(digit, motion, image, now, length, row, column))
        now += length
    now += int(draw.integers(1, _LONGEST_GAP + 1))
    return Clip(tuple(staged), now, int(draw.integers(2**31)))


def _start(step: int, length: int, draw: np.random.Generator) -> int:
    """Draws where a digit begins along one axis, so that it stays within the frame."""
    way, room = step * (length - 1), SIZE - _DIGIT
    return int(draw.integers(max(0, -way), room - max(0, way) + 1))


def clip_of_sentence(text: str, *, seed: int = 0) -> Clip:
    """Stages what a sentence says with images of the test split; the same sentence gives the same clip.

    Arguments:
        text: as "a three moves left, then an eight falls"
        seed: of the images, places and lengths

    >>> clip_of_sentence("a three moves left, then an eight falls").n_frames
    19
    """
    events = read_sentence(text)
    return stage_clip(events, "test", np.random.default_rng([abs(seed), seed < 0, *write_sentence(events).encode()]))


def render_clip(clip: Clip) -> np.ndarray:
    """Returns the frames of a clip, (frames, 16, 16), float32, from 0 to 1."""
    pixels = load_digit_images().pixels
    frames = np.zeros((clip.n_frames, SIZE, SIZE), np.float32)
    for event in clip.events:
        down, right = MOTIONS[event.motion]
        for step in range(event.length):
            row, column = event.row + step * down, event.column + step * right
            frames[event.begin + step, row : row + _DIGIT, column : column + _DIGIT] = pixels[event.image]
    noise = np.random.default_rng(clip.noise).standard_normal(frames.shape, np.float32)
    return np.clip(frames + _NOISE * noise, 0, 1)


def read_frames(path: str | Path) -> np.ndarray:
    """Reads a clip from a file of NumPy: (frames, 16, 16), numbers from 0 to 1, or whole numbers up to 255.

    Arguments:
        path: of a .npy file
    """
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an array of NumPy, got {error}; save it with numpy.save") from None
    if not isinstance(found, np.ndarray) or found.shape[1:] != (SIZE, SIZE) or not 1 <= len(found) <= MAX_FRAMES:
        shape = found.shape if isinstance(found, np.ndarray) else "several arrays"
        raise ValueError(
            f"{path}: expected (frames, {SIZE}, {SIZE}) with at most {MAX_FRAMES} frames, got {shape}; cut or resize it"
        )
    frames = found / np.float32(255) if found.dtype.kind in "iu" else found
    if frames.dtype.kind != "f" or not ((frames >= 0) & (frames <= 1)).all():
        raise ValueError(f"{path}: expected numbers from 0 to 1, or whole ones from 0 to 255, got others; scale them")
    return frames.astype(np.float32)
