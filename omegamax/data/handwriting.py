"""Generated handwriting: points of a pen that writes random letters, as many writers would.

    a writing   points (T, 3): how far the pen went right and down since the point before, in heights of the letter x,
                and 1 where the pen is lifted after the point
    a writer    a font of single strokes with a slant, a size, a spacing and an unsteady hand

The generator knows which letter each point belongs to, which no collection of real handwriting does.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from omegamax.data.pen_fonts import PEN_FONTS, PRINTABLE, load_pen_font
from omegamax.data.printable import short_repr

LETTERS = "abcdefghijklmnopqrstuvwxyz "
_STEP = 0.5  # heights of the letter x between two points of a stroke
_CORNER = 1.0  # radians; a sharper turn has a point of its own
_N_WRITERS = {"train": 200, "dev": 20, "test": 40, "lessons": 200}  # lessons: for who learns to read
_SPACE = 0.15  # how often a text has a space
_TWICE = 0.1  # how often a letter is the one before it


class PenWriter(NamedTuple):
    """The font of somebody's hand, and how its letters differ from those of the font."""

    font: str
    slant: float  # to the right, per height
    width: float
    height: float
    spacing: float  # between letters of the plain font, in heights of the letter x
    unsteadiness: float  # deviation of a point
    wobble: float  # deviation of a letter's height above the line


class Writing(NamedTuple):
    """A text and the points with which somebody wrote it."""

    text: str
    points: np.ndarray  # (T, 3), float32: right, down, 1 if the pen is lifted after it
    letters: np.ndarray  # (T,), the place in the text of the letter that the point belongs to
    writer: PenWriter


class _Piece(NamedTuple):
    """A part of a stroke without a corner."""

    points: np.ndarray  # (n, 2)
    letter: int
    begins: bool  # whether it begins a stroke


def check_letters(letters: str) -> str:
    """Returns the alphabet; ValueError if a character is there twice or is not in the fonts.

    Arguments:
        letters: the characters that may be written
    """
    if not letters.strip() or len(set(letters)) < len(letters) or not set(letters) <= set(PRINTABLE):
        raise ValueError(
            f"handwriting: letters must be different printable characters of ASCII, got {short_repr(letters)}; the "
            f"fonts have {PRINTABLE[1:]} and the space"
        )
    return letters


def check_text(text: str, letters: str) -> str:
    """Returns a text that can be written; ValueError if it is empty or has other letters.

    Arguments:
        text: what to write
        letters: the characters that may be written
    """
    other = "".join(sorted(set(text) - set(letters)))
    if not text.strip() or other:
        came = f"{short_repr(text)}, with {short_repr(other)}" if other else short_repr(text)
        raise ValueError(
            f"handwriting: text must be of the letters {letters!r}, got {came}; leave others out, or train with "
            "--letters"
        )
    return text


@lru_cache(maxsize=4096)
def draw_writer(split: str, number: int, *, seed: int = 0) -> PenWriter:
    """Draws the hand of one writer; no two splits share one.

    Arguments:
        split: "train", "dev", "test", or "lessons", whose writers teach to read
        number: which of the split's writers
        seed: of the random numbers
    """
    draw = np.random.default_rng([abs(seed), seed < 0, _place(split), number])
    return PenWriter(
        font=PEN_FONTS[draw.integers(len(PEN_FONTS))],
        slant=float(draw.uniform(-0.15, 0.4)),
        width=float(draw.uniform(0.8, 1.15)),
        height=float(draw.uniform(0.85, 1.15)),
        spacing=float(draw.uniform(-0.05, 0.2)),
        unsteadiness=float(draw.uniform(0.015, 0.04)),
        wobble=float(draw.uniform(0, 0.06)),
    )


def draw_text(letters: str, min_length: int, max_length: int, draw: np.random.Generator) -> str:
    """Draws random letters, sometimes one twice, sometimes with a space between them.

    Arguments:
        letters: the characters that may be written
        min_length: of a text
        max_length: of a text
        draw: random numbers
    """
    marks = letters.replace(" ", "")
    found = [marks[draw.integers(len(marks))] for _ in range(int(draw.integers(min_length, max_length + 1)))]
    for place in range(1, len(found)):
        if draw.random() < _TWICE:
            found[place] = found[place - 1]
    if " " in letters and len(found) > 2 and draw.random() < _SPACE:
        found[int(draw.integers(1, len(found) - 1))] = " "
    return "".join(found)


