"""A tagger of entities: finds people, places, diseases ... in sentences, and says exactly how sure it is.

    omegamax train tagger --data DIR --loss l2
    echo "Ada flew to New Tarin ." | omegamax predict runs/tagger-l2 --probabilities

The model is a BiLSTM over words and their letters (Lample et al., NAACL 2016), and over a pretrained encoder if there
is one, with a chain of tags on top. The loss decides what becomes of the scores of that chain: a CRF, or a sparse
distribution, under which only a few sequences of tags have a probability (Mensch & Blondel, ICML 2018).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.conll import read_conll, read_words
from omegamax.data.entity_sentences import generate_entity_sentences
from omegamax.data.span_lines import parse_span_lines, read_span_lines
from omegamax.data.tagged_sentences import (
    MAX_WORDS,
    TaggedSentence,
    check_length,
    from_text,
    from_words,
    is_json,
    read_splits,
)
from omegamax.data.tsv import SPLITS
from omegamax.models.pretrained_encoder import PieceBatch
from omegamax.models.sequence_tagger import SequenceTagger
from omegamax.models.word_features import WordBatch
from omegamax.recipes.settings import TaggerPrediction, TaggerSettings
from omegamax.recipes.tag_distribution import TagDistribution, best_tags, of_sentence
from omegamax.recipes.tagger_losses import tagger_loss
from omegamax.recipes.tagger_output import Tagging, tagging_of, write_tagging
from omegamax.recipes.tagger_scores import best_f1_threshold, calibration_error, entity_f1, reliability
from omegamax.recipes.word_inputs import SentenceInputs, padded
from omegamax.spans import Span, TagReader, choose_spans, expected_f1_threshold, write_tags
from omegamax.structures.chain import FactoredChain
from omegamax.structures.tagging_scheme import allowed_transitions
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_SENTENCES = 50  # of dev and test, if they are generated
_PREFIXES = {"BIO": "BI", "BIOES": "BIES"}
_WORDS_AT_ONCE = 100_000  # of a batch of predictions, with padding
_LISTED = 0.01  # entities with more probability count for calibration
_MOST_ANSWERS = 1000  # sequences of tags of a sentence that are counted


class TaggerBatch(NamedTuple):
    """Some sentences with their tags."""

    words: WordBatch | None
    pieces: PieceBatch | None
    tags: Tensor  # (B, N); 0 beyond the lengths, and where they are not known
    lengths: Tensor  # (B,)


class TaggerTask(Task):
    """Learns to find entities."""

    name: ClassVar[str] = "tagger"
    metric: ClassVar[str] = "f1"
    reads_single_lines: ClassVar[bool] = False
    settings_type: ClassVar[type] = TaggerSettings
    prediction_type: ClassVar[type | None] = TaggerPrediction
    settings: TaggerSettings
    prediction: TaggerPrediction

    def __init__(
        self,
        settings: TaggerSettings,
        inputs: SentenceInputs,
        types: Sequence[str],
        longest: int,
        splits: Mapping[str, Sequence[TaggedSentence]] | None = None,
    ) -> None:
        self.settings, self.inputs, self.types, self.longest = settings, inputs, list(types), longest
        self.prediction = TaggerPrediction()
        self.tags = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in _PREFIXES[settings.scheme])]
        self.reader = TagReader(self.tags)
        self.tagger_loss = tagger_loss(settings.loss)
        self._numbers = {tag: number for number, tag in enumerate(self.tags)}
        self._splits = splits

    @classmethod
    def prepare(cls, settings: TaggerSettings) -> TaggerTask:
        """Reads the sentences, and counts words, letters and types of entities."""
        splits = _read(settings)
        spans = [span for sentence in splits["train"] for span in sentence.spans]
        if not spans:
            raise ValueError(
                f"{settings.data}: expected entities in the training data, got none; choose the column of their tags "
                "with --tag-column"
            )
        longest = max(end - start for start, end, _ in spans)
        inputs = SentenceInputs.prepare(
            settings,
            [sentence.words for sentence in splits["train"]],
            [sentence.words for split in ("dev", "test") for sentence in splits[split]],
        )
        return cls(settings, inputs, sorted({kind for *_, kind in spans}), longest, splits)

    @classmethod
    def restore(cls, settings: TaggerSettings, assets: Mapping[str, Any]) -> TaggerTask:
        """Makes the task from the vocabularies of a checkpoint."""
        inputs = SentenceInputs.restore(assets["inputs"])
        return cls(settings, inputs, assets["types"], int(assets["longest"]))

    def assets(self) -> dict[str, Any]:
        return {"types": self.types, "longest": self.longest, "inputs": self.inputs.assets()}

    def examples(self, split: str) -> Sequence[TaggedSentence]:
        """Returns the sentences of a split, in the order of the file."""
        if self._splits is None:
            self._splits = _read(self.settings)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[TaggedSentence]:
        """Makes sentences of lines: texts, words, rows of a column file, or JSON, as `prediction` says."""
        form = self.prediction.input_format
        if form == "conll":
            return list(read_words(lines, word_column=self.settings.word_column))
        if form == "jsonl":
            return list(parse_span_lines(enumerate(lines, start=1)))
        make = from_text if form == "text" else lambda line: from_words(tuple(line.split()))
        sentences = []
        for number, line in enumerate(lines, start=1):
            sentences.append(make(line.rstrip("\r\n")))
            check_length(Path("the input"), number, len(sentences[-1].words))
        return sentences

    def length(self, example: TaggedSentence) -> int:
        return len(example.words)

    def fingerprint(self, example: TaggedSentence) -> str:
        return repr((example.words, example.spans))

    def model(self) -> nn.Module:
        """Returns a BiLSTM over words, letters and an encoder, with a chain of tags on top."""
        return SequenceTagger(
            self.inputs.reader(self.settings),
            len(self.tags),
            allowed=allowed_transitions(self.tags, self.settings.scheme),
            learn_transitions=self.tagger_loss.learn_transitions,
        )

    def rate_factor(self, name: str) -> float:
        """Trains a pretrained encoder more slowly than the rest."""
        return self.settings.encoder_rate if name.startswith("reader.encoder.") else 1.0

    def collate(self, examples: Sequence[TaggedSentence]) -> TaggerBatch:
        """Turns words and tags into numbers; a sentence without words becomes one unknown word."""
        words, pieces = self.inputs.batch([example.words for example in examples])
        rows = [self._tag_numbers(example) or [0] for example in examples]
        return TaggerBatch(words, pieces, padded(rows), torch.tensor([len(row) for row in rows]))

    def _tag_numbers(self, example: TaggedSentence) -> list[int]:
        known = [span for span in example.spans if span[2] in self.types]  # another type is outside for this model
        return [self._numbers[tag] for tag in write_tags(known, len(example.words), self.settings.scheme)]

    def loss(self, model: nn.Module, batch: TaggerBatch) -> Loss:
        """Computes the loss of the gold tags; items are words."""
        potentials = model(batch.words, batch.pieces, batch.lengths)
        return Loss(self.tagger_loss.compute(potentials, batch.tags, batch.lengths), int(batch.lengths.sum()))

    # Predictions

    def predict(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[str]:
        """Returns the lines of each sentence in the form that `prediction` names."""
        return [write_tagging(each, self.prediction) for each in self.tag(model, examples)]

    def tag(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[Tagging]:
        """Finds the entities of sentences, with all that `prediction` asks for."""
        return [
            tagging_of(example, tags, distribution, self.prediction, max_length=self._max_length([tags]))
            for example, tags, distribution in self._distributions(model, examples)
        ]

    def _distributions(
        self, model: nn.Module, examples: Sequence[TaggedSentence]
    ) -> Iterator[tuple[TaggedSentence, list[int], TagDistribution | None]]:
        """Yields each sentence with its best tags and its distribution; a sentence without words has none."""
        for part in _parts(examples):
            batch = self.batch_for(model, part)
            potentials: FactoredChain = model(batch.words, batch.pieces, batch.lengths)
            tags = best_tags(potentials, batch.lengths).tolist()
            for place, example in enumerate(part):
                n_words = len(example.words)
                found = TagDistribution(of_sentence(potentials, place, n_words), self.tagger_loss, self.reader)
                best = tags[place][:n_words]
                if self.settings.entity_threshold and n_words:
                    best = self._likely_tags(example, best, found)
                yield example, best, found if n_words else None

    def _likely_tags(self, example: TaggedSentence, best: list[int], found: TagDistribution) -> list[int]:
        """Returns the tags of the entities whose probability is above the threshold, chosen without overlap."""
        threshold = self.settings.entity_threshold
        chosen = choose_spans(found.entities(threshold, self._max_length([best])), threshold)
        spans = [(start, end, kind) for start, end, kind, _ in chosen]
        return [self._numbers[tag] for tag in write_tags(spans, len(example.words), self.settings.scheme)]

    def _max_length(self, several: Iterable[Sequence[int]]) -> int:
        """Returns how long entities may be: as in training, or as the longest of these sequences of tags."""
        return max([self.longest, *(end - start for tags in several for start, end, _ in self.reader.spans(tags))])

    # Metrics

    def assess(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[str]:
        """Returns as JSON the entities of each sentence."""
        if self.settings.entity_threshold:
            found = self._distributions(model, examples)
            return [json.dumps({"spans": self.reader.spans(tags)}) for _, tags, _ in found]
        lines = []
        for part in _parts(examples):
            batch = self.batch_for(model, part)
            best = best_tags(model(batch.words, batch.pieces, batch.lengths), batch.lengths).tolist()
            lines += [
                json.dumps({"spans": self.reader.spans(tags[: len(each.words)])}) for tags, each in zip(best, part)
            ]
        return lines

    def inspect(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[str]:
        """Returns as JSON the entities of each sentence, likely entities, and how many answers are left."""
        lines = []
        for _, tags, distribution in self._distributions(model, examples):
            found: dict[str, Any] = {"spans": self.reader.spans(tags), "likely": []}
            if distribution is not None:
                found["likely"] = distribution.entities(_LISTED, self._max_length([tags]))
                if self.tagger_loss.sparse:
                    found["answers"] = len(distribution.ranked(_MOST_ANSWERS).sequences)
            lines.append(json.dumps(found))
        return lines

    def score(self, examples: Sequence[TaggedSentence], predictions: Sequence[str]) -> dict[str, float]:
        """Computes F1 of entities; of the lines of `inspect` also calibration and the number of answers."""
        records = [json.loads(line) for line in predictions]
        found = [{tuple(span) for span in record["spans"]} for record in records]
        wanted = [set(example.spans) for example in examples]
        scores = entity_f1(found, wanted)
        right = [each == gold for each, gold in zip(found, wanted)]
        bounds = [[{(start, end, "") for start, end, _ in spans} for spans in each] for each in (found, wanted)]
        scores["boundary_f1"] = entity_f1(*bounds)["f1"]
        scores["sentence_accuracy"] = sum(right) / max(1, len(right))
        if all("likely" in record for record in records):
            scores["entity_ece"] = calibration_error(reliability(self.likely(examples, predictions)))
            likely = [[Span(*span) for span in record["likely"]] for record in records]
            threshold = expected_f1_threshold(likely)  # which needs no gold entities
            chosen = [{span[:3] for span in choose_spans(spans, threshold)} for spans in likely]
            expected = entity_f1(chosen, wanted)
            scores |= {f"expected_{name}": expected[name] for name in ("f1", "precision", "recall")}
            scores |= {"expected_threshold": threshold, "best_threshold": best_f1_threshold(likely, wanted)}
        answers = [(record["answers"], ok) for record, ok in zip(records, right) if "answers" in record]
        if answers:
            one, several = [ok for n, ok in answers if n == 1], [ok for n, ok in answers if n > 1]
            scores["single_answer"] = len(one) / len(answers)
            scores["mean_answers"] = sum(n for n, _ in answers) / len(answers)
            scores["accuracy_single_answer"] = sum(one) / max(1, len(one))
            scores["accuracy_several_answers"] = sum(several) / max(1, len(several))
        return scores

    def likely(self, examples: Sequence[TaggedSentence], lines: Sequence[str]) -> list[tuple[float, bool]]:
        """Returns of the lines of `inspect` the probability of every likely entity, and whether it is right."""
        return [
            (probability, (start, end, kind) in example.spans)
            for example, line in zip(examples, lines)
            for start, end, kind, probability in json.loads(line)["likely"]
        ]

    # Pictures

    def attend(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[AttentionMap]:
        """Returns how likely each tag is at each word; tags that are nowhere likely are left out."""
        maps = []
        for example, _, distribution in self._distributions(model, examples):
            if distribution is None:
                maps.append(AttentionMap(["O"], [""], torch.ones(1, 1)))
                continue
            weights = distribution.marginals().T
            rows = _shown_tags(weights)
            named = [self.tags[row] for row in rows]
            maps.append(AttentionMap(named, list(example.words), weights[rows], not self.tagger_loss.sparse))
        return maps

    def draw(self, model: nn.Module, examples: Sequence[TaggedSentence]) -> list[Any]:
        """Draws the lattice of each sentence: how likely each tag of each word is, and each step between tags."""
        from omegamax.plots import tag_lattice

        figures = []
        for example, _, distribution in self._distributions(model, examples):
            if distribution is None:
                raise ValueError("expected a sentence with words, got none; write a sentence")
            edges = distribution.edges()
            rows = _shown_tags(edges.sum(-2).T)
            edges = edges[:, rows][:, :, rows]  # the first word has no tag before it: its pairs are in row 0
            figures.append(tag_lattice({self.settings.loss: edges}, example.words, [self.tags[row] for row in rows]))
        return figures

    def draw_scores(self, examples: Sequence[TaggedSentence], lines: Sequence[str]) -> dict[str, Any]:
        """Draws the reliability of the probabilities of entities, from the lines of `inspect`."""
        from omegamax.plots import reliability_plot

        bins = reliability(self.likely(examples, lines))
        return {"reliability": reliability_plot({self.settings.loss: bins}, of="entities")}


def _read(settings: TaggerSettings) -> dict[str, list[TaggedSentence]]:
    if settings.data is not None:
        return read_tagged(settings)
    counts = {split: max(_MIN_SENTENCES, settings.sentences // 10) for split in SPLITS} | {"train": settings.sentences}
    return {split: list(generate_entity_sentences(counts[split], split, seed=settings.data_seed)) for split in SPLITS}


def read_tagged(settings: TaggerSettings) -> dict[str, list[TaggedSentence]]:
    """Reads the sentences of all splits from the files that the settings name."""
    columns = partial(read_conll, word_column=settings.word_column, tag_column=settings.tag_column)
    assert settings.data is not None
    return read_splits(settings.data, lambda path: read_span_lines(path) if is_json(path) else columns(path))


def _parts(examples: Sequence[TaggedSentence]) -> Iterator[Sequence[TaggedSentence]]:
    """Cuts a batch so that no part has too many words, with padding; all of a usual batch are one part."""
    longest = max([1, *(len(example.words) for example in examples)])
    at_once = max(1, _WORDS_AT_ONCE // min(longest, MAX_WORDS))
    for start in range(0, len(examples), at_once):
        yield examples[start : start + at_once]


def _shown_tags(weights: Tensor) -> list[int]:
    """Returns O and the tags that some word has with a probability above one percent, in their order."""
    likely = (weights > 0.01).any(-1)
    return [row for row, shown in enumerate(likely.tolist()) if shown or row == 0]
