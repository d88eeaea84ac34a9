"""The interface between a recipe and the training loop: its data, its model, its loss and its metrics.

The loop (loop.py) is the same for texts and trees: it gets examples from a `Task`, gathers them into batches, and adds
up losses. Evaluation is `score(examples, assess(model, examples))`, where `assess` is `predict` unless a task measures
something else, so that processes can share the work.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn


class Loss(NamedTuple):
    """The sum of a batch's losses and the number of its items.

    The loop divides one by the other, so that parts of a batch and several processes give one mean.
    """

    total: Tensor  # scalar, the sum over the batch's items
    n_items: int  # tokens, tags, pairs


class AttentionMap(NamedTuple):
    """The attention weights of a model while it made one output."""

    rows: Sequence[str]  # output tokens
    columns: Sequence[str]  # input tokens
    weights: Tensor  # (rows, columns), or (heads, rows, columns)
    always_positive: bool = False  # as softmax's: a weight of 0 was rounded and is not exactly zero


def move_to(batch: Any, device: torch.device) -> Any:
    """Returns the batch with its tensors on a device; a batch is a tensor, or tuples, lists and dicts of them."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(move_to(item, device) for item in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(move_to(item, device) for item in batch)
    if isinstance(batch, dict):
        return {key: move_to(item, device) for key, item in batch.items()}
    return batch


class Task(ABC):
    """One problem with its data.

    `settings` are chosen by the user; `assets` are computed from the training data, as vocabularies are.
    """

    name: ClassVar[str]  # of a recipe, on the command line and in checkpoints; a class of your own needs none
    metric: ClassVar[str]  # the entry of `score` that early stopping and the best checkpoint watch; higher is better
    settings_type: ClassVar[type]  # the class of `settings`, from which a checkpoint's values are read back
    settings: Any  # a frozen dataclass of plain values
    prediction_type: ClassVar[type | None] = None  # the class of `prediction`; its fields are options of `predict`
    reads_single_lines: ClassVar[bool] = True  # whether each line is one example; else `read` gets the whole input
    inspects_quickly: ClassVar[bool] = False  # whether `inspect` takes about as long as `assess`
    keeps_line_ends: ClassVar[bool] = False  # whether `read` gets lines with a carriage return, if they have one
    prediction: Any = None  # how `read` reads input and `predict` writes output, where a task can do so in several ways

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any) -> Task:
        """Makes a task from data: reads or generates the splits and counts their vocabularies."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: Any, assets: Mapping[str, Any]) -> Task:
        """Makes a task from a checkpoint, ready to predict; it reads the data only if `examples` is called."""

    @abstractmethod
    def assets(self) -> dict[str, Any]:
        """Returns plain JSON values from which `restore` makes the same task."""

    @abstractmethod
    def examples(self, split: str) -> Sequence[Any]:
        """Returns the examples of "train", "dev" or "test", always in the same order."""

    @abstractmethod
    def read(self, lines: Iterable[str]) -> list[Any]:
        """Makes examples without targets from lines that a user wrote."""

    @abstractmethod
    def length(self, example: Any) -> int:
        """Returns how long an example's input is; a batch has examples of about the same length."""

    def batch_lengths(self, examples: Sequence[Any]) -> Sequence[Sequence[int]]:
        """Returns of each example the lengths that its tensors have in a batch, those that cost most first.

        Training makes batches of examples that are alike in them. By default there is one, that of the input.
        """
        return [(self.length(example),) for example in examples]

    @abstractmethod
    def model(self) -> nn.Module:
        """Returns a new model, whose parameters come from PyTorch's global generator, which the loop has seeded."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Any:
        """Makes a batch of examples: a NamedTuple of tensors."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """Computes the loss of a batch. It calls `model(...)`, not other methods, so that the model may be wrapped.

        Every parameter that requires a gradient must take part, or several processes would wait for it forever. The
        output of the model must not be changed in place.
        """

    @abstractmethod
    def predict(self, model: nn.Module, examples: Sequence[Any]) -> list[str]:
        """Returns a line of output for each example of one batch; the model is in eval mode, without gradients."""

    def assess(self, model: nn.Module, examples: Sequence[Any]) -> list[str]:
        """Returns a line for each example of one batch, from which `score` computes the metrics: the predictions.

        Override it if the metrics are not those of outputs, as the likelihood of a text is not. A line must not depend
        on the other examples of the batch. Reports show what stands before its first tab.
        """
        return self.predict(model, examples)

    def inspect(self, model: nn.Module, examples: Sequence[Any]) -> list[str] | None:
        """Returns lines as `assess` does, with more in them, for `omegamax evaluate`; None if there is no more to say.

        Override it if some metrics take too long to be computed after every epoch.
        """
        return None

    @abstractmethod
    def score(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
        """Returns the metrics of predictions, or of the lines of `assess`, by name, the watched metric first."""

    def signatures(self, examples: Sequence[Any]) -> dict[str, str]:
        """Returns how metrics of these examples are computed, by their names, where somebody may want to know.

        `omegamax evaluate --json` prints them beside the numbers.
        """
        return {}

    @abstractmethod
    def attend(self, model: nn.Module, examples: Sequence[Any]) -> list[AttentionMap]:
        """Returns the attention of the model on each example; an empty list if it has no attention."""

    def draw(self, model: nn.Module, examples: Sequence[Any]) -> list[Any]:
        """Returns a figure for each example if the task has a picture of its own, such as a tree; otherwise nothing."""
        return []

    def draw_scores(self, examples: Sequence[Any], lines: Sequence[str]) -> dict[str, Any]:
        """Returns figures of the metrics by name, from the lines of `inspect`; none by default."""
        return {}

    def tokenizer_files(self) -> dict[str, bytes]:
        """Returns files by name, for other programs, that an exported model has beside `assets`; none by default."""
        return {}

    def rate_factor(self, name: str) -> float:
        """Returns what the learning rate of the parameter of this name is multiplied by."""
        return 1.0

    def fingerprint(self, example: Any) -> str:
        """Returns a text that changes if the example does, so that a resumed run notices other data.

        By default it is the length, which rarely changes: a task should return all of the example.
        """
        return str(self.length(example))

    def batch_for(self, model: nn.Module, examples: Sequence[Any]) -> Any:
        """Returns the batch of these examples on the device of the model."""
        parameter = next(model.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        return move_to(self.collate(examples), device)

    def blocks(self, model: nn.Module) -> Sequence[nn.Module]:
        """Returns the parts that FSDP may shard one by one; each must be called as a module, not by other methods."""
        return ()


def task_name(task: type[Task]) -> str:
    """Returns the name of a task in checkpoints: that of a recipe, or module and class of a task of your own."""
    return vars(task).get("name") or f"{task.__module__}:{task.__qualname__}"  # a subclass of a recipe is not it


def data_digest(task: Task, *splits: Sequence[Any]) -> str:
    """Returns a checksum of the examples that training depends on."""
    content = hashlib.sha256()
    for examples in splits:
        content.update(f"{len(examples)}\n".encode())
        for example in examples:
            content.update(f"{task.fingerprint(example)}\n".encode())
    return content.hexdigest()
