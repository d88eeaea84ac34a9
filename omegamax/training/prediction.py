"""Restores a trained model from a checkpoint, predicts with it, and evaluates the predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.errors import CheckpointError
from omegamax.training import checkpoints, exports, random_state
from omegamax.training.checkpoints import Card
from omegamax.training.processes import SINGLE_PROCESS, Processes
from omegamax.training.resources import model_shapes
from omegamax.training.runs import best_checkpoint, list_checkpoints
from omegamax.training.settings import from_dict
from omegamax.training.task import Task

_ATTEMPTS = 3  # a run that is still training may replace a checkpoint while it is read


class SavedModel(NamedTuple):
    """The parameters of a checkpoint and its card, before a model is made of them."""

    path: Path
    card: Card
    tensors: dict[str, Tensor]


class TrainedModel(NamedTuple):
    """A task and its model, in eval mode."""

    task: Task
    model: nn.Module
    card: Card  # settings, counters, metrics
    path: Path  # of the checkpoint


def read_saved_model(path: Path, which: str = "best", *, average: int = 1) -> SavedModel:
    """Reads the best or the latest checkpoint of a run directory, or the checkpoint or exported model at a path.

    With `average` above 1, parameters are the means of those of that many latest checkpoints, which a run with `keep`
    has: steps of stochastic gradients scatter around a point that is often better than each of them.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _read_saved_model(path, which, average)
        except CheckpointError:
            continue
    return _read_saved_model(path, which, average)


def _read_saved_model(path: Path, which: str, average: int) -> SavedModel:
    if exports.is_export(path):
        if average != 1:
            raise CheckpointError(f"{path} is an exported model, not the checkpoints of a run; leave --average out")
        return SavedModel(path, *exports.read_export(path))
    chosen = _choose_checkpoint(path, which if average == 1 else "latest")
    card, files = checkpoints.read_card(chosen)
    if average == 1:
        return SavedModel(chosen, card, checkpoints.read_tensors(chosen, files, checkpoints.MODEL_FILE))
    found = [] if chosen == path else list_checkpoints(path)
    keep = card.training.get("keep")
    found = found[-keep:] if type(keep) is int and keep > 0 else found  # one before them is the best, not of the latest
    if len(found) < average:
        raise CheckpointError(
            f"{path} has {len(found) or 1} checkpoints, and {average} are to be averaged; train it with "
            f"--keep {average}, or average fewer"
        )
    return SavedModel(chosen, card, _average([_read_parameters(each, card) for each in found[-average:]], chosen))


def _read_parameters(path: Path, card: Card) -> dict[str, Tensor]:
    other, files = checkpoints.read_card(path)
    if other.run != card.run:
        raise CheckpointError(f"{path} is of another run than the latest checkpoint beside it; average fewer")
    return checkpoints.read_tensors(path, files, checkpoints.MODEL_FILE)


def _average(parts: Sequence[Mapping[str, Tensor]], path: Path) -> dict[str, Tensor]:
    """Returns the mean of each tensor, in float64; the last one of tensors that are not floating, such as counts."""
    last = parts[-1]
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in last.items()}
    if any({name: (tensor.shape, tensor.dtype) for name, tensor in part.items()} != shapes for part in parts):
        raise CheckpointError(f"{path} has other tensors than the checkpoints before it; average fewer")
    return {
        name: torch.stack([part[name].double() for part in parts]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in last.items()
    }


def _choose_checkpoint(path: Path, which: str) -> Path:
    if (path / checkpoints.CARD_FILE).exists():
        return path
    if which not in ("best", "latest"):
        raise ValueError(f"load: which must be best or latest, got {which!r}")
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a directory; give the --out of a training run")
    found = best_checkpoint(path) if which == "best" else next(reversed(list_checkpoints(path)), None)
    if found is None:
        raise CheckpointError(f"{path} has no checkpoint yet; train it first, or give the --out of a training run")
    return found


def restore_model(saved: SavedModel, task: type[Task], device: str | torch.device = "cpu") -> TrainedModel:
    """Makes the task and the model of a checkpoint."""
    path, card, tensors = saved
    restored = _restore_task(path, card, task)
    model = _make_model(path, restored, tensors)
    checkpoints.load_model_tensors(model, tensors, path)
    return TrainedModel(restored, model.to(device).eval(), card, path)


def _restore_task(path: Path, card: Card, task: type[Task]) -> Task:
    try:
        return task.restore(from_dict(task.settings_type, card.settings), card.assets)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError) as error:
        reason = str(error) or type(error).__name__
        raise CheckpointError(f"{path} does not fit the task {task.__name__} ({reason})") from error


