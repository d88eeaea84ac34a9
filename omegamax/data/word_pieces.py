"""Words to word-pieces with the tokenizer of a Hugging Face model, and the place of each word's first piece.

Long sentences are cut between words into windows, so that no model is given more pieces than it has positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.extras import import_for_training

_MAX_LETTERS = 100  # of a word: its first piece is what counts


class Pieces(NamedTuple):
    """The pieces of a sentence."""

    windows: list[list[int]]  # numbers of pieces, with the model's special ones around them
    first: list[tuple[int, int]]  # for each word its window and the place of its first piece in it


class WordPieces:
    """The tokenizer of a model.

    Arguments:
        content: the text of tokenizer.json
        max_pieces: of a window, with the special ones
    """

    def __init__(self, content: str, *, max_pieces: int) -> None:
        self.content, self.max_pieces = content, max_pieces
        self._tokenizer: Any = import_for_training("tokenizers").Tokenizer.from_str(content)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        before = self._tokenizer.pre_tokenizer
        if hasattr(before, "add_prefix_space"):
            before.add_prefix_space = True  # the words of a sentence stand after spaces
            self._tokenizer.pre_tokenizer = before
        self._n_special = self._tokenizer.num_special_tokens_to_add(False)

    @classmethod
    def from_directory(cls, path: str | Path, *, max_pieces: int) -> WordPieces:
        """Reads tokenizer.json of the directory of a model."""
        file = Path(path) / "tokenizer.json"
        try:
            content = file.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(
                f"{path}: expected tokenizer.json beside the model, got {error.strerror or 'something else'}; save the "
                "model's fast tokenizer there with save_pretrained"
            ) from error
        return cls(content, max_pieces=max_pieces)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """Cuts words into pieces; a word without pieces takes the place of the window's first special piece."""
        cut = [[word[:_MAX_LETTERS] for word in sentence] for sentence in sentences]
        whole = self._tokenizer.encode_batch(cut, is_pretokenized=True)
        return [
            self._window(encoding, len(words))
            if len(encoding.ids) <= self.max_pieces
            else self._windows(words, encoding)
            for words, encoding in zip(cut, whole)
        ]

    def _window(self, encoding: Any, n_words: int, number: int = 0) -> Pieces:
        places: dict[int, int] = {}
        for place, word in enumerate(encoding.word_ids):
            if word is not None:
                places.setdefault(word, place)
        return Pieces([encoding.ids[: self.max_pieces]], [(number, places.get(word, 0)) for word in range(n_words)])

    def _windows(self, words: list[str], encoding: Any) -> Pieces:
        """Fills windows with as many whole words as fit."""
        counts = [0] * len(words)
        for word in encoding.word_ids:
            if word is not None:
                counts[word] += 1
        room = self.max_pieces - self._n_special
        starts, taken = [0], 0
        for place, count in enumerate(counts):
            if taken and taken + count > room:
                starts.append(place)
                taken = 0
            taken += count
        parts = [words[start:end] for start, end in zip(starts, [*starts[1:], len(words)])]
        windows: list[list[int]] = []
        first: list[tuple[int, int]] = []
        encodings = self._tokenizer.encode_batch(parts, is_pretokenized=True)
        for number, (part, found) in enumerate(zip(parts, encodings)):
            one = self._window(found, len(part), number)
            windows += one.windows
            first += one.first
        return Pieces(windows, first)
