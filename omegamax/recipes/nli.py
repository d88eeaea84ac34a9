"""Natural language inference: says whether a hypothesis follows from a premise, contradicts it, or neither.

    omegamax train nli --model lstm --attention fusedmax
    omegamax train nli --data snli_1.0 --model esim --alignment matching --null yes
    printf 'A dog runs in a park .\\tAn animal is outside .\\n' | omegamax predict runs/nli-esim-softmax

Three models, all under any normalizer: an LSTM that looks back at the premise once (Rocktäschel et al., ICLR 2016: the
model of table 1 and figure 3 of Niculae & Blondel, NIPS 2017), decomposable attention (Parikh et al., EMNLP 2016) and
ESIM (Chen et al., ACL 2017). The last two also take the alignments of SparseMAP (Niculae et al., ICML 2018).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from omegamax import checks
from omegamax.attention.weight_counts import WeightCounts, count_weights, weight_metrics
from omegamax.data.printable import short_repr
from omegamax.data.scenes import LABELS, generate_scene_pairs
from omegamax.data.sentence_pairs import MAX_LABELS, SentencePair, make_pair, read_pair_splits
from omegamax.data.tsv import SPLITS
from omegamax.models.aligners import Reading
from omegamax.models.pair_classifier import PairBatch, PairClassifier, PairOutput
from omegamax.recipes.nli_models import check_nli_settings, make_classifier
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import NLISettings
from omegamax.recipes.word_inputs import SentenceInputs
from omegamax.training.task import AttentionMap, Loss, Task

NULL = "NULL"
_MIN_PAIRS = 60  # of dev and test, if they are generated
_CELLS = 1 << 22  # pairs of words that are compared at a time in predictions


class Entailment(Task):
    """Learns the labels of sentence pairs."""

    name: ClassVar[str] = "nli"
    metric: ClassVar[str] = "accuracy"
    settings_type: ClassVar[type] = NLISettings
    settings: NLISettings

    def __init__(
        self,
        settings: NLISettings,
        inputs: SentenceInputs,
        labels: Sequence[str],
        splits: Mapping[str, Sequence[SentencePair]] | None = None,
    ) -> None:
        check_nli_settings(settings)
        self.settings, self.inputs, self.labels = settings, inputs, list(labels)
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._splits = splits
        self._check_labels(splits or {})

    @classmethod
    def prepare(cls, settings: NLISettings) -> Entailment:
        """Reads or generates the pairs, and counts words and labels."""
        check_nli_settings(settings)
        splits = _read(settings)
        found = {pair.target for pair in splits["train"]}
        labels = [*(label for label in LABELS if label in found), *sorted(found - set(LABELS))]
        if not 2 <= len(labels) <= MAX_LABELS:
            raise ValueError(
                f"{settings.data}: expected 2 to {MAX_LABELS} different labels in the training data, got "
                f"{len(labels)}; check the column of the labels"
            )
        inputs = SentenceInputs.prepare(
            settings, _sentences(splits["train"]), [*_sentences(splits["dev"]), *_sentences(splits["test"])]
        )
        return cls(settings, inputs, labels, splits)

    @classmethod
    def restore(cls, settings: NLISettings, assets: Mapping[str, Any]) -> Entailment:
        """Makes the task from the vocabularies of a checkpoint."""
        return cls(settings, SentenceInputs.restore(assets["inputs"]), assets["labels"])

    def assets(self) -> dict[str, Any]:
        return {"labels": self.labels, "inputs": self.inputs.assets()}

    def examples(self, split: str) -> Sequence[SentencePair]:
        """Returns the pairs of a split, in the order of the file."""
        if self._splits is None:
            self._splits = _read(self.settings)
            self._check_labels(self._splits)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[SentencePair]:
        """Makes an example of each line: premise, a tab, hypothesis."""
        pairs = []
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\r\n").split("\t")
            try:
                if len(cells) != 2:
                    raise ValueError(
                        f"expected a premise, a tab and a hypothesis, got {len(cells)} columns; correct it"
                    )
                pairs.append(make_pair(*cells))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        return pairs

    def length(self, example: SentencePair) -> int:
        """Returns the number of words of both sentences."""
        return len(example.premise) + len(example.hypothesis)

    def fingerprint(self, example: SentencePair) -> str:
        """Returns all of the pair as text."""
        return repr(example)

    def rate_factor(self, name: str) -> float:
        """Trains a pretrained encoder more slowly."""
        return self.settings.encoder_rate if name.startswith("reader.encoder.") else 1.0

    def model(self) -> PairClassifier:
        """Returns the classifier that the settings name, with its reader of words."""
        reader = self.inputs.reader(self.settings)
        return PairClassifier(reader, make_classifier(self.settings, reader.size, len(self.labels)))

    def collate(self, examples: Sequence[SentencePair]) -> PairBatch:
        words, pieces = self.inputs.batch(_sentences(examples))
        return PairBatch(
            words,
            pieces,
            torch.tensor([len(example.premise) for example in examples]),
            torch.tensor([len(example.hypothesis) for example in examples]),
            torch.tensor([self._numbers.get(example.target, 0) for example in examples]),
        )

    def loss(self, model: nn.Module, batch: PairBatch) -> Loss:
        """Computes the negative log-likelihood of the labels."""
        total = nn.functional.cross_entropy(model(batch).logits, batch.labels, reduction="sum")
        return Loss(total, len(batch.labels))

    def predict(self, model: nn.Module, examples: Sequence[SentencePair]) -> list[str]:
        """Returns the most likely label of each pair and the probabilities of all labels, with tabs between them."""
        lines = []
        for _, output in self._outputs(model, examples):
            for row in output.logits.double().softmax(-1).tolist():
                label = self.labels[max(range(len(row)), key=row.__getitem__)]
                lines.append("\t".join([label, *(f"{probability:.4f}" for probability in row)]))
        return lines

    def assess(self, model: nn.Module, examples: Sequence[SentencePair]) -> list[str]:
        """Returns for each pair the label, a tab, and as JSON its loss and how many weights are zero."""
        lines = []
        for part, (logits, alignment) in self._outputs(model, examples):
            losses = -logits.double().log_softmax(-1)
            best = logits.argmax(-1).tolist()
            for place, pair in enumerate(part):
                found: dict[str, Any] = {"loss": float(losses[place, self._numbers.get(pair.target, 0)])}
                if alignment is not None:
                    readings = [alignment.hypothesis, alignment.premise]
                    found["counts"] = self._counts([each for each in readings if each is not None], pair, place)
                lines.append(f"{self.labels[best[place]]}\t{json.dumps(found)}")
        return lines

    def _outputs(
        self, model: nn.Module, examples: Sequence[SentencePair]
    ) -> Iterator[tuple[Sequence[SentencePair], PairOutput]]:
        """Runs the model on as many pairs at a time as fit; all of a usual batch do."""
        widest = max(max(len(pair.premise), len(pair.hypothesis)) for pair in examples)
        at_once = max(1, _CELLS // widest**2)
        for start in range(0, len(examples), at_once):
            part = examples[start : start + at_once]
            yield part, model(self.batch_for(model, part))

    def _counts(self, readings: Sequence[Reading], pair: SentencePair, place: int) -> list[WeightCounts]:
        """Counts the rows of attention, the weights in them, those above zero, and segments, for each reading."""
        counts = []
        sides = [len(pair.premise), len(pair.hypothesis)]
        for reading, n_columns, n_words in zip(readings, sides, reversed(sides)):
            n_rows = min(n_words, reading.weights.shape[1])  # one where the hypothesis is read as a whole
            weights = reading.weights[place, :n_rows, :n_columns]
            counted = count_weights(weights, always_positive=self._always_positive())
            counts.append(counted._replace(rows=n_rows, positions=weights.numel()))  # a row may read NULL alone
        return counts

    def score(self, examples: Sequence[SentencePair], predictions: Sequence[str]) -> dict[str, float]:
        """Computes accuracy, also of each label, macro F1, the mean loss, and how sparse attention is."""
        lines = [line.partition("\t") for line in predictions]
        given, found = [line[0] for line in lines], [json.loads(line[2]) for line in lines]
        gold = [example.target for example in examples]
        right = Counter(label for label, other in zip(gold, given) if label == other)
        n_gold, n_given = Counter(gold), Counter(given)
        scores = {"accuracy": right.total() / max(1, len(gold))}
        scores |= {f"accuracy_{label}": right[label] / n_gold[label] for label in self.labels if n_gold[label]}
        f1 = [2 * right[label] / max(1, n_gold[label] + n_given[label]) for label in self.labels]
        scores |= {"macro_f1": sum(f1) / len(f1), "loss": sum(each["loss"] for each in found) / max(1, len(found))}
        return scores | weight_metrics(WeightCounts(*each) for line in found for each in line.get("counts", ()))

    def attend(self, model: nn.Module, examples: Sequence[SentencePair]) -> list[AttentionMap]:
        """Returns what each word of the hypothesis reads of the premise, or what the whole hypothesis does.

        In the second case the only row is named by the label that the model chose. NULL is the first column.
        """
        maps = []
        for part, (logits, alignment) in self._outputs(model, examples):
            if alignment is None:
                return []
            weights, null = alignment.hypothesis
            for place, pair in enumerate(part):
                whole = self.settings.model == "lstm"
                rows = [self.labels[int(logits[place].argmax())]] if whole else list(pair.hypothesis)
                columns, shown = list(pair.premise), weights[place, : len(rows), : len(pair.premise)]
                if null is not None:
                    columns = [NULL, *columns]
                    shown = torch.cat([null[place, : len(rows), None], shown], -1)
                maps.append(AttentionMap(rows, columns, shown, self._always_positive()))
        return maps

    def _always_positive(self) -> bool:
        settings = self.settings
        return settings.alignment == "rows" and bool(make_normalizer(settings).always_positive)  # type: ignore[attr-defined]

    def _check_labels(self, splits: Mapping[str, Sequence[SentencePair]]) -> None:
        for split, pairs in splits.items():
            for pair in pairs:
                if pair.target not in self._numbers:
                    raise ValueError(
                        f"{self.settings.data}, {split} split: expected one of the labels {', '.join(self.labels)}, "
                        f"got {short_repr(pair.target)}; the training data has no such label"
                    )


def _read(settings: NLISettings) -> dict[str, list[SentencePair]]:
    """Reads or generates the splits, without training pairs that are too long."""
    if settings.data is None:
        splits = {split: list(_generate(settings, split)) for split in SPLITS}
    else:
        splits, n_unlabelled = read_pair_splits(settings.data)
        if any(n_unlabelled.values()):
            counts = ", ".join(f"{count} of {split}" for split, count in n_unlabelled.items() if count)
            checks.warn(f"nli: {settings.data}: pairs without a label were left out: {counts}")
    short = [pair for pair in splits["train"] if max(map(len, pair[:2])) <= settings.max_length]
    if not short:
        raise ValueError(
            f"{settings.data or 'the generated data'}: no training pair has at most {settings.max_length} words in "
            "both sentences; raise --max-length"
        )
    return {**splits, "train": short}


def _generate(settings: NLISettings, split: str) -> Iterator[SentencePair]:
    count = settings.pairs if split == "train" else max(_MIN_PAIRS, settings.pairs // 10)
    return (make_pair(*pair) for pair in generate_scene_pairs(count, split, seed=settings.data_seed))


def _sentences(pairs: Sequence[SentencePair]) -> list[Sequence[str]]:
    """Returns all premises, then all hypotheses."""
    return [*(pair.premise for pair in pairs), *(pair.hypothesis for pair in pairs)]
