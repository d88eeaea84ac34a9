"""Recognises strings of spoken words, such as digits, with CTC or with attention of several kinds.

    omegamax train speech
    omegamax train speech --data fsdd --model location --attention sparsemax
    echo 4711.wav | omegamax predict runs/speech-ctc-softmax

Strings are recordings of single words by one speaker, one after another. Attention by content alone cannot tell two
equal words apart, and gets lost in strings longer than those of training; attention that knows where it was, slides or
only moves on does not (Chorowski et al., NIPS 2015).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention import Additive, Attention, GaussianMixtureAttention, LocationAware, MonotonicAttention
from omegamax.data.recordings import N_TEST, RATE, Recording, read_recordings, read_wav, synthesise_recordings
from omegamax.losses import CTCLoss
from omegamax.models.speech import AttentionRecognizer, CTCRecognizer, LastWordCell, SpeechBatch, SpeechEncoder
from omegamax.recipes.metrics import edit_distances
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import SpeechSettings
from omegamax.smoothmax import SmoothMax
from omegamax.structures import CTC
from omegamax.structures.smoothing import smoothing_of
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_STRINGS = 40  # of dev and test
_LONGEST_PAUSE = RATE // 8  # samples of silence between two words
_COMPONENTS = 3  # Gaussians of the sliding window
_FILTERS = 8  # of the convolution over the last weights
_WORD = 50  # frames of 10 ms that a word takes with the silence before it, about
_OFFSET, _NOISE = -3.0, 1.0  # of monotonic attention at the beginning: it reads on, for about a word


class Utterance(NamedTuple):
    """A string of words: the recordings it is made of, with silence before each; or samples of a file."""

    parts: tuple[int, ...]
    pauses: tuple[int, ...]  # samples
    target: str  # the words with spaces between them
    samples: np.ndarray | None = None


class Speech(Task):
    """Learns to write down what was said."""

    name: ClassVar[str] = "speech"
    metric: ClassVar[str] = "accuracy"
    settings_type: ClassVar[type] = SpeechSettings
    settings: SpeechSettings

    def __init__(
        self, settings: SpeechSettings, labels: Sequence[str], recordings: Sequence[Recording] | None = None
    ) -> None:
        self._regularizer = _regularizer(settings)
        self.settings, self.labels = settings, list(labels)
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._recordings = recordings
        self._splits: dict[str, list[Utterance]] = {}

    @classmethod
    def prepare(cls, settings: SpeechSettings) -> Speech:
        """Reads or synthesises the recordings, and makes strings of them."""
        _regularizer(settings)
        recordings = _read(settings)
        return cls(settings, sorted({each.label for each in recordings}), recordings)

    @classmethod
    def restore(cls, settings: SpeechSettings, assets: Mapping[str, Any]) -> Speech:
        """Makes the task from the labels of a checkpoint."""
        return cls(settings, assets["labels"])

    def assets(self) -> dict[str, Any]:
        return {"labels": self.labels}

    def examples(self, split: str) -> Sequence[Utterance]:
        """Returns the strings of a split; each split has recordings of its own."""
        if split not in self._splits:
            self._splits[split] = self._strings(split)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[Utterance]:
        """Makes an example of each line, which is the path of a WAV file."""
        return [Utterance((), (), "", read_wav(Path(line.strip()))) for line in lines]

    def length(self, example: Utterance) -> int:
        """Returns the number of samples."""
        if example.samples is not None:
            return len(example.samples)
        return sum(example.pauses) + sum(len(self._all()[part].samples) for part in example.parts)

    def fingerprint(self, example: Utterance) -> str:
        """Returns a checksum of the sound, and the words."""
        return f"{zlib.crc32(self._sound(example).tobytes())} {example.target}"

    def model(self) -> nn.Module:
        """Returns the recogniser that the settings name."""
        settings = self.settings
        encoder = SpeechEncoder(
            settings.hidden_size, n_layers=settings.n_layers, stacked=settings.stacked, dropout=settings.dropout
        )
        if settings.model == "ctc":
            return CTCRecognizer(encoder, len(self.labels), regularizer=self._regularizer)
        attention = self._attention(encoder.out_features)
        cell = nn.LSTMCell if settings.decoder == "lstm" else LastWordCell
        window = settings.window if settings.model == "location" and settings.window else None
        return AttentionRecognizer(encoder, len(self.labels), attention, settings.hidden_size, cell=cell, window=window)

    def _attention(self, key_size: int) -> nn.Module:
        query_size, normalizer = self.settings.hidden_size, self._regularizer
        if self.settings.model == "content":
            return Attention(Additive(query_size, key_size, query_size), normalizer=normalizer)
        if self.settings.model == "location":
            width = self.settings.location_width
            return LocationAware(
                query_size, key_size, query_size, n_filters=_FILTERS, width=width, normalizer=normalizer
            )
        if self.settings.model == "gaussian":
            window = GaussianMixtureAttention(query_size, _COMPONENTS, normalizer=normalizer)
            _begin_with_words(window, _WORD / self.settings.stacked)
            return window
        score = Additive(query_size, key_size, query_size)
        return MonotonicAttention(score, regularizer=normalizer, offset=_OFFSET, noise=_NOISE)

    def collate(self, examples: Sequence[Utterance]) -> SpeechBatch:
        sounds = [torch.from_numpy(self._sound(example)) for example in examples]
        words = [[self._numbers.get(word, 0) for word in example.target.split()] for example in examples]
        if self.settings.model != "ctc":
            words = [[*row, len(self.labels)] for row in words]
        longest = max(1, max(map(len, words)))
        return SpeechBatch(
            nn.utils.rnn.pad_sequence(sounds, batch_first=True),
            torch.tensor([len(sound) for sound in sounds]),
            torch.tensor([row + [0] * (longest - len(row)) for row in words]),
            torch.tensor([len(row) for row in words]),
        )

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Loss:
        """Computes the negative log-likelihood of the words, or CTC smoothed by another Ω."""
        n_items = int(batch.n_labels.sum())
        if self.settings.model == "ctc":
            log_probs, lengths = model(batch)
            loss = CTCLoss(0, "sum", True, regularizer=self._regularizer)
            return Loss(loss(log_probs.transpose(0, 1), batch.labels + 1, lengths, batch.n_labels), n_items)
        scores = model(batch)
        real = torch.arange(scores.shape[1], device=scores.device) < batch.n_labels.unsqueeze(-1)
        return Loss(nn.functional.cross_entropy(scores[real], batch.labels[real], reduction="sum"), n_items)

    def predict(self, model: nn.Module, examples: Sequence[Utterance]) -> list[str]:
        """Returns the words of each utterance, with spaces between them."""
        batch = self.batch_for(model, examples)
        if isinstance(model, CTCRecognizer):
            found = [[label - 1 for label in each.labels] for each in model.head.best_path(*model(batch))]
        else:
            assert isinstance(model, AttentionRecognizer)
            found = [each.labels for each in model.write(batch, self.settings.max_length)]
        return [" ".join(self.labels[number] for number in row) for row in found]

    def score(self, examples: Sequence[Utterance], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the error rate of words: insertions, deletions and substitutions over the words that were said."""
        said, heard = [example.target.split() for example in examples], [line.split() for line in predictions]
        n_words, n_errors = sum(map(len, said)), sum(edit_distances(heard, said))
        error = n_errors / max(1, n_words)
        right = sum(map(list.__eq__, said, heard)) / max(1, len(said))
        return {"accuracy": 1 - error, "word_error": 100 * error, "sentence_accuracy": right}

    def attend(self, model: nn.Module, examples: Sequence[Utterance]) -> list[AttentionMap]:
        """Returns for each word that was heard where it is in the sound; columns are times in seconds."""
        batch = self.batch_for(model, examples)
        n_frames = ((batch.n_samples - 200).clamp(min=0) // 80 + self.settings.stacked) // self.settings.stacked
        maps = []
        for item, (words, weights) in enumerate(self._alignments(model, batch)):
            length = int(n_frames[item])
            times = [f"{0.01 * self.settings.stacked * frame:.2f}" for frame in range(length)]
            maps.append(AttentionMap(words, times, weights[:, :length], self._regularizer.always_positive))
        return maps

    def draw(self, model: nn.Module, examples: Sequence[Utterance]) -> list[Any]:
        """Returns a figure for each sound: its spectrogram, and where each word is in it."""
        from omegamax.plots import sound_attention

        batch, figures = self.batch_for(model, examples), []
        assert isinstance(model, CTCRecognizer | AttentionRecognizer)
        for item, found in enumerate(self.attend(model, examples)):
            figures.append(
                sound_attention(
                    found.weights,
                    model.encoder.features(batch.samples[item, : batch.n_samples[item]]),
                    found.rows,
                    seconds=0.01 * self.settings.stacked * len(found.columns),
                    title=f"{self.settings.model}, {self.settings.attention}",
                    exact_zeros=not found.always_positive,
                )
            )
        return figures

    def _alignments(self, model: nn.Module, batch: SpeechBatch) -> list[tuple[list[str], Tensor]]:
        """Returns the words that were heard, and the weights (words, T) of each over time."""
        if isinstance(model, AttentionRecognizer):
            written = model.write(batch, self.settings.max_length)
            return [([*(self.labels[label] for label in each.labels), "end"], each.weights) for each in written]
        assert isinstance(model, CTCRecognizer)
        log_probs, lengths = model(batch)
        found = []
        for item, heard in enumerate(model.head.best_path(log_probs, lengths)):
            row, words = log_probs[item, : lengths[item]], [self.labels[label - 1] for label in heard.labels]
            if not words:
                found.append((["nothing"], row.new_zeros(1, len(row))))
                continue
            potentials = CTC.from_log_probs(row, torch.tensor(heard.labels))
            marginals = CTC().argmax(potentials, self._regularizer)
            found.append((words, marginals.emissions[:, 1::2].T))  # the states of labels, without those of blanks
        return found

    def _all(self) -> Sequence[Recording]:
        if self._recordings is None:
            self._recordings = _read(self.settings)
        return self._recordings

    def _sound(self, example: Utterance) -> np.ndarray:
        if example.samples is not None:
            return example.samples
        pieces: list[np.ndarray] = []
        for part, pause in zip(example.parts, example.pauses):
            pieces += [np.zeros(pause, np.float32), self._all()[part].samples]
        return np.concatenate(pieces)

    def _strings(self, split: str) -> list[Utterance]:
        """Draws the strings of a split from its own recordings."""
        settings, recordings = self.settings, self._all()
        by_speaker: dict[str, dict[str, list[int]]] = {}
        for place in _places(recordings)[split]:
            each = recordings[place]
            by_speaker.setdefault(each.speaker, {}).setdefault(each.label, []).append(place)
        if not by_speaker:
            raise ValueError(
                f"{settings.data}: expected recordings for {split}, got none; record every word more often"
            )
        seed = [abs(settings.data_seed), settings.data_seed < 0, ("train", "dev", "test").index(split)]
        draw = np.random.default_rng(seed)
        count = settings.strings if split == "train" else max(_MIN_STRINGS, settings.strings // 10)
        found = []
        for _ in range(count):
            words = by_speaker[sorted(by_speaker)[draw.integers(len(by_speaker))]]
            n_words = settings.test_words if split == "test" else int(draw.integers(1, settings.max_words + 1))
            said = [sorted(words)[draw.integers(len(words))] for _ in range(n_words)]
            parts = tuple(words[label][draw.integers(len(words[label]))] for label in said)
            pauses = tuple(draw.integers(_LONGEST_PAUSE, size=n_words).tolist())
            found.append(Utterance(parts, pauses, " ".join(said)))
        return found


def _begin_with_words(window: GaussianMixtureAttention, length: float) -> None:
    """Lets a window of one frame that moves by one frame begin as wide as a word, and move by a word."""
    _, log_beta, log_step = window.of_query.bias.detach().chunk(3)  # of exp(−β (κ − u)²), and of how far κ moves
    log_beta.fill_(-math.log(2 * (length / 4) ** 2))
    log_step.fill_(math.log(length))


def _regularizer(settings: SpeechSettings) -> SmoothMax:
    """Returns Ω of attention, or of the sum over alignments, which takes some only."""
    found = make_normalizer(settings)
    if settings.model == "ctc":
        try:
            smoothing_of("ctc", found)
        except ValueError as error:
            raise ValueError(f"speech: attention {settings.attention} is not for the model ctc: {error}") from None
    return found


def _read(settings: SpeechSettings) -> list[Recording]:
    if settings.data is None:
        return synthesise_recordings(settings.recordings, seed=settings.data_seed)
    return read_recordings(settings.data)


def _places(recordings: Sequence[Recording]) -> dict[str, list[int]]:
    """Divides recordings: an index below 5 is for test, a tenth of the other indices for dev, the rest for training."""
    others = sorted({each.number for each in recordings if each.number >= N_TEST})
    for_dev = set(others[: max(1, len(others) // 10)])
    splits: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for place, each in enumerate(recordings):
        split = "test" if each.number < N_TEST else "dev" if each.number in for_dev else "train"
        splits[split].append(place)
    return splits
