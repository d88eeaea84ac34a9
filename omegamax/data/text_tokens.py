"""Lines of text as numbers and back: characters, words, or sub-words learned from the text.

Sub-words are byte-pair encodings of the bytes of UTF-8, by the `tokenizers` package: no text has an unknown part, and
the number of characters that tokens stand for is known. Sennrich et al., "Neural machine translation of rare words with
subword units", ACL 2016.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omegamax.data.vocabulary import END, JOINER, SPECIAL, Vocabulary, join_tokens, split_text
from omegamax.extras import import_for_training

LEVELS = ("char", "word", "subword")
_ONE_LINE = str.maketrans("\n\r\t", "   ")  # every byte is a sub-word; outputs are lines, and cells of tables


class TextTokens(ABC):
    """Turns lines into numbers of tokens and back."""

    vocabulary: Vocabulary

    @abstractmethod
    def split(self, lines: Sequence[str]) -> list[list[str]]:
        """Returns the tokens of each line, also those that the vocabulary lacks."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Returns the text of tokens, on one line: the inverse of `split`, with single spaces between words."""

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the numbers of the tokens of each line."""

    @abstractmethod
    def decode(self, numbers: Sequence[int]) -> str:
        """Returns the text of tokens without special ones, on one line."""

    @abstractmethod
    def n_characters(self) -> list[int] | None:
        """Returns for each token how many characters it stands for; None where unknown tokens make that unknown."""

    def labels(self, tokens: Sequence[str]) -> list[str]:
        """Returns the tokens of one text as people read them, for pictures; a part that continues a word says so."""
        return list(tokens)

    def tokenizer_files(self, name: str) -> dict[str, bytes]:
        """Returns `name`.json in the format of the package `tokenizers`; nothing for characters and words."""
        return {}

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Returns the values from which `restore_tokens` makes the same tokens."""


def learn_tokens(level: str, lines: Iterable[str], max_size: int) -> TextTokens:
    """Makes the tokens of a text: the most frequent characters or words, or sub-words, at most `max_size` with four
    special ones.

    Arguments:
        level: char, word or subword
        lines: the text, which is read once
        max_size: how many tokens there may be
    """
    if level == "subword":
        return Subwords.of(lines, max_size=max_size)
    return PlainTokens(Vocabulary.of((split_text(line, level) for line in lines), max_size=max_size), level)


def restore_tokens(level: str, assets: Mapping[str, Any]) -> TextTokens:
    """Makes the tokens that `to_json` described; ValueError or TypeError if it is damaged."""
    vocabulary = Vocabulary(assets["vocabulary"])
    return Subwords(vocabulary, assets["merges"]) if level == "subword" else PlainTokens(vocabulary, level)


class PlainTokens(TextTokens):
    """Characters or words; those that are not in the vocabulary are unknown."""

    def __init__(self, vocabulary: Vocabulary, level: str) -> None:
        self.vocabulary, self.level = vocabulary, level

    def split(self, lines: Sequence[str]) -> list[list[str]]:
        return [split_text(line, self.level) for line in lines]

    def join(self, tokens: Sequence[str]) -> str:
        return join_tokens(tokens, self.level)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.numbers(tokens) for tokens in self.split(lines)]

    def decode(self, numbers: Sequence[int]) -> str:
        return self.join(self.vocabulary.tokens(numbers))

    def n_characters(self) -> list[int] | None:
        return [1] * len(self.vocabulary) if self.level == "char" else None

    def to_json(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.to_json()}


class Subwords(TextTokens):
    """Byte-pair encodings: each merge joins two tokens that often stand side by side into a new one."""

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[Sequence[str]]) -> None:
        tokenizers = import_for_training("tokenizers")
        pairs = [tuple(merge) for merge in merges]
        for pair in pairs:
            union = "".join(map(str, pair))
            if len(pair) != 2 or not all(isinstance(part, str) and part in vocabulary for part in (*pair, union)):
                raise ValueError(
                    f"Subwords: a merge must be two tokens whose union is a token too, got {list(pair)!r:.80}; "
                    "learn them with learn_tokens"
                )
        numbers = {token: number for number, token in enumerate(vocabulary.to_json())}
        self.vocabulary, self.merges = vocabulary, pairs
        self._tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, pairs))
        self._tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = tokenizers.decoders.ByteLevel()

    @classmethod
    def of(cls, lines: Iterable[str], *, max_size: int) -> Subwords:
        """Learns the merges from a text."""
        tokenizers = import_for_training("tokenizers")
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        least = len(SPECIAL) + len(alphabet)
        if max_size < least:
            raise ValueError(
                f"Subwords: max_size must be at least {least}, a token for each byte and {len(SPECIAL)} special ones, "
                f"got {max_size}; give more room with --max-tokens"
            )
        learner = tokenizers.Tokenizer(tokenizers.models.BPE())
        learner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=max_size, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
        )
        learner.train_from_iterator(lines, trainer)
        model = json.loads(learner.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].get)
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        return cls(Vocabulary(tokens), merges)

    def split(self, lines: Sequence[str]) -> list[list[str]]:
        return [found.tokens for found in self._tokenizer.encode_batch(list(lines))]

    def join(self, tokens: Sequence[str]) -> str:
        return self._tokenizer.decoder.decode(list(tokens)).translate(_ONE_LINE)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self._tokenizer.encode_batch(list(lines))]

    def decode(self, numbers: Sequence[int]) -> str:
        return self._tokenizer.decode(list(numbers), skip_special_tokens=False).replace("\n", " ")

    def n_characters(self) -> list[int] | None:
        """Counts the bytes that begin a character: those that continue one are 10xxxxxx."""
        begins = {sign for sign, byte in _byte_of_sign().items() if byte & 0xC0 != 0x80}
        counts = [sum(sign in begins for sign in token) for token in self.vocabulary.to_json()]
        return [1 if number == END else 0 if number < len(SPECIAL) else n for number, n in enumerate(counts)]

    def labels(self, tokens: Sequence[str]) -> list[str]:
        texts = [token if token in SPECIAL else self.join([token]) for token in tokens]
        begins = [place == 0 or text.startswith(" ") or text in SPECIAL for place, text in enumerate(texts)]
        return [(text.strip() or "␣") if begin else f"{JOINER}{text}" for text, begin in zip(texts, begins)]

    def tokenizer_files(self, name: str) -> dict[str, bytes]:
        return {f"{name}.json": self._tokenizer.to_str(pretty=True).encode()}

    def to_json(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.to_json(), "merges": [list(pair) for pair in self.merges]}


def _byte_of_sign() -> dict[str, int]:
    """Returns the byte that each sign of the alphabet stands for: printable Latin letters for themselves, the others by
    letters from U+0100 on, in order.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(others)}
