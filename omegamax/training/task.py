"""What a recipe tells the training loop: its data, its model, its loss and its numbers.

The loop (loop.py) knows nothing of texts or trees: it asks a `Task` for examples, gathers them into batches, and adds
up losses. Evaluation is `score(examples, predict(model, examples))`, so that predictions can be spread over processes.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn


class Loss(NamedTuple):
    """A sum and what it counts: the loop divides, so that parts of a batch and processes give one mean."""

    total: Tensor  # scalar, the sum over the batch's items
    n_items: int  # tokens, tags, pairs


class AttentionMap(NamedTuple):
    """Where a model looked while it made one output."""

    rows: Sequence[str]  # output tokens
    columns: Sequence[str]  # input tokens
    weights: Tensor  # (rows, columns), or (heads, rows, columns)
    always_positive: bool = False  # as softmax's: a weight of 0 was rounded and is not exactly zero


def place(batch: Any, device: torch.device) -> Any:
    """The same batch with its tensors on a device: tensors, and tuples, lists and dictionaries of them."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(place(item, device) for item in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(place(item, device) for item in batch)
    if isinstance(batch, dict):
        return {key: place(item, device) for key, item in batch.items()}
    return batch


class Task(ABC):
    """One problem with its data. Settings are plain values; what data taught (vocabularies) is in `assets`."""

    metric: ClassVar[str]  # the entry of `score` that early stopping and the best checkpoint watch; higher is better
    settings_type: ClassVar[type]  # the class of `settings`, from which a checkpoint's values are read back
    settings: Any  # a frozen dataclass of plain values

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any) -> Task:
        """From data: reads or makes the splits and their vocabularies."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: Any, assets: Mapping[str, Any]) -> Task:
        """From a checkpoint: ready to predict; the data is read only if `examples` is called."""

    @abstractmethod
    def assets(self) -> dict[str, Any]:
        """Plain JSON values from which `restore` makes the same task."""

    @abstractmethod
    def examples(self, split: str) -> Sequence[Any]:
        """The examples of "train", "dev" or "test", always in the same order."""

    @abstractmethod
    def read(self, lines: Iterable[str]) -> list[Any]:
        """Examples without targets from a user's own input."""

    @abstractmethod
    def length(self, example: Any) -> int:
        """How long an example's input is: batches have examples of about the same length."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A fresh model; its parameters are drawn from PyTorch's global generator, which the loop has seeded."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Any:
        """A batch: a NamedTuple of tensors."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """To be minimised. Calls `model(...)` itself, not its methods, so that it may be wrapped.

        Every parameter that requires a gradient takes part, or several processes would wait for it in vain. What the
        model returns is not changed in place.
        """

    @abstractmethod
    def predict(self, model: nn.Module, examples: Sequence[Any]) -> list[str]:
        """One line of output for each example of one batch, from `batch_for`; in eval mode, without gradients."""

    @abstractmethod
    def score(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
        """Metrics by name, the watched one first."""

    @abstractmethod
    def attend(self, model: nn.Module, examples: Sequence[Any]) -> list[AttentionMap]:
        """Where the model looks while it predicts each example; empty where it has no attention."""

    def fingerprint(self, example: Any) -> str:
        """By which data that has changed is noticed when a run is resumed: the length, where a task knows no better."""
        return str(self.length(example))

    def batch_for(self, model: nn.Module, examples: Sequence[Any]) -> Any:
        """`collate`, placed where the model is."""
        parameter = next(model.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        return place(self.collate(examples), device)

    def blocks(self, model: nn.Module) -> Sequence[nn.Module]:
        """Parts that FSDP may shard one by one; each must be called as a module, never by its other methods."""
        return ()


def data_digest(task: Task, *splits: Sequence[Any]) -> str:
    """A checksum of the data that decides how training goes on."""
    content = hashlib.sha256()
    for examples in splits:
        content.update(f"{len(examples)}\n".encode())
        for example in examples:
            content.update(f"{task.fingerprint(example)}\n".encode())
    return content.hexdigest()