def write_by_hand(text: str, writer: PenWriter, draw: np.random.Generator) -> Writing:
    """Writes a text as a writer does.

    Arguments:
        text: printable characters of ASCII, not only spaces
        writer: whose hand it is
        draw: random numbers of the unsteady hand
    """
    pieces = _pieces(text, writer, draw)
    places, lifts, letters = [], [], []
    for number, piece in enumerate(pieces):
        points = _resample(piece.points)
        if not piece.begins:
            points = points[1:]  # it is the last of the piece before
        places.append(points)
        lifts += [0.0] * len(points)
        if number + 1 == len(pieces) or pieces[number + 1].begins:
            lifts[-1] = 1.0
        letters += [piece.letter] * len(points)
    track = np.concatenate(places)
    track = track * [writer.width, writer.height]
    track[:, 0] -= writer.slant * track[:, 1]
    track += writer.unsteadiness * draw.standard_normal(track.shape)
    offsets = np.diff(track, axis=0, prepend=np.zeros((1, 2)))
    points = np.concatenate([offsets, np.array(lifts)[:, None]], 1).astype(np.float32)
    return Writing(text, points, np.array(letters), writer)


def draw_writings(
    count: int, split: str, *, letters: str = LETTERS, lengths: tuple[int, int] = (3, 6), seed: int = 0
) -> list[Writing]:
    """Draws random texts, each written by one of the writers of a split; fewer are the beginning of more.

    Arguments:
        count: how many
        split: "train", "dev", "test", or "lessons", whose writers teach to read
        letters: the characters that may be written
        lengths: the least and the largest number of characters
        seed: of the random numbers

    >>> [writing.text for writing in draw_writings(2, "train")]
    ['uqgj', 'hyui']
    """
    draw = np.random.default_rng([abs(seed), seed < 0, 10 + _place(split)])
    found = []
    for _ in range(count):
        writer = draw_writer(split, int(draw.integers(_N_WRITERS[split])), seed=seed)
        found.append(write_by_hand(draw_text(letters, *lengths, draw), writer, draw))
    return found


def _place(split: str) -> int:
    if split not in _N_WRITERS:
        raise ValueError(f"handwriting: split must be one of {', '.join(_N_WRITERS)}, got {split!r}; choose one")
    return list(_N_WRITERS).index(split)


def _pieces(text: str, writer: PenWriter, draw: np.random.Generator) -> list[_Piece]:
    """Sets the letters side by side, joins strokes that meet, and cuts them at corners."""
    font = load_pen_font(writer.font)
    spacing = 0.0 if writer.font == "joined" else writer.spacing
    found: list[_Piece] = []
    right, end = 0.0, None
    for place, character in enumerate(text):
        glyph = font[character]
        shift = writer.wobble * draw.standard_normal()
        for stroke in glyph.strokes:
            points = stroke + np.array([right, 0.0])
            joined = end is not None and np.allclose(points[0], end, atol=1e-6) and len(points) > 1
            end = points[-1]
            moved = points + np.array([0.0, shift])
            if joined:
                moved[0] = found[-1].points[-1]  # the letter before may be higher or lower
            for number, part in enumerate(_cut(moved)):
                found.append(_Piece(part, place, begins=not joined and number == 0))
        right += glyph.width + spacing
    return found


def _cut(points: np.ndarray) -> list[np.ndarray]:
    """Cuts a stroke (n, 2) at its corners; the parts share a point."""
    if len(points) < 3:
        return [points]
    steps = np.diff(points, axis=0)
    angles = np.diff(np.arctan2(steps[:, 1], steps[:, 0]))
    turns = np.abs((angles + np.pi) % (2 * np.pi) - np.pi)
    corners = [0, *(np.flatnonzero(turns > _CORNER) + 1), len(points) - 1]
    return [points[first : last + 1] for first, last in pairwise(corners)]


def _resample(points: np.ndarray) -> np.ndarray:
    """Puts points on a line (n, 2), as far from each other as the others, with both ends."""
    if len(points) < 2:
        return points
    along = np.concatenate([[0.0], np.hypot(*np.diff(points, axis=0).T).cumsum()])
    wanted = np.linspace(0, along[-1], max(2, 1 + round(along[-1] / _STEP)))
    return np.stack([np.interp(wanted, along, points[:, axis]) for axis in (0, 1)], 1)
