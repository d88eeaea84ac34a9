"""The base of all tasks that write a text from a text: the model, its batches and loss, decoding, and metrics.

The model is an encoder-decoder with additive attention, as in the translation experiments of Niculae & Blondel (NeurIPS
2017). Its attention uses any normalizer, chooses one position (`hard`), or is a single fixed vector (`none`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.attention import Attention
from omegamax.attention.estimators import Marginalize
from omegamax.attention.hard import HardAttention
from omegamax.attention.scores import Additive
from omegamax.data.printable import short_repr
from omegamax.data.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary, join_tokens, split_text
from omegamax.models import EncoderDecoder, FixedReader, HardReader, Reader, SoftReader, beam_search
from omegamax.recipes.metrics import corpus_bleu, edit_distances, exact_match, import_sacrebleu
from omegamax.recipes.normalizers import HARD, NONE, check_attention, make_normalizer
from omegamax.recipes.settings import Seq2SeqSettings
from omegamax.training.task import AttentionMap, Loss, Task

MAX_TOKENS = 20_000  # of one text
_MAX_CHOICES = 50_000_000  # hypotheses times tokens of the vocabulary, all of which a step of beam search compares


class TextPair(NamedTuple):
    """A source as tokens, and the target text, which is "" where it is not known.

    Checkpoints hold a checksum of the repr of all pairs, so the class and its fields must keep their names.
    """

    source: tuple[str, ...]
    target: str


class TextBatch(NamedTuple):
    """The numbers of the tokens of some pairs."""

    source: Tensor  # (B, K), filled up with PADDING
    lengths: Tensor  # (B,)
    target: Tensor  # (B, T + 1): START, tokens, END, PADDING


class TextToText(Task):
    """Learns to write texts from texts. A subclass reads the pairs and the lines that users write."""

    settings: Seq2SeqSettings

    def __init__(
        self,
        settings: Seq2SeqSettings,
        source: Vocabulary,
        target: Vocabulary,
        splits: Mapping[str, Sequence[TextPair]] | None = None,
    ) -> None:
        check_attention(settings)
        if settings.beam * len(target) > _MAX_CHOICES:
            raise ValueError(
                f"beam must be at most {_MAX_CHOICES // len(target)} with a vocabulary of {len(target)} tokens, "
                f"got {settings.beam}; change it with --beam"
            )
        self.settings, self.source, self.target = settings, source, target
        self._splits = splits

    @classmethod
    def prepare(cls, settings: Seq2SeqSettings) -> TextToText:
        """Reads the pairs, and counts the tokens of the training split."""
        check_attention(settings)
        import_sacrebleu()
        splits = cls.read_pairs(settings)
        level = settings.level
        source = Vocabulary.of(
            (pair.source for pair in splits["train"]),
            max_size=settings.max_tokens,
            first=cls.reserved(settings),
        )
        target = Vocabulary.of(
            (split_text(pair.target, level) for pair in splits["train"]), max_size=settings.max_tokens
        )
        return cls(settings, source, target, splits)

    @classmethod
    def restore(cls, settings: Seq2SeqSettings, assets: Mapping[str, Any]) -> TextToText:
        """Makes the task from the vocabularies of a checkpoint."""
        return cls(settings, Vocabulary(assets["source"]), Vocabulary(assets["target"]))

    def assets(self) -> dict[str, Any]:
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @classmethod
    @abstractmethod
    def read_pairs(cls, settings: Any) -> dict[str, list[TextPair]]:
        """Returns the pairs of "train", "dev" and "test"."""

    @classmethod
    def reserved(cls, settings: Any) -> Sequence[str]:
        """Returns source tokens that are known whether or not they occur in the training data; none by default."""
        return ()

    def examples(self, split: str) -> Sequence[TextPair]:
        """Returns the pairs of a split, in the order of the file."""
        if self._splits is None:
            self._splits = self.read_pairs(self.settings)
        return self._splits[split]

    def length(self, example: TextPair) -> int:
        """Returns the number of tokens of the source."""
        return len(example.source)

    def fingerprint(self, example: TextPair) -> str:
        """Returns all of the pair as text."""
        return repr(example)

    def model(self) -> nn.Module:
        """Returns an encoder-decoder with the reader that the settings name."""
        settings = self.settings
        return EncoderDecoder(
            len(self.source),
            len(self.target),
            reader=_reader(settings),
            embedding_size=settings.embedding_size,
            hidden_size=settings.hidden_size,
            dropout=settings.dropout,
        )

    def collate(self, examples: Sequence[TextPair]) -> TextBatch:
        """Turns tokens into numbers; an empty source becomes one unknown token."""
        source = [self.source.numbers(example.source) or [UNKNOWN] for example in examples]
        target = [self.target.numbers(split_text(example.target, self.settings.level)) for example in examples]
        lengths = torch.tensor([len(tokens) for tokens in source])
        return TextBatch(_padded(source), lengths, _padded([[START, *tokens, END] for tokens in target]))

    def loss(self, model: nn.Module, batch: TextBatch) -> Loss:
        """Computes the negative log-likelihood of the target's tokens."""
        written = batch.target[:, 1:] != PADDING
        log_likelihood = model(batch.source, batch.lengths, batch.target)
        return Loss(-torch.where(written, log_likelihood, 0).sum(), int(written.sum()))

    def predict(self, model: nn.Module, examples: Sequence[TextPair]) -> list[str]:
        """Returns the best output of beam search, which is greedy with one beam."""
        return [join_tokens(tokens, self.settings.level) for tokens, _ in self._decode_all(model, examples)]

    def _decode_all(self, model: nn.Module, examples: Sequence[TextPair]) -> list[tuple[list[str], bool]]:
        """Returns the tokens of each output, and whether it ended by itself rather than at the largest length."""
        # As many texts at a time as fit; all of a usual batch do.
        at_once = max(1, _MAX_CHOICES // (self.settings.beam * len(self.target)))
        parts = [examples[start : start + at_once] for start in range(0, len(examples), at_once)]
        return [output for part in parts for output in self._decode(model, part)]

    def _decode(self, model: nn.Module, examples: Sequence[TextPair]) -> list[tuple[list[str], bool]]:
        assert isinstance(model, EncoderDecoder)
        batch = self.batch_for(model, examples)
        n_beams = self.settings.beam
        encoded = model.encode(batch.source, batch.lengths)
        state = model.start(encoded)
        repeated = type(encoded)(*(part.repeat_interleave(n_beams, 0) for part in encoded))

        def step(token: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            log_probs, state = model.step(token, state, repeated)
            log_probs[:, [PADDING, UNKNOWN, START]] = -torch.inf  # no text has them
            return log_probs, state

        best = beam_search(
            step,
            state,
            n_items=len(examples),
            n_beams=n_beams,
            start=START,
            end=END,
            max_length=self.settings.max_length,
        )
        rows = zip(best.tokens[:, 0].tolist(), best.lengths[:, 0].tolist())
        return [(self.target.tokens(tokens[:length]), length < self.settings.max_length) for tokens, length in rows]

    def score(self, examples: Sequence[TextPair], predictions: Sequence[str]) -> dict[str, float]:
        """Computes BLEU, exact match, and the edit distance in tokens, also per token of the target."""
        level = self.settings.level
        written = [split_text(text, level) for text in predictions]
        wanted = [split_text(example.target, level) for example in examples]
        targets = [join_tokens(tokens, level) for tokens in wanted]  # with single spaces between words, as we write
        distances = edit_distances(written, wanted)
        scores = {
            "bleu": corpus_bleu(predictions, targets, tokenize="char" if level == "char" else "13a"),
            "exact_match": exact_match(predictions, targets),
            "edit_distance": sum(distances) / max(1, len(distances)),
            "edit_rate": sum(distances) / max(1, sum(map(len, wanted))),
        }
        return {self.metric: scores.pop(self.metric), **scores}

    def attend(self, model: nn.Module, examples: Sequence[TextPair]) -> list[AttentionMap]:
        """Returns the attention weights of each output token, and of the end of the text if the output has one."""
        assert isinstance(model, EncoderDecoder)
        outputs = self._decode_all(model, examples)
        numbers = [[*self.target.numbers(tokens), *([END] if ended else [])] for tokens, ended in outputs]
        batch = self.batch_for(model, examples)
        weights = model.attend(
            batch.source, batch.lengths, _padded([[START, *row] for row in numbers]).to(batch.target.device)
        )
        if weights is None:
            return []
        maps, always_positive = [], make_normalizer(self.settings).always_positive
        for example, (tokens, ended), rows in zip(examples, outputs, weights):
            columns = example.source or ("",)
            written = [*tokens, *([SPECIAL[END]] if ended else [])]
            rows = rows[: len(written), : len(columns)]
            maps.append(AttentionMap(written, list(columns), rows, always_positive))
        return maps


def _reader(settings: Seq2SeqSettings) -> Reader:
    if settings.attention == NONE:
        return FixedReader()
    # Every pair of tokens passes through this layer, so its size is most of the cost of attention.
    score = Additive(settings.hidden_size, settings.hidden_size, settings.hidden_size // 2)
    normalizer = make_normalizer(settings)
    if settings.attention == HARD:
        return HardReader(HardAttention(score, normalizer=normalizer, estimator=Marginalize()))
    return SoftReader(Attention(score, normalizer=normalizer))


def limit_lengths(pairs: dict[str, list[TextPair]], settings: Seq2SeqSettings) -> dict[str, list[TextPair]]:
    """Leaves out training examples that are longer than the settings allow; ValueError if others are far too long."""
    kept = {**pairs, "train": keep_short(pairs["train"], settings)}
    for split in ("dev", "test"):
        try:
            check_lengths(pairs[split], settings.level)
        except ValueError as error:
            raise ValueError(f"{settings.data}, {split} split, {error}") from None
    return kept


def keep_short(pairs: list[TextPair], settings: Seq2SeqSettings) -> list[TextPair]:
    """Returns the pairs that are no longer than the settings allow, on both sides."""
    short = [
        pair
        for pair in pairs
        if max(len(pair.source), len(split_text(pair.target, settings.level))) <= settings.max_length
    ]
    if not short:
        where = settings.data or "the generated data"
        raise ValueError(
            f"{where}: no training example has at most {settings.max_length} tokens on both sides; "
            "raise max_length, or shorten the texts"
        )
    return short


def check_lengths(pairs: Iterable[TextPair], level: str) -> None:
    """Raises ValueError, with its line, for a text that is too long to be encoded in reasonable time and memory."""
    for number, pair in enumerate(pairs, start=1):
        longest = max(len(pair.source), len(split_text(pair.target, level)))
        if longest > MAX_TOKENS:
            beginning = short_repr(join_tokens(pair.source[:20], level))
            raise ValueError(
                f"line {number} ({beginning} …): expected at most {MAX_TOKENS} tokens, got {longest}; shorten the text"
            )


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PADDING] * (longest - len(row))] for row in rows])
