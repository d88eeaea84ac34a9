"""Pretrained word vectors in the text formats of GloVe and word2vec, read line by line: only wanted words are kept.

    the 0.418 0.24968 -0.41242 ...                     GloVe: a word and its numbers
    400000 100                                         word2vec: first a line with the numbers of words and features

Files may be compressed (.gz, .xz). The whole file never lies in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from omegamax.data.text_files import read_lines


def read_vectors(path: str | Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Reads the vectors of the wanted words, float32; of words that the file does not have there is none.

    Files of words in capitals serve too: a word that is missing is looked for in lower case.

    Arguments:
        path: of the file
        wanted: words, of which those in the file are returned
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give word vectors in the text format of GloVe or word2vec")
    wanted = wanted if isinstance(wanted, (set, frozenset, dict)) else set(wanted)
    by_lower: dict[str, list[str]] = {}
    for word in wanted:
        by_lower.setdefault(word.lower(), []).append(word)
    found: dict[str, np.ndarray] = {}
    lowered: dict[str, np.ndarray] = {}
    size = None
    for number, line in enumerate(read_lines(path), start=1):
        word, _, rest = line.strip(" ").partition(" ")
        if not rest:
            if line.strip():
                raise ValueError(
                    f"{path}, line {number}: expected a word and its numbers, got {len(line)} characters "
                    "without a space; give a text file of word vectors"
                )
            continue
        n_numbers = rest.count(" ") + 1
        if number == 1 and n_numbers == 1 and word.isdigit() and rest.isdigit():
            size = int(rest)  # the first line of word2vec
            continue
        if size is None:
            size = n_numbers
        if n_numbers != size:  # a few lines of GloVe have words with spaces in them
            cells = line.strip(" ").split(" ")
            if len(cells) <= size:
                raise ValueError(
                    f"{path}, line {number}: expected {size} numbers after a word, got {len(cells) - 1}; "
                    "the file may be cut off: fetch it again"
                )
            word, rest = " ".join(cells[:-size]), " ".join(cells[-size:])
        exact, lower = word in wanted, word in by_lower
        if not (exact or lower):
            continue
        vector = _numbers(path, number, rest, size)
        if exact and word not in found:
            found[word] = vector
        if lower:
            lowered.setdefault(word, vector)
    if size is None:
        raise ValueError(f"{path}: expected lines of a word and its numbers, got an empty file; give another one")
    for word, vector in lowered.items():
        for written in by_lower[word]:
            found.setdefault(written, vector)
    return found


def _numbers(path: Path, number: int, text: str, size: int) -> np.ndarray:
    try:
        vector = np.array(text.split(), dtype=np.float32)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: expected {size} numbers after a word ({error}); correct it") from None
    if len(vector) != size or not np.isfinite(vector).all():
        raise ValueError(f"{path}, line {number}: expected {size} finite numbers, got others; correct or remove it")
    return vector
