"""The base of tasks that describe something in a sentence: the words, the loss, the search, and what is kept of both.

A leaf reads examples and makes batches, whose first three fields are what is seen, its size, and the words of the
target with START before and END behind them. `caption` sees pictures, `video` sees clips.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from torch import Tensor, nn

from omegamax.data.vocabulary import END, PADDING, START, UNKNOWN, Vocabulary
from omegamax.models.sequence_model import SequenceModel
from omegamax.recipes.decoding import Hypothesis, search_outputs
from omegamax.recipes.metrics import corpus_bleu, exact_match
from omegamax.recipes.text_examples import padded
from omegamax.smoothmax import SmoothMax
from omegamax.training.task import Loss, Task

Self = TypeVar("Self", bound="Description")

_MAX_NATS = 700.0  # whose exponential is finite
_SHARES = {"dev": 0.1, "test": 0.2}  # of the number of training examples
_LEAST = 60  # of dev and test


class WrittenDescriptions(NamedTuple):
    """Descriptions that a model wrote, and the weights behind each of their tokens."""

    tokens: list[list[int]]  # without START, with END where there is one
    weights: Tensor | None  # (B, T, ...); None without attention


class Description(Task):
    """Learns to describe something in words."""

    metric: ClassVar[str] = "bleu"
    settings: Any
    vocabulary: Vocabulary

    def __init__(self, settings: Any, words: Sequence[str]) -> None:
        self._normalizer = self.normalizer(settings)
        self.settings, self.vocabulary = settings, Vocabulary(words)
        self._splits: dict[str, list[Any]] = {}

    @classmethod
    @abstractmethod
    def normalizer(cls, settings: Any) -> SmoothMax:
        """Returns the normalizer of the attention."""

    @classmethod
    def restore(cls: type[Self], settings: Any, assets: Mapping[str, Any]) -> Self:
        """Makes the task from the words of a checkpoint."""
        return cls(settings, assets["words"])

    def assets(self) -> dict[str, Any]:
        return {"words": self.vocabulary.to_json()}

    def fingerprint(self, example: Any) -> str:
        """Returns what the example is made of."""
        return repr(example)

    @abstractmethod
    def text(self, tokens: Sequence[str]) -> str:
        """Joins the words of a description."""

    def target_of(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Returns the words of descriptions as numbers (B, words + 2), with START, END and PADDING."""
        return padded([[START, *self.vocabulary.numbers(words), END] for words in sentences])

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """Computes minus what the model maximises: the log-likelihood of the words and of the end, or its bound."""
        written = batch.target[:, 1:] != PADDING
        return Loss(-model(*batch)[written].sum(), int(written.sum()))

    def predict(self, model: nn.Module, examples: Sequence[Any]) -> list[str]:
        """Returns a description of each example."""
        return [self.text_of(output) for output in self.search(model, self.batch_for(model, examples))]

    def search(self, model: nn.Module, batch: Any) -> list[Hypothesis]:
        """Returns the best output of a beam search for each item of a batch."""
        assert isinstance(model, SequenceModel)
        seen, sizes, _ = batch
        options: dict[str, Any] = {"n_beams": self.settings.beam, "max_length": self.settings.max_length}
        found = search_outputs(model, seen, sizes, forbidden=(PADDING, UNKNOWN, START), **options)
        return [each.best for each in found]

    def text_of(self, output: Hypothesis) -> str:
        """Returns the words of an output as a sentence."""
        return self.text(self.vocabulary.tokens(output.tokens))

    def write(self, model: nn.Module, examples: Sequence[Any]) -> WrittenDescriptions:
        """Describes examples, and returns the weights behind each word."""
        assert isinstance(model, SequenceModel)
        batch = self.batch_for(model, examples)
        tokens = [[*output.tokens, *([END] if output.ended else [])] for output in self.search(model, batch)]
        target = padded([[START, *each] for each in tokens]).to(batch.target.device)
        return WrittenDescriptions(tokens, model.attend(batch[0], batch[1], target))


def n_examples(n_train: int, split: str) -> int:
    """Returns how many examples a split of generated data has."""
    return n_train if split == "train" else max(_LEAST, int(_SHARES[split] * n_train))


def target_losses(model: SequenceModel, batch: Any) -> list[dict[str, Any]]:
    """Returns for each item the sum of −log p over the words of its target, and how many words that are."""
    written = batch.target[:, 1:] != PADDING
    losses = -model.log_likelihood(*batch).masked_fill(~written, 0).double().sum(-1)
    return [{"loss": loss, "words": count} for loss, count in zip(losses.tolist(), written.sum(-1).tolist())]


def total(lines: Sequence[Mapping[str, Any]], name: str) -> float:
    """Sums what lines have under a name."""
    return sum(line.get(name, 0) for line in lines)


def text_scores(
    texts: Sequence[str], targets: Sequence[str], lines: Sequence[Mapping[str, Any]], **bleu: Any
) -> dict[str, float]:
    """Computes BLEU (with the options `bleu`), exact match, and the perplexity of the targets."""
    nats = total(lines, "loss") / max(1, total(lines, "words"))
    return {
        "bleu": corpus_bleu(texts, targets, **bleu),
        "exact_match": exact_match(texts, targets),
        "perplexity": math.exp(min(_MAX_NATS, nats)),
    }
