"""A small task with everything that a real one has: lengths, dropout, noise from three generators, a vocabulary."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.training.task import AttentionMap, Loss, Task

N_SYMBOLS = 5


@dataclass(frozen=True)
class SumsSettings:
    n_examples: int = 60
    features: int = 8
    dropout: float = 0.2
    noise: float = 0.1
    longest: int = 7


class Example(NamedTuple):
    symbols: list[int]
    sums: list[int]  # of each symbol and the one before it, modulo N_SYMBOLS


class Batch(NamedTuple):
    symbols: Tensor  # (batch, length), N_SYMBOLS is padding
    sums: Tensor  # (batch, length), -1 is padding


class Model(nn.Module):
    def __init__(self, settings: SumsSettings):
        super().__init__()
        self.embed = nn.Embedding(N_SYMBOLS + 1, settings.features)
        self.hidden = nn.Linear(2 * settings.features, 2 * settings.features)
        self.out = nn.Linear(2 * settings.features, N_SYMBOLS)
        self.dropout = nn.Dropout(settings.dropout)
        self.register_buffer("n_calls", torch.zeros((), dtype=torch.int64))

    def forward(self, symbols: Tensor) -> Tensor:
        if self.training:
            self.n_calls += 1
        here = self.embed(symbols)
        before = torch.cat([torch.zeros_like(here[:, :1]), here[:, :-1]], 1)
        return self.out(self.dropout(torch.tanh(self.hidden(torch.cat([here, before], -1)))))


class Sums(Task):
    metric = "accuracy"
    settings_type = SumsSettings

    def __init__(self, settings: SumsSettings, vocabulary: Sequence[str]):
        self.settings = settings
        self.vocabulary = list(vocabulary)

    @classmethod
    def prepare(cls, settings: SumsSettings) -> Sums:
        return cls(settings, [chr(ord("a") + number) for number in range(N_SYMBOLS)])

    @classmethod
    def restore(cls, settings: SumsSettings, assets: Mapping[str, Any]) -> Sums:
        return cls(settings, assets["vocabulary"])

    def assets(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary}

    def examples(self, split: str) -> list[Example]:
        numbers = np.random.default_rng(["train", "dev", "test"].index(split))
        n = self.settings.n_examples if split == "train" else self.settings.n_examples // 3
        lines = [numbers.integers(0, N_SYMBOLS, numbers.integers(1, self.settings.longest + 1)) for _ in range(n)]
        return [self._example(line.tolist()) for line in lines]

    def read(self, lines: Iterable[str]) -> list[Example]:
        return [self._example([self.vocabulary.index(letter) for letter in line.strip()]) for line in lines]

    def length(self, example: Example) -> int:
        return len(example.symbols)

    def model(self) -> nn.Module:
        return Model(self.settings)

    def collate(self, examples: Sequence[Example]) -> Batch:
        longest = max(map(self.length, examples))
        symbols = torch.full((len(examples), longest), N_SYMBOLS)
        sums = torch.full((len(examples), longest), -1)
        for row, example in enumerate(examples):
            symbols[row, : len(example.symbols)] = torch.tensor(example.symbols)
            sums[row, : len(example.sums)] = torch.tensor(example.sums)
        return Batch(symbols, sums)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        symbols = batch.symbols
        if random.random() < self.settings.noise and np.random.random() < 0.9:  # noqa: NPY002
            symbols = symbols.roll(1, 0)
        scores = model(symbols)
        total = nn.functional.cross_entropy(
            scores.flatten(0, 1), batch.sums.flatten(), ignore_index=-1, reduction="sum"
        )
        return Loss(total, int((batch.sums >= 0).sum()))

    def predict(self, model: nn.Module, examples: Sequence[Example]) -> list[str]:
        best = model(self.batch_for(model, examples).symbols).argmax(-1)
        _ = torch.rand(3), random.random(), np.random.random()  # noqa: NPY002  (evaluation may draw; it must not matter)
        return [" ".join(map(str, row[: self.length(example)].tolist())) for row, example in zip(best, examples)]

    def score(self, examples: Sequence[Example], predictions: Sequence[str]) -> dict[str, float]:
        pairs = [(a, b) for e, line in zip(examples, predictions) for a, b in zip(e.sums, map(int, line.split()))]
        exact = [" ".join(map(str, e.sums)) == line for e, line in zip(examples, predictions)]
        return {"accuracy": sum(a == b for a, b in pairs) / len(pairs), "exact": sum(exact) / len(exact)}

    def attend(self, model: nn.Module, examples: Sequence[Example]) -> list[AttentionMap]:
        return []

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        return [model.hidden]

    def _example(self, symbols: list[int]) -> Example:
        return Example(symbols, [(a + b) % N_SYMBOLS for a, b in zip(symbols, [0, *symbols])])
