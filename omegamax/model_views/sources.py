"""Where the attention on the page comes from: trained runs; `hugging_face.py` has models of Hugging Face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from omegamax.comparisons.examples import spread_out
from omegamax.errors import DataError
from omegamax.model_views.encoding import AttentionLayers
from omegamax.recipes.tasks import load, read_examples, read_split
from omegamax.training.prediction import TrainedModel
from omegamax.training.task import AttentionMap

_N_SHOWN = 4  # test examples, where no input is given


class ModelAttention(NamedTuple):
    """The attention of one model on one input."""

    text: str  # the input
    parts: Sequence[AttentionLayers]  # one, or encoder, decoder and cross attention
    note: str = ""  # what the reader should know, such as that the input was too long


class Source(ABC):
    """A model with attention."""

    name: str  # of the run or the folder
    normalizer: str  # "sparsemax", ...; "" if it has no name

    @abstractmethod
    def attend(self, lines: Sequence[str]) -> list[ModelAttention]:
        """Returns the attention on each input; raises DataError for one that cannot be read."""

    @abstractmethod
    def attend_to_examples(self) -> list[ModelAttention]:
        """Returns the attention on a few test examples of the model; raises DataError if it has none."""


class RunSource(Source):
    """A trained run of one of the recipes.

    Arguments:
        path: the directory of the run, or of a checkpoint
        which: "best" or "latest", the checkpoint of the run
        device: where the model computes
    """

    def __init__(self, path: Path | str, *, which: str = "best", device: str | torch.device = "cpu") -> None:
        self._found: TrainedModel = load(path, which=which, device=device)
        settings = self._found.task.settings
        self.name = Path(path).resolve().name
        self.normalizer = str(getattr(settings, "attention", "") or getattr(settings, "loss", ""))
        self._n_heads = getattr(settings, "n_heads", 1)

    def attend(self, lines: Sequence[str]) -> list[ModelAttention]:
        """Returns the attention on each line."""
        examples = read_examples(self._found.task, lines)
        texts = lines if len(examples) == len(lines) else [""] * len(examples)  # a text in CoNLL-U has many lines
        return self._attend(examples, texts)

    def attend_to_examples(self) -> list[ModelAttention]:
        """Returns the attention on a few examples of the test split, from short to long."""
        task = self._found.task
        examples = read_split(task, "test")
        places = spread_out([task.length(example) for example in examples], _N_SHOWN)
        return self._attend([examples[place] for place in places], [""] * len(places))

    def _attend(self, examples: Sequence[Any], texts: Sequence[str]) -> list[ModelAttention]:
        task, model = self._found.task, self._found.model
        maps: list[AttentionMap] = []
        with torch.no_grad():
            for example in examples:  # one at a time: several long ones might not fit into memory
                maps += task.attend(model, [example])
        if examples and not maps:
            raise DataError(f"{self.name} has no attention to show; it reads one fixed vector")
        return [ModelAttention(text or _joined(each.columns), [self._layers(each)]) for each, text in zip(maps, texts)]

    def _layers(self, each: AttentionMap) -> AttentionLayers:
        weights = each.weights
        if weights.dim() == 2:
            weights = weights.unsqueeze(0)
        n_maps = weights.shape[0]  # of all heads of all layers, one after the other
        n_heads = self._n_heads if n_maps % self._n_heads == 0 else n_maps
        weights = weights.reshape(-1, n_heads, *weights.shape[1:])
        return AttentionLayers("", each.rows, each.columns, weights, not each.always_positive)


def _joined(tokens: Sequence[str]) -> str:
    """Returns the tokens as a text: characters without spaces, words with them."""
    plain = [token for token in tokens if not token.startswith("<")]  # "<fr>" is neither
    return ("" if all(len(token) == 1 for token in plain) else " ").join(tokens)
