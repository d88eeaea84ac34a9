"""A trained model from its run directory or one of its checkpoints, for prediction, evaluation and attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.printable import quoted
from omegamax.errors import CheckpointError
from omegamax.recipes import TASKS, resolve
from omegamax.training import checkpoints as checkpoint
from omegamax.training import random_state
from omegamax.training.checkpoints import Card
from omegamax.training.model_size import sketch
from omegamax.training.runs import best_checkpoint, list_checkpoints
from omegamax.training.settings import revive
from omegamax.training.task import Task

_ATTEMPTS = 3  # a run that is still training may replace a checkpoint while it is read


class Loaded(NamedTuple):
    """A task and its model, in eval mode."""

    task: Task
    model: nn.Module
    card: Card  # settings, position, metrics
    path: Path  # of the checkpoint


def load(
    path: Path | str, *, which: str = "best", task: type[Task] | None = None, device: str | torch.device = "cpu"
) -> Loaded:
    """Reads a run's best or latest checkpoint, or the checkpoint at a path.

    `task` is the class of a task that is not one of omegamax's own recipes: a checkpoint's word is not enough to
    import code.
    """
    path = Path(path)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            chosen = _choose(path, which)
            card, files = checkpoint.read_card(chosen)
            tensors = checkpoint.read_tensors(chosen, files, checkpoint.MODEL)
            break
        except CheckpointError:
            if attempt == _ATTEMPTS:
                raise
    restored = _restore(chosen, card, task or _recipe(chosen, card))
    model = _model(chosen, restored, tensors)
    checkpoint.load_model(model, tensors, chosen)
    return Loaded(restored, model.to(device).eval(), card, chosen)


def task_name(task: type[Task]) -> str:
    """A recipe's name on the command line, or the class's own name."""
    own = f"{task.__module__}:{task.__qualname__}"
    return next((name for name, entry in TASKS.items() if entry.task == own), own)


def _choose(path: Path, which: str) -> Path:
    if (path / checkpoint.CARD).exists():
        return path
    if which not in ("best", "latest"):
        raise ValueError(f"load: which must be best or latest, got {which!r}")
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a directory; give the --out of a training run")
    found = best_checkpoint(path) if which == "best" else next(reversed(list_checkpoints(path)), None)
    if found is None:
        raise CheckpointError(f"{path} has no checkpoint yet; train it first, or give the --out of a training run")
    return found


def _recipe(path: Path, card: Card) -> type[Task]:
    if card.task not in TASKS:
        raise CheckpointError(
            f"{path} is of the task {quoted(card.task)}, which is not one of {', '.join(TASKS)}; "
            "load it in Python with load(path, task=ItsClass)"
        )
    return resolve(TASKS[card.task].task)


def _model(path: Path, task: Task, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A model for the tensors; shapes are compared before memory is taken, since settings may ask for too much."""
    try:
        with random_state.apart(0):  # initial values are drawn, and then replaced
            shapes = sketch(task)
            if shapes is not None:
                checkpoint.check_model(shapes, tensors, path)
            return task.model()
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise CheckpointError(f"{path} has settings of which no model can be made ({error})") from error


def _restore(path: Path, card: Card, task: type[Task]) -> Task:
    try:
        return task.restore(revive(task.settings_type, card.settings), card.assets)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError) as error:
        said: Any = str(error) or type(error).__name__
        raise CheckpointError(f"{path} does not fit the task {task.__name__} ({said})") from error
