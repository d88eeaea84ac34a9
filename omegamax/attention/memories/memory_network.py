"""End-to-end memory networks: read a story, hop over its sentences, answer with a word.

    m_i = Σ_j l_j ∘ A x_ij + T_A(i)        c_i = Σ_j l_j ∘ C x_ij + T_C(i)        u¹ = Σ_j l_j ∘ B q_j
    p   = argmax_Ω(uᵀ m),  o = Σ_i p_i c_i,  u ← H u + o   for every hop,          answer = W u

x_ij is word j of sentence i. The weights l of words are an encoding of positions; T are learned vectors of how long ago
a sentence was. Tables are shared between hops: adjacent (A of a hop is C of the one before, B = A¹, W = C at the end,
H = 1) or layer-wise (the same A, C for all hops, and a learned H).

Sukhbaatar, Szlam, Weston & Fergus, "End-to-end memory networks", NIPS 2015.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.module_repr import shown, unless
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_SPREAD = 0.1  # of all tables at the beginning, as in the paper


class WordEncoding(ABC):
    """Weights for the words of a sentence, `words` (..., J), by which their vectors of `size` features are added up."""

    @abstractmethod
    def weights(self, words: Tensor, size: int) -> Tensor:
        """Computes l, which broadcasts to (..., J, size), for words (..., J); the caller masks padding, word 0."""


@dataclass(frozen=True)
class BagOfWords(WordEncoding):
    """Gives every word the same weight: l = 1."""

    def weights(self, words: Tensor, size: int) -> Tensor:
        return torch.ones(1, size, device=words.device)


@dataclass(frozen=True)
class PositionEncoding(WordEncoding):
    """Encodes word order: l_kj = (1 − j/J) − (k/d)(1 − 2j/J) for feature k of d and word j of J, both from 1."""

    def weights(self, words: Tensor, size: int) -> Tensor:
        n_words = (words != 0).sum(-1)[..., None, None].clamp(min=1)
        along = torch.arange(1, words.shape[-1] + 1, device=words.device).unsqueeze(-1) / n_words  # j/J
        feature = torch.arange(1, size + 1, device=words.device) / size  # k/d
        return (1 - along) - feature * (1 - 2 * along)


@dataclass(frozen=True)
class CentredPositionEncoding(WordEncoding):
    """Encodes word order as the authors' program does: twice `PositionEncoding`, with positions from the middle.

        l_kj = 1 + 4 (k/d − (d + 1)/2d) (j/J − (J + 1)/2J)

    The weights of a word are 1 on average, so a sentence is its bag of words, and its order in addition.
    """

    def weights(self, words: Tensor, size: int) -> Tensor:
        n_words = (words != 0).sum(-1)[..., None, None].clamp(min=1)
        along = torch.arange(1, words.shape[-1] + 1, device=words.device).unsqueeze(-1)  # j
        feature = torch.arange(1, size + 1, device=words.device)  # k
        return 1 + 4 * ((feature - (size + 1) / 2) / size) * ((along - (n_words + 1) / 2) / n_words)


class Tables(NamedTuple):
    """Embeddings of words, and of how many sentences ago something was said."""

    words: Tensor  # (n_words, size)
    times: Tensor  # (max_sentences, size)


class StoryEmbeddings(nn.Module, ABC):
    """The tables of a memory network, and which hops share them.

    Arguments:
        n_words: the size of the vocabulary; word 0 is padding
        size: features of a word
        n_hops: how often the memory is read
        max_sentences: the longest story
    """

    def __init__(self, n_words: int, size: int, *, n_hops: int, max_sentences: int) -> None:
        super().__init__()
        checks.check_count(type(self).__name__, "n_hops", n_hops)
        self.n_words, self.size, self.n_hops, self.max_sentences = n_words, size, n_hops, max_sentences

    @abstractmethod
    def question(self) -> Tensor:
        """Returns B, (n_words, size)."""

    @abstractmethod
    def inputs(self, hop: int) -> Tables:
        """Returns A and T_A of a hop."""

    @abstractmethod
    def outputs(self, hop: int) -> Tables:
        """Returns C and T_C of a hop."""

    @abstractmethod
    def carry(self, question: Tensor) -> Tensor:
        """Computes H u.

        Arguments:
            question: (..., size), u after a hop
        """

    @abstractmethod
    def answer(self) -> Tensor:
        """Returns W, (n_words, size)."""

    def extra_repr(self) -> str:
        return shown(n_words=self.n_words, size=self.size, n_hops=self.n_hops, max_sentences=self.max_sentences)

    def _table(self, n_rows: int) -> nn.Parameter:
        return nn.Parameter(_SPREAD * torch.randn(n_rows, self.size))


class AdjacentEmbeddings(StoryEmbeddings):
    """Shares tables between neighbouring hops: the output table of a hop is the input table of the next.

    Arguments:
        n_words: the size of the vocabulary; word 0 is padding
        size: features of a word
        n_hops: how often the memory is read
        max_sentences: the longest story
    """

    def __init__(self, n_words: int, size: int, *, n_hops: int = 3, max_sentences: int = 50) -> None:
        super().__init__(n_words, size, n_hops=n_hops, max_sentences=max_sentences)
        self.words = nn.ParameterList(self._table(n_words) for _ in range(n_hops + 1))
        self.times = nn.ParameterList(self._table(max_sentences) for _ in range(n_hops + 1))

    def question(self) -> Tensor:
        return self.words[0]

    def inputs(self, hop: int) -> Tables:
        return Tables(self.words[hop], self.times[hop])

    def outputs(self, hop: int) -> Tables:
        return Tables(self.words[hop + 1], self.times[hop + 1])

    def carry(self, question: Tensor) -> Tensor:
        return question

    def answer(self) -> Tensor:
        return self.words[self.n_hops]


class LayerWiseEmbeddings(StoryEmbeddings):
    """Shares the same tables between all hops, as in a recurrent network, and learns H.

    Arguments:
        n_words: the size of the vocabulary; word 0 is padding
        size: features of a word
        n_hops: how often the memory is read
        max_sentences: the longest story
    """

    def __init__(self, n_words: int, size: int, *, n_hops: int = 3, max_sentences: int = 50) -> None:
        super().__init__(n_words, size, n_hops=n_hops, max_sentences=max_sentences)
        self.input_words, self.output_words = self._table(n_words), self._table(n_words)
        self.input_times, self.output_times = self._table(max_sentences), self._table(max_sentences)
        self.question_words, self.answer_words = self._table(n_words), self._table(n_words)
        self.update = nn.Linear(size, size, bias=False)

    def question(self) -> Tensor:
        return self.question_words

    def inputs(self, hop: int) -> Tables:
        return Tables(self.input_words, self.input_times)

    def outputs(self, hop: int) -> Tables:
        return Tables(self.output_words, self.output_times)

    def carry(self, question: Tensor) -> Tensor:
        return self.update(question)

    def answer(self) -> Tensor:
        return self.answer_words


class MemoryNetworkOutput(NamedTuple):
    """Scores of the answer, and the weights of every hop."""

    scores: Tensor  # (..., n_words), of the answer
    weights: Tensor  # (..., hops, sentences)


class MemoryNetwork(nn.Module):
    """Maps stories (..., sentences, words) and questions (..., words), given as word numbers, to scores of answers.

    Word 0 is padding; a sentence of padding is no sentence. Sentences are in the order in which they were said.

    Arguments:
        embeddings: the tables, `AdjacentEmbeddings(...)` or `LayerWiseEmbeddings(...)`
        encoding: how words make a sentence: `PositionEncoding()` (None) or `BagOfWords()`
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        time_noise: in training, the probability of an empty sentence before each one, so that the network learns when
            something was said from examples with other distances too (the paper's random noise)
        empty_slots: whether a hop may read the slots, `max_sentences` in all, in which there is no sentence. They hold
            zeros, so their scores are 0 and reading them changes nothing; their weights are not returned. The authors'
            program lets them be read
    """

    def __init__(
        self,
        embeddings: StoryEmbeddings,
        *,
        encoding: WordEncoding | None = None,
        normalizer: Normalizer = _SHANNON,
        time_noise: float = 0.0,
        empty_slots: bool = False,
    ) -> None:
        super().__init__()
        check_normalizer("MemoryNetwork", normalizer)
        if not 0 <= time_noise <= 1:
            raise ValueError(
                f"MemoryNetwork: time_noise must be a probability, from 0 to 1, got {time_noise}; the paper takes 0.1"
            )
        self.time_noise, self.empty_slots = time_noise, empty_slots
        self.embeddings = embeddings
        self.encoding = PositionEncoding() if encoding is None else encoding
        self.normalizer = normalizer

    def extra_repr(self) -> str:
        return shown(
            encoding=self.encoding,
            normalizer=self.normalizer,
            time_noise=unless(self.time_noise, 0.0),
            empty_slots=unless(self.empty_slots, False),
        )

    def forward(self, story: Tensor, question: Tensor) -> MemoryNetworkOutput:
        """Scores every word as the answer; returns the weights of each hop over the sentences too.

        Arguments:
            story: integers (..., sentences, words)
            question: integers (..., words)
        """
        limit = self.embeddings.max_sentences
        if story.shape[-2] > limit:
            raise ValueError(
                f"MemoryNetwork: a story may have {limit} sentences, got {story.shape[-2]}; raise max_sentences, or "
                "keep the last ones"
            )
        spoken = (story != 0).any(-1)  # (..., sentences)
        ago = self._times(spoken)
        state = self._encode(question, self.embeddings.question()).unsqueeze(-2)  # (..., 1, size)
        seen: list[Tensor] = []
        encoded: list[tuple[Tables, Tensor]] = []  # hops share tables: each is used once
        for hop in range(self.embeddings.n_hops):
            memory, content = (
                self._sentences(story, ago, tables, encoded)
                for tables in (self.embeddings.inputs(hop), self.embeddings.outputs(hop))
            )
            weights = self._read(state @ memory.transpose(-1, -2), spoken.unsqueeze(-2))
            state = self.embeddings.carry(state) + weights @ content
            seen.append(weights.squeeze(-2))
        return MemoryNetworkOutput((state @ self.embeddings.answer().T).squeeze(-2), torch.stack(seen, -2))

    def _read(self, scores: Tensor, spoken: Tensor) -> Tensor:
        """Turns the scores (..., 1, sentences) of a hop into weights."""
        if not self.empty_slots:
            return normalize(self.normalizer, scores, spoken)
        n_sentences = scores.shape[-1]
        scores = torch.where(spoken, scores, 0)
        scores = nn.functional.pad(scores, (0, self.embeddings.max_sentences - n_sentences))
        return torch.where(spoken, normalize(self.normalizer, scores, None)[..., :n_sentences], 0)

    def _times(self, spoken: Tensor) -> Tensor:
        """Returns how many sentences ago each one was said, (..., sentences), from 0 for the last."""
        steps = spoken.long()
        if self.training and self.time_noise:
            empty = torch.rand(spoken.shape, device=spoken.device) < self.time_noise
            steps = steps + (empty & spoken)
        ago = steps.flip(-1).cumsum(-1).flip(-1) - steps
        return ago.clamp(max=self.embeddings.max_sentences - 1)

    def _sentences(self, story: Tensor, ago: Tensor, tables: Tables, encoded: list[tuple[Tables, Tensor]]) -> Tensor:
        """Returns the vectors (..., sentences, size) of a story under some tables, from `encoded` if it has them."""
        for known, vectors in encoded:
            if known.words is tables.words and known.times is tables.times:
                return vectors
        encoded.append((tables, self._encode(story, tables.words) + tables.times[ago]))
        return encoded[-1][1]

    def _encode(self, words: Tensor, table: Tensor) -> Tensor:
        """(..., J) to (..., size)."""
        weights = self.encoding.weights(words, table.shape[-1]).to(table.dtype) * (words != 0).unsqueeze(-1)
        return (weights * table[words]).sum(-2)
