"""The base of all tasks that write a text from a text: tokens, batches, loss, search for outputs, metrics, attention.

A leaf reads the texts and makes the model. `seq2seq` and `dates` have an encoder-decoder with additive attention, which
uses any normalizer, chooses one position (`hard`), or is a single fixed vector (`none`); `translate` and `summarize`
have an LSTM with input feeding or a Transformer.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from omegamax.attention.weight_counts import WeightCounts, count_weights, weight_metrics
from omegamax.data.text_tokens import PlainTokens, Subwords, TextTokens
from omegamax.data.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary
from omegamax.models import SequenceModel
from omegamax.recipes.decoding import Hypothesis, SearchResult, search_outputs
from omegamax.recipes.metrics import corpus_bleu, edit_distances, exact_match, import_sacrebleu
from omegamax.recipes.normalizers import check_attention, make_normalizer
from omegamax.recipes.settings import Seq2SeqSettings
from omegamax.recipes.text_examples import (
    SUBWORD,
    TextBatch,
    TextPair,
    Texts,
    padded,
    restore_side,
    tokens_as_json,
)
from omegamax.recipes.text_lengths import check_lengths, limit_lengths, most_tokens
from omegamax.training.task import AttentionMap, Loss, Task

_MAX_CHOICES = 50_000_000  # hypotheses times tokens of the vocabulary, all of which a step of beam search compares
_TAB = "\t"


class TextToText(Task):
    """Learns to write texts from texts. A subclass reads the texts and makes the model."""

    settings: Seq2SeqSettings
    inspects_quickly: ClassVar[bool] = True  # nearly all of the time is that of the search

    def __init__(
        self,
        settings: Any,
        source_tokens: TextTokens,
        target_tokens: TextTokens,
        splits: Mapping[str, Sequence[TextPair]] | None = None,
    ) -> None:
        self.check_settings(settings)
        n_target = len(target_tokens.vocabulary)
        if settings.beam * n_target > _MAX_CHOICES:
            raise ValueError(
                f"beam must be at most {_MAX_CHOICES // n_target} with a vocabulary of {n_target} tokens, "
                f"got {settings.beam}; change it with --beam"
            )
        self.settings, self.source_tokens, self.target_tokens = settings, source_tokens, target_tokens
        self._splits = splits

    @property
    def source(self) -> Vocabulary:
        """The vocabulary of sources."""
        return self.source_tokens.vocabulary

    @property
    def target(self) -> Vocabulary:
        """The vocabulary of targets."""
        return self.target_tokens.vocabulary

    @classmethod
    def check_settings(cls, settings: Any) -> None:
        """Raises ValueError for settings that do not fit together."""
        check_attention(settings)

    @classmethod
    @abstractmethod
    def read_texts(cls, settings: Any) -> dict[str, list[Texts]]:
        """Returns the texts of "train", "dev" and "test"."""

    @classmethod
    def reserved(cls, settings: Any) -> Sequence[str]:
        """Returns source tokens that are known whether or not they occur in the training data; none by default."""
        return ()

    @classmethod
    def prepare(cls, settings: Any) -> TextToText:
        """Reads the texts, and counts the tokens of the training split, or learns sub-words from it."""
        cls.check_settings(settings)
        import_sacrebleu()
        texts = cls.read_texts(settings)
        tokens = cls._learn_subwords(settings, texts["train"]) if settings.level == SUBWORD else None
        splitters = tokens or (PlainTokens(Vocabulary(SPECIAL), settings.level),) * 2  # splitting needs no vocabulary
        splits = cls._make_pairs(settings, *splitters, texts)
        return cls(settings, *(tokens or cls._count_tokens(settings, splits["train"])), splits)

    @classmethod
    def _learn_subwords(cls, settings: Any, texts: Sequence[Texts]) -> tuple[TextTokens, TextTokens]:
        sides = [each.source for each in texts], [each.target for each in texts]
        if _is_joint(settings):
            both = Subwords.of(chain(*sides), max_size=settings.max_tokens)
            return both, both
        return tuple(Subwords.of(side, max_size=settings.max_tokens) for side in sides)  # type: ignore[return-value]

    @classmethod
    def _count_tokens(cls, settings: Any, pairs: Sequence[TextPair]) -> tuple[TextTokens, TextTokens]:
        level, size, first = settings.level, settings.max_tokens, cls.reserved(settings)
        sources: Iterable[Sequence[str]] = [pair.source for pair in pairs]
        targets: Iterable[Sequence[str]] = PlainTokens(Vocabulary(SPECIAL), level).split([p.target for p in pairs])
        if _is_joint(settings):
            both = PlainTokens(Vocabulary.of(chain(sources, targets), max_size=size, first=first), level)
            return both, both
        source = PlainTokens(Vocabulary.of(sources, max_size=size, first=first), level)
        return source, PlainTokens(Vocabulary.of(targets, max_size=size), level)

    @classmethod
    def _make_pairs(
        cls, settings: Any, source: TextTokens, target: TextTokens, texts: Mapping[str, Sequence[Texts]]
    ) -> dict[str, list[TextPair]]:
        pairs = {split: cls._split(settings, source, some) for split, some in texts.items()}
        return limit_lengths(pairs, settings, target)

    @classmethod
    def _split(cls, settings: Any, tokens: TextTokens, texts: Sequence[Texts]) -> list[Any]:
        sources = tokens.split([each.source for each in texts])
        return [cls.make_pair(settings, (*each.first, *source), each) for each, source in zip(texts, sources)]

    @classmethod
    def make_pair(cls, settings: Any, source: tuple[str, ...], texts: Texts) -> Any:
        """Returns the example of a source, as tokens, and the texts it is from."""
        return TextPair(source, texts.target)

    @classmethod
    def restore(cls, settings: Any, assets: Mapping[str, Any]) -> TextToText:
        """Makes the task from the tokens of a checkpoint."""
        source = restore_side(settings.level, assets["source"])
        target = source if assets["target"] == assets["source"] else restore_side(settings.level, assets["target"])
        return cls(settings, source, target)

    def assets(self) -> dict[str, Any]:
        """Returns the tokens of both sides: a list of them, and with sub-words also the merges."""
        return {"source": tokens_as_json(self.source_tokens), "target": tokens_as_json(self.target_tokens)}

    def tokenizer_files(self) -> dict[str, bytes]:
        """Returns the tokenizer of each side, or of both, in the format of the package `tokenizers`, for sub-words."""
        if self.source_tokens is self.target_tokens:
            return self.source_tokens.tokenizer_files("tokenizer")
        sides = {"source_tokenizer": self.source_tokens, "target_tokenizer": self.target_tokens}
        return {file: content for name, side in sides.items() for file, content in side.tokenizer_files(name).items()}

    def examples(self, split: str) -> Sequence[TextPair]:
        """Returns the pairs of a split, in the order of the file."""
        if self._splits is None:
            texts = self.read_texts(self.settings)
            self._splits = self._make_pairs(self.settings, self.source_tokens, self.target_tokens, texts)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[TextPair]:
        """Makes an example of each line: all of it, or the first column of a table."""
        return self.make_examples([Texts(line.split("\t")[0].strip(), "") for line in lines])

    def read_scored(self, lines: Iterable[str]) -> list[TextPair]:
        """Makes an example of each line with a source, a tab and a target, whose likelihood is wanted."""
        texts = []
        for number, line in enumerate(lines, start=1):
            source, tab, target = line.rstrip("\r\n").partition("\t")
            if not tab:
                raise ValueError(f"line {number}: expected a source, a tab and a target, got no tab; add the target")
            texts.append(Texts(source.strip(), target.strip()))
        return self.make_examples(texts)

    def make_examples(self, texts: Sequence[Texts]) -> list[TextPair]:
        """Splits texts into tokens; ValueError, with the line, for one that is far too long."""
        pairs = self._split(self.settings, self.source_tokens, texts)
        check_lengths(pairs, self.source_tokens, self.target_tokens, most_tokens(self.settings))
        return pairs

    def length(self, example: TextPair) -> int:
        """Returns the number of tokens of the source."""
        return len(example.source)

    def batch_lengths(self, examples: Sequence[TextPair]) -> list[tuple[int, int]]:
        """Returns the numbers of tokens of target and source: a decoder takes a step for each token of a target."""
        targets = self.target_tokens.encode([example.target for example in examples])
        return [(len(target), len(example.source)) for target, example in zip(targets, examples)]

    def fingerprint(self, example: TextPair) -> str:
        """Returns all of the pair as text."""
        return repr(example)

    def collate(self, examples: Sequence[TextPair]) -> TextBatch:
        """Turns tokens into numbers; an empty source becomes one unknown token."""
        source = [self.source.numbers(example.source) or [UNKNOWN] for example in examples]
        target = self.target_tokens.encode([example.target for example in examples])
        lengths = torch.tensor([len(tokens) for tokens in source])
        return TextBatch(padded(source), lengths, padded([[START, *tokens, END] for tokens in target]))

    def loss(self, model: nn.Module, batch: TextBatch) -> Loss:
        """Computes the loss of the target's tokens: the negative log-likelihood, or what the model has in its place."""
        written = batch.target[:, 1:] != PADDING
        objective = model(batch.source, batch.lengths, batch.target)
        return Loss(-torch.where(written, objective, 0).sum(), int(written.sum()))

    def predict(self, model: nn.Module, examples: Sequence[TextPair]) -> list[str]:
        """Returns the best output of beam search, which is greedy with one beam."""
        return self.texts_of(model, examples, self.search(model, examples))

    def texts_of(self, model: nn.Module, examples: Sequence[TextPair], found: Sequence[SearchResult]) -> list[str]:
        """Returns the text of the best output for each example."""
        return [self.target_tokens.join(self.target.tokens(each.best.tokens)) for each in found]

    def search(self, model: nn.Module, examples: Sequence[TextPair]) -> list[SearchResult]:
        """Searches for the outputs of each example: as many examples at a time as fit; all of a usual batch do."""
        at_once = max(1, _MAX_CHOICES // (self.settings.beam * len(self.target)))
        parts = [examples[start : start + at_once] for start in range(0, len(examples), at_once)]
        return [found for part in parts for found in self._search(model, part)]

    def _search(self, model: nn.Module, examples: Sequence[TextPair]) -> list[SearchResult]:
        assert isinstance(model, SequenceModel)
        batch = self.batch_for(model, examples)
        return search_outputs(model, batch.source, batch.lengths, **self.search_options())

    def search_options(self) -> dict[str, Any]:
        """Returns the options of `search_outputs`: by default no output has an unknown token."""
        settings = self.settings
        options = {"n_beams": settings.beam, "max_length": settings.max_length}
        return {**options, "forbidden": (PADDING, UNKNOWN, START)}

    def log_likelihood(self, model: nn.Module, examples: Sequence[TextPair]) -> list[tuple[float, int]]:
        """Returns log p(target | source) of each example, and of how many tokens it is the sum, with the end."""
        assert isinstance(model, SequenceModel)
        batch = self.batch_for(model, examples)
        written = batch.target[:, 1:] != PADDING
        values = model.log_likelihood(batch.source, batch.lengths, batch.target).double()
        totals = torch.where(written, values, 0).sum(-1)
        return list(zip(totals.tolist(), written.sum(-1).tolist()))

    def inspect(self, model: nn.Module, examples: Sequence[TextPair]) -> list[str]:
        """Returns each output, and after a tab as JSON how sparse and structured its attention is, if it has any."""
        found = self.search(model, examples)
        texts = self.texts_of(model, examples, found)
        maps = self.attention_maps(model, examples, [each.best for each in found])
        if not maps:
            return texts
        counts = [count_weights(each.weights, always_positive=each.always_positive) for each in maps]
        return [f"{text.replace(_TAB, ' ')}{_TAB}{json.dumps(each)}" for text, each in zip(texts, counts)]

    def score(self, examples: Sequence[TextPair], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the metrics of texts; of the lines of `inspect` also those of attention weights."""
        texts, counts = [], []
        for line in predictions:
            text, tab, more = line.rpartition(_TAB)
            if tab and more.startswith("["):
                counts.append(WeightCounts(*json.loads(more)))
            texts.append(text if tab and more.startswith("[") else line)
        return {**self.score_texts(examples, texts), **weight_metrics(counts)}

    def score_texts(self, examples: Sequence[TextPair], predictions: Sequence[str]) -> dict[str, float]:
        """Computes BLEU, exact match, and the edit distance in tokens, also per token of the target."""
        written = self.target_tokens.split(predictions)
        wanted = self.target_tokens.split([example.target for example in examples])
        targets = [
            self.target_tokens.join(tokens) for tokens in wanted
        ]  # with single spaces between words, as we write
        distances = edit_distances(written, wanted)
        scores = {
            "bleu": corpus_bleu(predictions, targets, tokenize="char" if self.settings.level == "char" else "13a"),
            "exact_match": exact_match(predictions, targets),
            "edit_distance": sum(distances) / max(1, len(distances)),
            "edit_rate": sum(distances) / max(1, sum(map(len, wanted))),
        }
        return {self.metric: scores.pop(self.metric), **scores}

    def attend(self, model: nn.Module, examples: Sequence[TextPair]) -> list[AttentionMap]:
        """Returns the attention weights of each output token, and of the end of the text if the output has one."""
        return self.attention_maps(model, examples, [found.best for found in self.search(model, examples)])

    def attention_maps(
        self, model: nn.Module, examples: Sequence[TextPair], outputs: Sequence[Hypothesis]
    ) -> list[AttentionMap]:
        """Returns the attention behind given outputs; an empty list if the model has none."""
        weights = self.attention_weights(model, examples, outputs)
        if weights is None:
            return []
        maps, always_positive = [], make_normalizer(self.settings).always_positive
        for example, output, rows in zip(examples, outputs, weights):
            columns = self.source_tokens.labels(example.source or ("",))
            written = self.target_tokens.labels(self.target.tokens(output.tokens))
            written += [SPECIAL[END]] if output.ended else []
            rows = rows[..., : len(written), : len(columns)]
            maps.append(AttentionMap(written, columns, rows, always_positive))
        return maps

    def attention_weights(
        self, model: nn.Module, examples: Sequence[TextPair], outputs: Sequence[Hypothesis]
    ) -> Tensor | None:
        """Computes the weights (B, T, K) or (B, heads, T, K) behind the tokens of outputs; None without attention."""
        assert isinstance(model, SequenceModel)
        numbers = [[START, *output.tokens, *([END] if output.ended else [])] for output in outputs]
        batch = self.batch_for(model, examples)
        return model.attend(batch.source, batch.lengths, padded(numbers).to(batch.target.device))


def _is_joint(settings: Any) -> bool:
    return getattr(settings, "vocabulary", "separate") == "joint"