def _make_model(path: Path, task: Task, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Makes a model for the tensors. Shapes are compared before memory is taken: settings may need too much."""
    try:
        with random_state.isolated(0):  # initial values are drawn, and then replaced
            shapes = model_shapes(task)
            if shapes is not None:
                checkpoints.check_model_tensors(shapes, tensors, path)
            return task.model()
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise CheckpointError(f"{path} has settings of which no model can be made ({error})") from error


def predict(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    processes: Processes = SINGLE_PROCESS,
    on_batch: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Returns one line per example, in order, on every process.

    The examples are predicted in batches of like length, which the processes share. The batches do not depend on the
    number of processes, so neither do the predictions. `on_batch(n_done, n_all)` is called after each batch of this
    process.
    """
    return write_lines(task, task.predict, model, examples, batch_size, processes, on_batch)


def assess(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    processes: Processes = SINGLE_PROCESS,
    on_batch: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Returns the line of each example from which the task computes its metrics, as `predict` does its outputs."""
    return write_lines(task, task.assess, model, examples, batch_size, processes, on_batch)


def inspect(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    processes: Processes = SINGLE_PROCESS,
    on_batch: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Returns the lines of the task's `inspect`, as `assess` does those of its `assess`."""
    return write_lines(task, task.inspect, model, examples, batch_size, processes, on_batch)


def write_lines(
    task: Task,
    write: Callable[[nn.Module, Sequence[Any]], list[str] | None],
    model: nn.Module,
    examples: Sequence[Any],
    batch_size: int = 64,
    processes: Processes = SINGLE_PROCESS,
    on_batch: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Returns one line per example, in order, that `write` makes of a model and the examples of a batch."""
    order = sorted(range(len(examples)), key=lambda at: task.length(examples[at]))
    batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
    batches = batches[processes.rank :: processes.size]
    mine: list[tuple[int, str]] = []
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for n_done, batch in enumerate(batches, start=1):
                lines = write(model, [examples[at] for at in batch])
                if lines is None or len(lines) != len(batch):
                    raise ValueError(
                        f"{type(task).__name__}.{write.__name__} must return a line for each of {len(batch)} examples, "
                        f"got {None if lines is None else len(lines)}"
                    )
                mine += zip(batch, lines)
                if on_batch is not None:
                    on_batch(n_done, len(batches))
    finally:
        model.train(was_training)
    lines = [""] * len(examples)
    for part in processes.gather(mine):
        for at, line in part:
            lines[at] = line
    return lines


def evaluate(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    processes: Processes = SINGLE_PROCESS,
    on_batch: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Returns the task's metrics on examples with targets, the same on every process."""
    lines = assess(task, model, examples, batch_size=batch_size, processes=processes, on_batch=on_batch)
    return score_predictions(task, examples, lines, processes=processes)


def score_predictions(
    task: Task, examples: Sequence[Any], lines: Sequence[str], *, processes: Processes = SINGLE_PROCESS
) -> dict[str, float]:
    """Returns the task's metrics of the lines of `assess`, which all processes have."""
    return processes.on_rank_zero(lambda: {name: float(v) for name, v in task.score(examples, lines).items()})
