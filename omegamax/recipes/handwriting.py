"""Writes texts by hand: letters become points of a pen.

    omegamax train handwriting
    omegamax attend runs/handwriting-window "omega max" --out written.png
    echo "omega max" | omegamax predict runs/handwriting-window --output-format svg

Graves (2013) made the first soft attention for this: a window of Gaussians that slides over the text while the pen
moves. `--model` has it, attention by content instead, or no attention. A second network learns to read what other
writers wrote, and judges how many letters it can read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention.weight_counts import WeightCounts, count_weights, weight_metrics
from omegamax.data.handwriting import Writing, check_letters, check_text, draw_writings
from omegamax.data.pen_svg import strokes_of, strokes_to_svg
from omegamax.losses import CTCLoss
from omegamax.models.handwriter import Handwriter, PenReader, WriterAndReader
from omegamax.models.text_readers import ContentText, FixedText, WindowText
from omegamax.recipes.metrics import edit_distances
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import HandwritingPrediction, HandwritingSettings
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_WRITINGS = 60  # of dev and test
_ROOM = 3.0  # no writing has more points than this times what the writers need
_READER_RATE = 3.0  # CTC takes many steps before it reads anything


class WritingExample(NamedTuple):
    """A text, how it was written if that is known, and what the reader learns from in the same step."""

    text: str
    writing: Writing | None = None
    lesson: Writing | None = None


class WritingBatch(NamedTuple):
    """Texts with their points, and points to learn reading from."""

    letters: Tensor  # (B, U)
    n_letters: Tensor  # (B,)
    points: Tensor  # (B, T, 4): right and down with deviation 1, lifted, last
    n_points: Tensor  # (B,)
    lesson: Tensor  # (B, T', 4)
    n_lesson: Tensor  # (B,)
    labels: Tensor  # (B, U'), numbers of the lesson's letters
    n_labels: Tensor  # (B,)


class WrittenText(NamedTuple):
    """What the network wrote."""

    points: np.ndarray  # (T, 3): right, down, 1 if the pen is lifted, in heights of the letter x
    read: str  # by the reader
    weights: Tensor | None  # (T, U), each row sums to one
    ended: bool  # whether it came to an end


class Handwriting(Task):
    """Learns to write texts with a pen, one point after another."""

    name: ClassVar[str] = "handwriting"
    metric: ClassVar[str] = "log_likelihood"
    settings_type: ClassVar[type] = HandwritingSettings
    prediction_type: ClassVar[type | None] = HandwritingPrediction
    settings: HandwritingSettings
    prediction: HandwritingPrediction

    def __init__(
        self, settings: HandwritingSettings, mean: Sequence[float], deviation: Sequence[float], rate: float
    ) -> None:
        self._normalizer = make_normalizer(settings)
        self.settings, self.prediction = settings, HandwritingPrediction()
        self.mean, self.deviation = np.array(mean, np.float32), np.array(deviation, np.float32)
        self.rate = rate  # points of a letter
        self._numbers = {letter: number for number, letter in enumerate(settings.letters)}
        self._splits: dict[str, list[WritingExample]] = {}

    @classmethod
    def prepare(cls, settings: HandwritingSettings) -> Handwriting:
        """Draws the training writings, and measures how far the pen goes from point to point."""
        check_letters(settings.letters)
        make_normalizer(settings)
        writings = _draw(settings, "train")
        offsets = np.concatenate([each.points[:, :2] for each in writings])
        n_letters = sum(len(each.text) for each in writings)
        mean, deviation = (part.tolist() for part in (offsets.mean(0), offsets.std(0)))
        return cls(settings, mean, deviation, len(offsets) / n_letters)

    @classmethod
    def restore(cls, settings: HandwritingSettings, assets: Mapping[str, Any]) -> Handwriting:
        """Makes the task from the scales of a checkpoint."""
        return cls(settings, assets["mean"], assets["deviation"], assets["rate"])

    def assets(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist(), "rate": self.rate}

    def examples(self, split: str) -> Sequence[WritingExample]:
        """Returns the writings of a split; each split has writers of its own."""
        if split not in self._splits:
            writings = _draw(self.settings, split)
            lessons = _draw(self.settings, "lessons") if split == "train" else writings
            self._splits[split] = [WritingExample(one.text, one, other) for one, other in zip(writings, lessons)]
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[WritingExample]:
        """Makes an example of each line, which is a text."""
        return [WritingExample(check_text(line.strip(), self.settings.letters)) for line in lines]

    def length(self, example: WritingExample) -> int:
        """Returns the number of points, or about how many there will be."""
        return len(example.writing.points) if example.writing else round(self.rate * len(example.text))

    def fingerprint(self, example: WritingExample) -> str:
        """Returns the text and a checksum of the points, and of the lesson."""
        return " ".join([example.text, *(str(zlib.crc32(each.points.tobytes())) for each in example[1:] if each)])

    def model(self) -> nn.Module:
        """Returns the network that the settings name, and the reader."""
        settings = self.settings
        size, query_size = settings.letter_size, settings.hidden_size
        text: nn.Module
        if settings.model == "window":
            text = WindowText(size, query_size, n_components=settings.window_components, rate=1 / self.rate)
        elif settings.model == "content":
            text = ContentText(size, query_size, normalizer=self._normalizer)
        else:
            text = FixedText(size)
        writer = Handwriter(
            len(settings.letters), text, letter_size=size, hidden_size=query_size, n_components=settings.n_components
        )
        return WriterAndReader(writer, PenReader(len(settings.letters), hidden_size=settings.reader_size))

    def collate(self, examples: Sequence[WritingExample]) -> WritingBatch:
        letters, n_letters = self._texts([example.text for example in examples])
        written = [example.writing for example in examples if example.writing]
        lessons = [example.lesson for example in examples if example.lesson]
        labels = self._texts([lesson.text for lesson in lessons])
        return WritingBatch(letters, n_letters, *self._strokes(written), *self._strokes(lessons), *labels)

    def _texts(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        rows = [torch.tensor([self._numbers[letter] for letter in text]) for text in texts]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def _strokes(self, writings: Sequence[Writing]) -> tuple[Tensor, Tensor]:
        rows = []
        for writing in writings:
            last = np.arange(1, len(writing.points) + 1)[:, None] == len(writing.points)
            places = (writing.points[:, :2] - self.mean) / self.deviation
            rows.append(torch.from_numpy(np.concatenate([places, writing.points[:, 2:], last], 1).astype(np.float32)))
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def loss(self, model: nn.Module, batch: WritingBatch) -> Loss:
        """Computes the negative log-likelihood of the points, and CTC for the reader, which shares nothing with it."""
        predictions, (heard, n_heard) = model(
            batch.letters, batch.n_letters, batch.points, batch.lesson, batch.n_lesson
        )
        likelihood = predictions.density.log_prob(batch.points)[_real(batch)].sum()
        ctc = CTCLoss(0, "sum", True)(heard.transpose(0, 1), batch.labels + 1, n_heard, batch.n_labels)
        return Loss(ctc - likelihood, int(batch.n_points.sum()))

    def rate_factor(self, name: str) -> float:
        """Returns the factor of a parameter's learning rate: the reader learns faster than the writer."""
        return _READER_RATE if name.startswith("reader.") else 1.0

    def write(
        self, model: nn.Module, examples: Sequence[WritingExample], *, bias: float, seed: int = 0
    ) -> list[WrittenText]:
        """Writes the texts of examples; the same text, bias and seed give the same writing.

        Arguments:
            model: the trained network
            examples: with texts
            bias: how much likely points are preferred
            seed: of the random numbers
        """
        assert isinstance(model, WriterAndReader)
        device = next(model.parameters()).device
        letters, n_letters = (each.to(device) for each in self._texts([example.text for example in examples]))
        draws = [self._noise(example.text, seed) for example in examples]
        limits = torch.tensor([len(draw) for draw in draws], device=device)
        noise = nn.utils.rnn.pad_sequence(draws, batch_first=True).to(device)
        points, lengths, scores = model.writer.write(letters, n_letters, noise, bias=bias)
        weights = None if scores is None else self._weights(scores).cpu()
        ended = (lengths < limits).tolist()
        lengths = torch.minimum(lengths, limits)
        heard = model.reader.read(points, lengths)
        found = []
        for item, (example, length) in enumerate(zip(examples, lengths.tolist())):
            row = points[item, :length, :3].cpu().numpy().astype(np.float64)
            row[:, :2] = row[:, :2] * self.deviation + self.mean
            read = "".join(self.settings.letters[number] for number in heard[item])
            looked = None if weights is None else weights[item, :length, : len(example.text)]
            found.append(WrittenText(row, read, looked, ended[item]))
        return found

    def _noise(self, text: str, seed: int) -> Tensor:
        """Draws the random numbers (T, 5) of a writing, which are the same whatever is written beside it."""
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {text}".encode()))
        size = 10 + int(_ROOM * self.rate * len(text))
        uniform = torch.rand(size, 3, generator=generator)
        return torch.cat([uniform, torch.randn(size, 2, generator=generator)], 1)

    def _weights(self, scores: Tensor) -> Tensor:
        """Returns weights that sum to one: those of content attention, or the shares of the window."""
        return scores.softmax(-1) if self.settings.model == "window" else scores

    def predict(self, model: nn.Module, examples: Sequence[WritingExample]) -> list[str]:
        """Returns a line of JSON or SVG for each text."""
        chosen = self.prediction
        lines = []
        for example, written in zip(examples, self.write(model, examples, bias=chosen.bias, seed=chosen.seed)):
            strokes = strokes_of(written.points)
            if chosen.output_format == "svg":
                lines.append(strokes_to_svg(strokes, example.text))
            else:
                places = [[[round(float(x), 3) for x in point] for point in stroke] for stroke in strokes]
                lines.append(json.dumps({"text": example.text, "read": written.read, "strokes": places}))
        return lines

    def assess(self, model: nn.Module, examples: Sequence[WritingExample]) -> list[str]:
        """Returns for each writing what the reader reads in it, a tab, and JSON: its likelihood, where it looked."""
        assert isinstance(model, WriterAndReader)
        batch = self.batch_for(model, examples)
        density, scores = model.writer(batch.letters, batch.n_letters, batch.points)
        likelihood = torch.where(_real(batch), density.log_prob(batch.points), 0).double().sum(-1)
        weights = None if scores is None else self._weights(scores)
        lines = []
        for item, (example, heard) in enumerate(zip(examples, model.reader.read(batch.points, batch.n_points))):
            more: dict[str, Any] = {"likelihood": likelihood[item].item(), "points": int(batch.n_points[item])}
            if weights is not None and example.writing is not None:
                looked = weights[item, : more["points"], : len(example.text)].cpu()
                true = torch.from_numpy(example.writing.letters)
                more["on_letter"] = float(looked.gather(1, true[:, None]).double().sum())
                more["even"] = more["points"] / len(example.text)
                more["found"] = int((looked.argmax(1) == true).sum())
                if self.settings.model == "content":
                    more["counts"] = count_weights(looked, always_positive=self._normalizer.always_positive)
            lines.append(f"{''.join(self.settings.letters[number] for number in heard)}\t{json.dumps(more)}")
        return lines

    def inspect(self, model: nn.Module, examples: Sequence[WritingExample]) -> list[str]:
        """Adds what the reader reads in writings of the model, with the default bias and without."""
        neat = self.write(model, examples, bias=HandwritingPrediction().bias)
        varied = self.write(model, examples, bias=0.0)
        lines = []
        for line, one, other in zip(self.assess(model, examples), neat, varied):
            text, _, more = line.partition("\t")
            written = {"written": one.read, "ended": one.ended, "written_unbiased": other.read}
            lines.append(f"{text}\t{json.dumps(json.loads(more) | written)}")
        return lines

    def score(self, examples: Sequence[WritingExample], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the likelihood of points, how much the true letter is looked at, and errors of the reader."""
        lines = [line.partition("\t") for line in predictions]
        texts, more = [example.text for example in examples], [json.loads(line[2]) for line in lines]
        names = ("likelihood", "points", "on_letter", "even", "found")
        totals = {name: sum(each.get(name, 0) for each in more) for name in names}
        n_points = max(1, totals["points"])
        likelihood = totals["likelihood"] / n_points
        scores = {"log_likelihood": likelihood, "nll": -likelihood}
        scores["reader_error"] = _error([line[0] for line in lines], texts)
        if all("written" in each for each in more):
            written = [each["written"] for each in more]
            scores["character_error"] = _error(written, texts)
            scores["exact_match"] = sum(map(str.__eq__, written, texts)) / max(1, len(texts))
            scores["ended"] = sum(each["ended"] for each in more) / max(1, len(more))
            scores["character_error_unbiased"] = _error([each["written_unbiased"] for each in more], texts)
        if any("on_letter" in each for each in more):
            scores["attention_on_letter"] = totals["on_letter"] / n_points
            scores["even_attention"] = totals["even"] / n_points
            scores["letter_found"] = totals["found"] / n_points
        counts = [WeightCounts(*each["counts"]) for each in more if "counts" in each]
        return scores | (weight_metrics(counts) if counts else {})

    def attend(self, model: nn.Module, examples: Sequence[WritingExample]) -> list[AttentionMap]:
        """Returns for each point of a writing how much the network looked at each letter; nothing without attention."""
        found = self.write(model, examples, bias=self.prediction.bias, seed=self.prediction.seed)
        positive = self.settings.model == "window" or self._normalizer.always_positive
        return [
            AttentionMap([str(1 + row) for row in range(len(each.points))], list(example.text), each.weights, positive)
            for example, each in zip(examples, found)
            if each.weights is not None
        ]

    def draw(self, model: nn.Module, examples: Sequence[WritingExample]) -> list[Any]:
        """Returns a figure for each text: the writing, and where the pen was in the text while it wrote."""
        from omegamax.plots import written_text

        found = self.write(model, examples, bias=self.prediction.bias, seed=self.prediction.seed)
        positive = self.settings.model == "window" or self._normalizer.always_positive
        return [
            written_text(torch.from_numpy(each.points), each.weights, list(example.text), exact_zeros=not positive)
            for example, each in zip(examples, found)
            if each.weights is not None
        ]


def _draw(settings: HandwritingSettings, split: str) -> list[Writing]:
    share = {"train": 1.0, "lessons": 1.0, "dev": 0.1, "test": 0.1}[split]
    count = settings.writings if share == 1 else max(_MIN_WRITINGS, int(share * settings.writings))
    lengths = (settings.min_length, settings.max_length)
    if split == "test" and settings.test_length:
        lengths = (settings.test_length, settings.test_length)
    return draw_writings(count, split, letters=settings.letters, lengths=lengths, seed=settings.data_seed)


def _real(batch: WritingBatch) -> Tensor:
    """Returns which points (B, T) are not padding."""
    return torch.arange(batch.points.shape[1], device=batch.points.device) < batch.n_points.unsqueeze(-1)


def _error(read: Sequence[str], texts: Sequence[str]) -> float:
    """Returns the character error rate: insertions, deletions and substitutions over the characters of the texts."""
    return sum(edit_distances([list(line) for line in read], [list(text) for text in texts])) / max(
        1, sum(map(len, texts))
    )
