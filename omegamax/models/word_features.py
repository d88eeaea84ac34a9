"""What a tagger or a parser knows of each word before it reads the sentence: an embedding, its letters, its shape.

    features(w) = [embedding of w, read off a table ; encoding of the letters of w ; Σ embeddings of its beginnings,
                   endings and shape]

The letters tell something about words that training never showed. They are read by a small bidirectional LSTM (Lample
et al., NAACL 2016) or by convolutions (Ma & Hovy, ACL 2016), once for each different word of a batch. Beginnings,
endings and shapes are the features of older taggers; a hash gives each a row of a table.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

_PADDING, _UNKNOWN = 0, 1  # numbers of words and letters, as a Vocabulary has them
N_AFFIXES = 6  # of a word
AFFIX_ROWS = 2048  # of the table of each kind of affix
_RUN = re.compile(r"(.)\1{3,}")


class WordBatch(NamedTuple):
    """Some sentences of B rows and N places. The U different words of the batch are spelled once."""

    words: Tensor  # (B, N): numbers of words, 0 beyond the length
    spelling: Tensor  # (B, N): the row of `letters` that spells the word
    letters: Tensor  # (U, L): numbers of letters, 0 beyond the length
    letter_lengths: Tensor  # (U,): at least 1
    affixes: Tensor  # (U, N_AFFIXES): from `word_affixes`
    lengths: Tensor  # (B,)


def word_shape(word: str) -> str:
    """Writes X for capitals, x for other letters and d for digits, and at most three of a kind in a row.

    >>> [word_shape(word) for word in ("Rain", "iPad", "B-747", "#MondayMotivation")]
    ['Xxxx', 'xXxx', 'X-ddd', '#XxxxXxxx']
    """
    written = "".join("X" if a.isupper() else "x" if a.isalpha() else "d" if a.isdigit() else a for a in word)
    return _RUN.sub(r"\1\1\1", written)


def word_affixes(word: str) -> list[int]:
    """Returns rows below AFFIX_ROWS for a word's first two and three letters, last two and three, shape and length.

    The rows are the same on every machine. Different affixes may share a row.
    """
    lower, shape = word.lower(), word_shape(word)
    named = [
        f"<{lower[:2]}",
        f"<{lower[:3]}",
        f"{lower[-2:]}>",
        f"{lower[-3:]}>",
        f"={shape}",
        f"#{min(len(word), 20)}",
    ]
    return [zlib.crc32(each.encode("utf-8", "surrogatepass")) % AFFIX_ROWS for each in named]


class CharacterLSTM(nn.Module):
    """Reads the letters of a word in both directions, and returns the last state of each (Lample et al., 2016).

    Arguments:
        n_letters: how many letters are numbered
        size: features of a word, even: half for each direction
        letter_size: features of a letter
    """

    def __init__(self, n_letters: int, size: int, *, letter_size: int = 25) -> None:
        super().__init__()
        if size < 2 or size % 2:
            raise ValueError(f"CharacterLSTM: size must be even and at least 2, got {size}; use {max(2, size + 1)}")
        self.size = size
        self.letters = nn.Embedding(n_letters, letter_size, padding_idx=_PADDING)
        self.lstm = nn.LSTM(letter_size, size // 2, batch_first=True, bidirectional=True)

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        """Encodes words: `letters` (U, L) with `lengths` (U,) give (U, size)."""
        packed = pack_padded_sequence(self.letters(letters), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return torch.cat([last[0], last[1]], -1)


class CharacterCNN(nn.Module):
    """Looks at every few neighbouring letters, and keeps the largest response of each filter (Ma & Hovy, 2016).

    Arguments:
        n_letters: how many letters are numbered
        size: features of a word, shared out among the widths
        letter_size: features of a letter
        widths: how many neighbours a filter sees
    """

    def __init__(
        self, n_letters: int, size: int, *, letter_size: int = 25, widths: tuple[int, ...] = (2, 3, 4)
    ) -> None:
        super().__init__()
        if size < len(widths):
            raise ValueError(
                f"CharacterCNN: size must be at least {len(widths)}, one per width, got {size}; enlarge it"
            )
        self.size, self.widest = size, max(widths)
        self.letters = nn.Embedding(n_letters, letter_size, padding_idx=_PADDING)
        sizes = [size // len(widths)] * (len(widths) - 1)
        sizes.append(size - sum(sizes))
        self.filters = nn.ModuleList(nn.Conv1d(letter_size, n, width) for n, width in zip(sizes, widths))

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        """Encodes words: `letters` (U, L) with `lengths` (U,) give (U, size)."""
        # Zeros on both sides show a filter where a word begins and ends, and make the shortest word wide enough.
        side = self.widest - 1
        embedded = nn.functional.pad(self.letters(letters).transpose(1, 2), (side, side))
        found = []
        for convolution in self.filters:
            responses = convolution(embedded)  # (U, features, places)
            place = torch.arange(responses.shape[-1], device=letters.device)
            # The filter at `place` sees letters only up to the end of its own word, whatever the rest of the batch is.
            seen = place < (lengths.to(letters.device) + side).unsqueeze(-1)
            found.append(responses.masked_fill(~seen.unsqueeze(1), -torch.inf).amax(-1))
        return torch.cat(found, -1)


class WordFeatures(nn.Module):
    """Features of the words of some sentences: a table, letters and affixes, beside each other.

    In training a word is now and then replaced by the unknown word, so that the model learns to do without it.

    Arguments:
        n_words: how many words are numbered; 0 leaves the table out
        word_size: features of a word of the table
        characters: a `CharacterLSTM` or `CharacterCNN`; None reads no letters
        affix_size: features of beginnings, endings and shapes; 0 leaves them out
        word_dropout: probability that a word is replaced by the unknown word
    """

    def __init__(
        self,
        n_words: int,
        word_size: int,
        *,
        characters: CharacterLSTM | CharacterCNN | None = None,
        affix_size: int = 32,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, word_size, padding_idx=_PADDING) if n_words else None
        if self.words is not None:
            nn.init.normal_(self.words.weight, std=word_size**-0.5)
            with torch.no_grad():
                self.words.weight[_PADDING].zero_()
        self.characters = characters
        self.affixes = nn.EmbeddingBag(AFFIX_ROWS * N_AFFIXES, affix_size, mode="sum") if affix_size else None
        if self.affixes is not None:
            nn.init.normal_(self.affixes.weight, std=(N_AFFIXES * affix_size) ** -0.5)
        self.word_dropout = word_dropout
        self.size = (word_size if n_words else 0) + (characters.size if characters is not None else 0) + affix_size

    def load_vectors(self, rows: Tensor, vectors: Tensor) -> None:
        """Copies pretrained vectors into the table.

        Arguments:
            rows: numbers (V,) of the words
            vectors: their vectors (V, word_size)
        """
        if self.words is None or vectors.shape[-1] != self.words.embedding_dim:
            have = "no table" if self.words is None else f"{self.words.embedding_dim} features"
            raise ValueError(
                f"WordFeatures: vectors have {vectors.shape[-1]} features, but there is {have}; match them"
            )
        with torch.no_grad():
            self.words.weight.index_copy_(0, rows.to(self.words.weight.device), vectors.to(self.words.weight))

    def forward(self, batch: WordBatch) -> Tensor:
        """Computes the features (B, N, size) of a `batch`."""
        found = []
        if self.words is not None:
            numbers = batch.words
            if self.training and self.word_dropout > 0:
                forgotten = torch.rand(numbers.shape, device=numbers.device) < self.word_dropout
                numbers = torch.where(forgotten & (numbers != _PADDING), _UNKNOWN, numbers)
            found.append(self.words(numbers))
        if self.characters is not None:
            found.append(self.characters(batch.letters, batch.letter_lengths)[batch.spelling])
        if self.affixes is not None:
            # Each kind of affix has its own part of the table.
            parts = AFFIX_ROWS * torch.arange(N_AFFIXES, device=batch.affixes.device)
            found.append(self.affixes(batch.affixes + parts)[batch.spelling])
        return torch.cat(found, -1)
