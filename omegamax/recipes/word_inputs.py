"""Sentences as tensors: what taggers and parsers read of words, whether from tables and letters or a pretrained model.

    WordInputs        numbers of words and letters, from the vocabularies of the training data
    PieceInputs       word-pieces of a Hugging Face model
    SentenceInputs    both, as the settings ask for them, and the network that reads them

All make a batch of sentences, and are written into and read from the assets of a checkpoint.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax.data.vocabulary import PADDING, UNKNOWN, Vocabulary
from omegamax.data.word_pieces import WordPieces
from omegamax.data.word_vectors import read_vectors
from omegamax.models.pretrained_encoder import PieceBatch, PretrainedEncoder, read_config
from omegamax.models.sequence_tagger import WordReader
from omegamax.models.word_features import CharacterCNN, CharacterLSTM, WordBatch, WordFeatures, word_affixes
from omegamax.recipes.settings import WordSettings

_MAX_LETTERS = 40  # of a word that are read
_MAX_ALPHABET = 10_000  # letters
_MAX_PIECES = 512
_REMEMBERED = 100_000  # words whose affixes are kept
_DIGIT = re.compile(r"\d")
_BLANK = re.compile(r"[\t\r\n]")  # which no token of a Vocabulary may hold


class WordInputs:
    """Numbers words in lower case, with 0 for every digit, and letters as they are.

    Arguments:
        words: the vocabulary of words
        letters: the vocabulary of letters
        vectors: pretrained vectors by number of word; those of a checkpoint are in its model instead
    """

    def __init__(self, words: Vocabulary, letters: Vocabulary, vectors: Mapping[int, np.ndarray] | None = None) -> None:
        self.words, self.letters, self.vectors = words, letters, vectors or {}
        self._known: dict[str, list[int]] = {}

    @classmethod
    def of(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        min_count: int = 1,
        max_words: int = 100_000,
        vectors: str | Path | None = None,
        others: Iterable[Sequence[str]] = (),
    ) -> WordInputs:
        """Counts the words of sentences, and reads their vectors.

        Arguments:
            sentences: words of the training data
            min_count: words that are rarer are unknown
            max_words: the largest vocabulary
            vectors: a file of word vectors
            others: words of other data, which are numbered if they have a vector
        """
        written = Counter(word for sentence in sentences for word in sentence)
        letters = Vocabulary.of((_BLANK.sub(" ", word) for word in written), max_size=_MAX_ALPHABET)
        counts: Counter[str] = Counter()
        for word, count in written.items():
            counts[word_key(word)] += count
        kept = {word for word, count in counts.items() if count >= min_count}
        found: dict[str, np.ndarray] = {}
        if vectors:
            more = {word_key(word) for sentence in others for word in sentence}
            found = read_vectors(vectors, counts.keys() | more)
            kept |= found.keys()
        words = Vocabulary.of([[word] * max(1, counts[word]) for word in sorted(kept)], max_size=max_words)
        return cls(words, letters, {words.numbers([word])[0]: found[word] for word in found if word in words})

    @classmethod
    def restore(cls, assets: Mapping[str, Any]) -> WordInputs:
        """Reads the vocabularies of a checkpoint."""
        return cls(Vocabulary(assets["words"]), Vocabulary(assets["letters"]))

    def assets(self) -> dict[str, Any]:
        """Returns the vocabularies, for a checkpoint."""
        return {"words": self.words.to_json(), "letters": self.letters.to_json()}

    def vector_rows(self) -> tuple[Tensor, Tensor] | None:
        """Returns the numbers (V,) of words with a pretrained vector and the vectors (V, size); None without any."""
        if not self.vectors:
            return None
        return torch.tensor(list(self.vectors)), torch.from_numpy(np.stack(list(self.vectors.values())))

    def batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        """Makes a batch; a sentence without words has one unknown word."""
        rows = [sentence or ("",) for sentence in sentences]
        spelled: dict[str, int] = {}
        spelling = [[spelled.setdefault(word, len(spelled)) for word in row] for row in rows]
        keys = self.words.numbers([word_key(word) for word in spelled])
        letters = [self.letters.numbers(_BLANK.sub(" ", word)[:_MAX_LETTERS]) or [UNKNOWN] for word in spelled]
        lengths = torch.tensor([len(row) for row in rows])
        places = padded(spelling)
        within = torch.arange(places.shape[1]) < lengths.unsqueeze(-1)
        return WordBatch(
            torch.where(within, torch.tensor(keys)[places], PADDING),
            places,
            padded(letters),
            torch.tensor([len(row) for row in letters]),
            torch.tensor([self._affixes(word) for word in spelled]),
            lengths,
        )

    def _affixes(self, word: str) -> list[int]:
        """Remembers the affixes of words: the same words come again in every epoch."""
        if word not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[word] = word_affixes(word)
        return self._known[word]


class PieceInputs:
    """Cuts words into the word-pieces of a Hugging Face model, and makes that model.

    Arguments:
        pieces: the tokenizer
        config: the configuration of the model
        directory: where its pretrained weights are; None for a checkpoint, which has its own
    """

    def __init__(self, pieces: WordPieces, config: Mapping[str, Any], directory: str | None = None) -> None:
        self.pieces, self.config, self.directory = pieces, dict(config), directory

    @classmethod
    def from_directory(cls, path: str) -> PieceInputs:
        """Reads the tokenizer and the configuration of a model's directory."""
        config = read_config(path)
        # Two positions are kept free: some models number positions from 2 on.
        most = min(_MAX_PIECES, int(config.get("max_position_embeddings", _MAX_PIECES + 2)) - 2)
        return cls(WordPieces.from_directory(path, max_pieces=max(8, most)), config, path)

    @classmethod
    def restore(cls, assets: Mapping[str, Any]) -> PieceInputs:
        """Reads the tokenizer and the configuration of a checkpoint."""
        return cls(WordPieces(assets["tokenizer"], max_pieces=int(assets["max_pieces"])), assets["config"])

    def assets(self) -> dict[str, Any]:
        """Returns the tokenizer and the configuration, for a checkpoint."""
        return {"tokenizer": self.pieces.content, "max_pieces": self.pieces.max_pieces, "config": self.config}

    def encoder(self) -> PretrainedEncoder:
        """Makes the model: pretrained, or with random weights if a checkpoint's follow."""
        meta = torch.empty(0).device.type == "meta"  # only shapes are wanted
        if self.directory is None or meta:
            return PretrainedEncoder.from_config(self.config)
        return PretrainedEncoder.from_directory(self.directory)

    def batch(self, sentences: Sequence[Sequence[str]]) -> PieceBatch:
        """Makes a batch; a sentence without words has the place of the first special piece."""
        windows: list[list[int]] = []
        places = []
        for found in self.pieces.encode(sentences):
            places.append([(len(windows) + window, at) for window, at in found.first] or [(len(windows), 0)])
            windows += found.windows
        pieces = padded(windows)
        width = pieces.shape[1]
        mask = torch.arange(width) < torch.tensor([len(window) for window in windows]).unsqueeze(-1)
        return PieceBatch(pieces, mask, padded([[window * width + at for window, at in row] for row in places]))


