"""A language model: a Transformer that predicts each token of a text from those before it.

    omegamax train language --attention sparsemax
    omegamax train language --data book.txt --level subword --block-length 1024 --attention entmax15

The text is one long row of tokens, with the end token between lines, cut into blocks of N tokens. The model is
`CausalTransformer`; its loss is the mean of -log p(token | tokens before it in the block).
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention.transformer.causal_transformer import CausalTransformer
from omegamax.attention.transformer.layer import PreNorm
from omegamax.data.stories import generate_stories
from omegamax.data.text_files import Lines, text_splits
from omegamax.data.text_tokens import TextTokens, learn_tokens, restore_tokens
from omegamax.data.tsv import SPLITS
from omegamax.data.vocabulary import END, PADDING
from omegamax.recipes.continuation import continue_texts
from omegamax.recipes.normalizers import HARD, NONE, NORMALIZERS, check_attention, make_normalizer
from omegamax.recipes.settings import LanguageSettings
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_STORIES = 50  # of dev and test
_LINES = 1000  # encoded at a time
_LOGITS = 1 << 24  # computed at a time in evaluations
_COUNTED = 16  # zeros are counted in every 16th block: dense weights take time
_QUERIES = 128  # at a time, while zeros are counted
_SHOWN = 32  # tokens of a block whose attention is shown


class TextBlock(NamedTuple):
    """Some tokens in a row: N + 1 of a text, so that N have a successor, or those of a line to be continued."""

    tokens: np.ndarray
    number: int  # its place among the blocks of the text


class TextBatch(NamedTuple):
    """Tokens of some blocks, and the token after each."""

    tokens: Tensor  # (B, N), filled up with PADDING at the end, which no earlier token sees
    following: Tensor  # (B, N), PADDING where there is none


class Blocks(Sequence[TextBlock]):
    """The blocks of a text, cut when they are asked for. The last may be shorter.

    Arguments:
        tokens: of the whole text
        length: N; neighbours share a token, the last of one and the first of the next
    """

    def __init__(self, tokens: np.ndarray, length: int) -> None:
        self.tokens, self.block_length = tokens, length

    def __len__(self) -> int:
        return max(0, -(-(len(self.tokens) - 1) // self.block_length))

    @overload
    def __getitem__(self, place: int) -> TextBlock: ...
    @overload
    def __getitem__(self, place: slice) -> list[TextBlock]: ...
    def __getitem__(self, place: int | slice) -> TextBlock | list[TextBlock]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        start = number * self.block_length
        return TextBlock(self.tokens[start : start + self.block_length + 1], number)


class Language(Task):
    """Learns to predict the next token."""

    name: ClassVar[str] = "language"
    metric: ClassVar[str] = "log_likelihood"
    settings_type: ClassVar[type] = LanguageSettings
    settings: LanguageSettings

    def __init__(
        self, settings: LanguageSettings, tokens: TextTokens, splits: Mapping[str, Lines] | None = None
    ) -> None:
        _check_attention(settings)
        self.settings, self.tokens = settings, tokens
        self._splits = splits
        self._blocks: dict[str, Blocks] = {}

    @classmethod
    def prepare(cls, settings: LanguageSettings) -> Language:
        """Counts the tokens of the training text, or learns sub-words from it."""
        _check_attention(settings)
        splits = _splits(settings)
        return cls(settings, learn_tokens(settings.level, splits["train"](), settings.max_tokens), splits)

    @classmethod
    def restore(cls, settings: LanguageSettings, assets: Mapping[str, Any]) -> Language:
        """Makes the task from the tokens of a checkpoint."""
        return cls(settings, restore_tokens(settings.level, assets))

    def assets(self) -> dict[str, Any]:
        return self.tokens.to_json()

    def tokenizer_files(self) -> dict[str, bytes]:
        return self.tokens.tokenizer_files("tokenizer")

    def examples(self, split: str) -> Sequence[TextBlock]:
        """Returns the blocks of a split, in the order of the text."""
        if split not in self._blocks:
            if self._splits is None:
                self._splits = _splits(self.settings)
            numbers = _encode(self.tokens, self._splits[split]())
            self._blocks[split] = Blocks(numbers, self.settings.block_length)
        return self._blocks[split]

    def read(self, lines: Iterable[str]) -> list[TextBlock]:
        """Makes an example of each line: the beginning of a text."""
        texts = [line.rstrip("\r\n").replace("\t", " ") for line in lines]
        return [TextBlock(np.array([END, *numbers]), 0) for numbers in self.tokens.encode(texts)]

    def length(self, example: TextBlock) -> int:
        return len(example.tokens)

    def fingerprint(self, example: TextBlock) -> str:
        return hashlib.sha256(example.tokens.astype("<i4").tobytes()).hexdigest()

    def model(self) -> CausalTransformer:
        settings = self.settings
        return CausalTransformer(
            len(self.tokens.vocabulary),
            settings.size,
            n_heads=settings.n_heads,
            n_layers=settings.n_layers,
            hidden_size=settings.hidden_size,
            dropout=settings.dropout,
            placement=PreNorm(),
            normalizer=make_normalizer(settings),
        )

    def collate(self, examples: Sequence[TextBlock]) -> TextBatch:
        longest = max(2, *(len(example.tokens) for example in examples))
        rows = torch.full((len(examples), longest), PADDING)
        for row, example in zip(rows, examples):
            row[: len(example.tokens)] = torch.from_numpy(example.tokens.astype(np.int64))
        return TextBatch(rows[:, :-1], rows[:, 1:].contiguous())

    def loss(self, model: nn.Module, batch: TextBatch) -> Loss:
        """Computes the negative log-likelihood of all tokens but the first of each block."""
        logits = model(batch.tokens).logits
        total = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.following.flatten(), ignore_index=PADDING, reduction="sum"
        )
        return Loss(total, int((batch.following != PADDING).sum()))

    def predict(self, model: nn.Module, examples: Sequence[TextBlock]) -> list[str]:
        """Continues each text to the end of its line; returns all of the line."""
        assert isinstance(model, CausalTransformer)
        settings = self.settings
        # A long text is read from as far back as the model has learned to look.
        read = [example.tokens[-settings.block_length :].tolist() for example in examples]
        written = continue_texts(
            model, read, max_length=settings.max_length, temperature=settings.temperature, seed=settings.sampling_seed
        )
        return [self.tokens.decode([*example.tokens[1:].tolist(), *more]) for example, more in zip(examples, written)]

    def assess(self, model: nn.Module, examples: Sequence[TextBlock]) -> list[str]:
        """Returns as JSON the loss of each block, how many tokens were guessed, and sometimes how many zeros it had."""
        at_once = max(1, _LOGITS // (self.settings.block_length * len(self.tokens.vocabulary)))
        parts = [examples[start : start + at_once] for start in range(0, len(examples), at_once)]
        return [json.dumps(found) for part in parts for found in self._measure(model, part)]

    def _measure(self, model: nn.Module, examples: Sequence[TextBlock]) -> Iterator[dict[str, float]]:
        batch = self.batch_for(model, examples)
        logits = model(batch.tokens).logits
        there = batch.following != PADDING
        loss = nn.functional.cross_entropy(
            logits.transpose(1, 2), batch.following, ignore_index=PADDING, reduction="none"
        )
        losses = loss.double().sum(-1).tolist()
        right = ((logits.argmax(-1) == batch.following) & there).sum(-1).tolist()
        for example, nats, n_right, n_tokens in zip(examples, losses, right, there.sum(-1).tolist()):
            found = {"loss": nats, "right": n_right, "tokens": n_tokens}
            if example.number % _COUNTED == 0:
                n_zeros, n_weights = self._zeros(model, example)
                found |= {"zeros": n_zeros, "weights": n_weights}
            yield found

    def _zeros(self, model: nn.Module, example: TextBlock) -> tuple[int, int]:
        """Counts the weights of all layers that are exactly zero, and all weights of tokens that could be seen."""
        assert isinstance(model, CausalTransformer)
        settings, n = self.settings, len(example.tokens) - 1
        n_weights = settings.n_layers * settings.n_heads * n * (n + 1) // 2
        if make_normalizer(settings).always_positive or n == 0:
            return 0, n_weights  # a zero of softmax is a small weight that was rounded
        tokens, cache, n_positive = self.batch_for(model, [example]).tokens, None, 0
        for start in range(0, n, _QUERIES):
            stepped = model.step(tokens[:, start : min(start + _QUERIES, n)], cache, need_weights=True)
            cache = stepped.cache
            n_positive += sum(int((weights != 0).sum()) for weights in stepped.self_weights or ())
        return n_weights - n_positive, n_weights

    def score(self, examples: Sequence[TextBlock], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the mean log-likelihood of a token, its perplexity, bits per character, and the share of zeros."""
        found = [json.loads(line) for line in predictions]
        n_tokens = max(1, sum(each["tokens"] for each in found))
        nats = sum(each["loss"] for each in found)
        loss = nats / n_tokens
        scores = {"log_likelihood": -loss, "loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        counts = self.tokens.n_characters()
        if counts is not None:
            n_characters = sum(int(np.array(counts)[example.tokens[1:]].sum()) for example in examples)
            scores["bits_per_character"] = nats / math.log(2) / max(1, n_characters)
        scores["accuracy"] = sum(each["right"] for each in found) / n_tokens
        counted = [each for each in found if "zeros" in each]
        if counted:
            n_weights = max(1, sum(each["weights"] for each in counted))
            scores["zeros"] = sum(each["zeros"] for each in counted) / n_weights
        return scores

    def attend(self, model: nn.Module, examples: Sequence[TextBlock]) -> list[AttentionMap]:
        """Returns the weights of all layers and heads, one after the other, while the model reads the first tokens.

        A row is named by the token that follows in the text, which these weights served to predict, or, at the end, by
        the token that the model thinks most likely.
        """
        return [self._attention_map(model, example) for example in examples]

    def _attention_map(self, model: nn.Module, example: TextBlock) -> AttentionMap:
        numbers = example.tokens[: _SHOWN + 1].tolist()
        device = next(model.parameters()).device
        seen = numbers[:_SHOWN]
        logits, weights = model(torch.tensor([seen], device=device), need_weights=True)
        following = [*numbers[1:], int(logits[0, -1].argmax())][: len(seen)]

        def name(numbers: Sequence[int]) -> list[str]:
            return self.tokens.labels(self.tokens.vocabulary.tokens(numbers))

        # Zeros are those of the future, which nobody sees, also where the normalizer is always positive.
        return AttentionMap(name(following), name(seen), torch.cat([each[0] for each in weights]), False)


def _check_attention(settings: LanguageSettings) -> None:
    if settings.attention in (HARD, NONE):
        raise ValueError(
            f"language: attention must be one of {', '.join(NORMALIZERS)}, got {settings.attention!r}; "
            "change it with --attention"
        )
    check_attention(settings)


def _splits(settings: LanguageSettings) -> dict[str, Lines]:
    """Returns functions that read the lines of each split, or generate them."""
    if settings.data is not None:
        return text_splits(settings.data, settings.column)

    def lines(split: str) -> Iterator[str]:
        count = settings.stories if split == "train" else max(_MIN_STORIES, settings.stories // 20)
        return (story.text for story in generate_stories(count, split, seed=settings.data_seed))

    return {split: partial(lines, split) for split in SPLITS}


def _encode(tokens: TextTokens, lines: Iterator[str]) -> np.ndarray:
    """Returns the numbers of all tokens, each line between two ends."""
    numbers = array("i", [END])
    while some := list(islice(lines, _LINES)):
        for line in tokens.encode(some):
            numbers.extend(line)
            numbers.append(END)
    return np.frombuffer(numbers, dtype=np.intc)
