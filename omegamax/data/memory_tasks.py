"""Sequences of bits to be copied, repeated, looked up and sorted: the tasks of neural Turing machines, as text.

    copy         0110 1011                    → 0110 1011
    repeat-copy  0110 1011 x 2                → 01100 10110 01100 10110 00001      the last bit says where the end is
    recall       0110 1011 0001 ? 1011        → 0001                               the item that followed
    sort         -0.5:0110 0.25:1011          → 1011 0110                          the highest priority first

An item of recall may have several vectors: 0110,1011 0001,1111 ? 0110,1011. A network sees one vector at a time, and
has to answer in the steps after the last one, during which it sees nothing. Graves, Wayne & Danihelka, arXiv:1410.5401.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_EXTRA = 2  # channels beside the bits: a mark, and a number
_UNIT = 10  # times that are written as 1 in the channel of numbers
MOST_TIMES = 1000  # that a sequence is repeated
_PRIORITIES = 2001  # from -1 to 1 in thousandths

Array = NDArray[np.float32]


class BitProblem(NamedTuple):
    """What a network sees step by step, and what it has to say in the last steps."""

    inputs: Array  # (steps, bits + N_EXTRA): bits, a mark, a number
    answer: Array  # (answer steps, bits), zeros and ones; of repeat-copy one bit more


def draw_line(
    task: str, length: int, draw: np.random.Generator, *, bits: int, times: int = 1, item_length: int = 1
) -> str:
    """Draws a problem of this many vectors, or items of recall, and returns its line.

    Arguments:
        task: copy, repeat-copy, recall or sort
        length: how many vectors or items there are
        draw: where random numbers come from
        bits: of a vector
        times: how often repeat-copy repeats
        item_length: vectors of an item of recall, whose items differ from each other
    """
    if task == "recall":
        return _draw_recall(length, draw, bits, item_length)
    vectors = [_written(vector) for vector in draw.integers(2, size=(length, bits))]
    if task == "sort":
        priorities = draw.choice(_PRIORITIES, length, replace=False) / 1000 - 1
        vectors = [f"{priority:.3f}:{vector}" for priority, vector in zip(priorities, vectors)]
    return " ".join(vectors) + (f" x {times}" if task == "repeat-copy" else "")


def _draw_recall(length: int, draw: np.random.Generator, bits: int, item_length: int) -> str:
    items: dict[str, None] = {}
    while len(items) < length:
        items[",".join(_written(vector) for vector in draw.integers(2, size=(item_length, bits)))] = None
    asked = list(items)[draw.integers(length - 1)]
    return f"{' '.join(items)} ? {asked}"


def read_line(task: str, line: str, *, bits: int) -> BitProblem:
    """Makes a problem of a line; raises ValueError for a line that is not one of this task.

    Arguments:
        task: copy, repeat-copy, recall or sort
        line: as the module's description shows them
        bits: of a vector
    """
    return _READERS[task](line.split(), bits)


def write_vectors(vectors: Array) -> str:
    """Writes vectors (n, bits) of zeros and ones with spaces between them."""
    return " ".join(map(_written, vectors))


def _read_copy(words: Sequence[str], bits: int) -> BitProblem:
    vectors = _vectors("copy", words, bits)
    return _problem(vectors, np.zeros(len(vectors)), 0.0, vectors)


def _read_repeat_copy(words: Sequence[str], bits: int) -> BitProblem:
    *shown, sign, times = ["", "", *words][-max(3, len(words)) :]
    if sign != "x" or not (times.isascii() and times.isdigit() and 1 <= int(times[:9]) <= MOST_TIMES):
        raise ValueError(
            f"repeat-copy: expected vectors, x and a number of times up to {MOST_TIMES}, got {_shown(words)}; write "
            "0110 1011 x 2"
        )
    vectors = _vectors("repeat-copy", shown, bits)
    answer = np.zeros((len(vectors) * int(times) + 1, bits + 1), np.float32)
    answer[:-1, :bits] = np.tile(vectors, (int(times), 1))
    answer[-1, bits] = 1
    return _problem(vectors, np.zeros(len(vectors)), int(times) / _UNIT, answer)


def _read_sort(words: Sequence[str], bits: int) -> BitProblem:
    pairs = [word.rpartition(":") for word in words]
    try:
        priorities = np.array([float(priority) for priority, _, _ in pairs])
    except ValueError:
        priorities = np.full(1, math.nan)
    if not np.isfinite(priorities).all() or (np.abs(priorities) > 1).any():
        raise ValueError(
            f"sort: expected a priority from -1 to 1 and a colon before each vector, got {_shown(words)}; write "
            "-0.5:0110 0.25:1011"
        )
    vectors = _vectors("sort", [vector for _, _, vector in pairs], bits)
    return _problem(vectors, priorities, 0.0, vectors[np.argsort(-priorities, kind="stable")])


def _read_recall(words: Sequence[str], bits: int) -> BitProblem:
    *items, sign, asked = ["", "", *words][-max(3, len(words)) :]
    if sign != "?" or asked not in items[:-1] or items.count(asked) > 1 or len({i.count(",") for i in items}) > 1:
        raise ValueError(
            f"recall: expected items of one length, ? and one of them that is there once and not last, got "
            f"{_shown(words)}; write 0110 1011 0001 ? 1011"
        )
    n_vectors = asked.count(",") + 1
    vectors = _vectors("recall", ",".join([*items, asked]).split(","), bits)
    inputs = np.zeros((len(vectors) + n_vectors, bits + N_EXTRA), np.float32)
    inputs[: len(vectors), :bits] = vectors
    inputs[: len(vectors) : n_vectors, bits] = 1  # where an item begins
    inputs[len(vectors) - n_vectors : len(vectors), bits + 1] = 1  # the question
    place = n_vectors * (items.index(asked) + 1)
    return BitProblem(inputs, vectors[place : place + n_vectors])


_READERS: dict[str, Callable[[Sequence[str], int], BitProblem]] = {
    "copy": _read_copy,
    "repeat-copy": _read_repeat_copy,
    "recall": _read_recall,
    "sort": _read_sort,
}


def _problem(vectors: Array, numbers: NDArray[np.float64], last_number: float, answer: Array) -> BitProblem:
    """Shows the vectors with their numbers, then a mark with a last number, then nothing while the answer is said."""
    n_vectors, bits = vectors.shape
    inputs = np.zeros((n_vectors + 1 + len(answer), bits + N_EXTRA), np.float32)
    inputs[:n_vectors, :bits] = vectors
    inputs[:n_vectors, bits + 1] = numbers
    inputs[n_vectors, bits:] = 1, last_number
    return BitProblem(inputs, answer)


def _vectors(task: str, words: Sequence[str], bits: int) -> Array:
    if not words or any(len(word) != bits or set(word) - {"0", "1"} for word in words):
        raise ValueError(
            f"{task}: expected vectors of {bits} bits, got {_shown(words)}; write each with {bits} zeros and ones"
        )
    return np.array([[float(letter) for letter in word] for word in words], np.float32)


def _written(vector: NDArray[np.generic]) -> str:
    return "".join("1" if bit else "0" for bit in vector.tolist())


def _shown(words: Sequence[str]) -> str:
    text = " ".join(words)
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