class SentenceInputs:
    """What a model reads of sentences: words and letters, and word-pieces if it has a pretrained encoder.

    Arguments:
        words: numbers of words and letters
        pieces: word-pieces; None without an encoder
        word_size: features of a word of the table
    """

    def __init__(self, words: WordInputs, pieces: PieceInputs | None, word_size: int) -> None:
        self.words, self.pieces, self.word_size = words, pieces, word_size

    @classmethod
    def prepare(
        cls, settings: WordSettings, sentences: Sequence[Sequence[str]], others: Sequence[Sequence[str]] = ()
    ) -> SentenceInputs:
        """Counts the words of training sentences; words of `others` are known if they have a pretrained vector."""
        words = WordInputs.of(sentences, min_count=settings.min_count, vectors=settings.vectors, others=others)
        rows = words.vector_rows()
        if settings.vectors and rows is None:
            raise ValueError(
                f"{settings.vectors}: none of the words of the data has a vector there; choose another file"
            )
        size = settings.word_size if rows is None else rows[1].shape[1]
        return cls(words, PieceInputs.from_directory(settings.encoder) if settings.encoder else None, size)

    @classmethod
    def restore(cls, assets: Mapping[str, Any]) -> SentenceInputs:
        """Reads the assets of a checkpoint."""
        pieces = PieceInputs.restore(assets["pieces"]) if "pieces" in assets else None
        return cls(WordInputs.restore(assets), pieces, int(assets["word_size"]))

    def assets(self) -> dict[str, Any]:
        """Returns all that `restore` needs."""
        found = {**self.words.assets(), "word_size": self.word_size}
        return found if self.pieces is None else {**found, "pieces": self.pieces.assets()}

    def batch(self, sentences: Sequence[Sequence[str]]) -> tuple[WordBatch, PieceBatch | None]:
        """Makes a batch of words, and one of word-pieces if there is an encoder."""
        return self.words.batch(sentences), None if self.pieces is None else self.pieces.batch(sentences)

    def reader(self, settings: WordSettings) -> WordReader:
        """Makes the network that reads these inputs, with pretrained vectors and weights if there are any."""
        features = WordFeatures(
            len(self.words.words) if self.word_size else 0,
            self.word_size,
            characters=self._characters(settings),
            affix_size=settings.affix_size,
            word_dropout=settings.word_dropout,
        )
        rows = self.words.vector_rows()
        if rows is not None:
            features.load_vectors(*rows)
        return WordReader(
            features if features.size else None,
            None if self.pieces is None else self.pieces.encoder(),
            hidden_size=settings.hidden_size,
            n_layers=settings.n_layers,
            dropout=settings.dropout,
        )

    def _characters(self, settings: WordSettings) -> CharacterLSTM | CharacterCNN | None:
        if settings.characters == "none":
            return None
        kind = CharacterLSTM if settings.characters == "lstm" else CharacterCNN
        return kind(len(self.words.letters), settings.character_size)


def word_key(word: str) -> str:
    """Returns the form under which a word is counted: lower case, every digit 0.

    >>> word_key("Flight-747")
    'flight-000'
    """
    return _DIGIT.sub("0", _BLANK.sub(" ", word.lower()))


def padded(rows: Sequence[Sequence[int]], fill: int = 0) -> Tensor:
    """Makes a tensor (rows, longest) of rows of numbers, filled up at the end."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])
