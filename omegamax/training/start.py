"""The model, the optimiser and the random numbers at the beginning of a run, or as a checkpoint left them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.data.printable import quoted
from omegamax.errors import CheckpointError
from omegamax.training import checkpoints as checkpoint
from omegamax.training import random_state
from omegamax.training.optimizer import adamw, load_optimizer
from omegamax.training.processes import Crew, bare, spread
from omegamax.training.settings import TrainingSettings, revive
from omegamax.training.task import Task
from omegamax.training.training_state import TrainingState

# Streams of random numbers, apart from each other: of initial values, of each process's dropout, of evaluations, and of
# the dropout of a run that is resumed by another number of processes.
INITIAL, DROPOUT, EVALUATION, REGROUPED = range(4)
_RANDOM = re.compile(r"random\.(0|[1-9][0-9]{0,5})\.(\w+)")  # tensors with the random numbers of a process


def fresh(task: Task, settings: TrainingSettings, crew: Crew) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model to train, the same on every process, and its optimiser."""
    model, optimizer = _spread(task, _model(task, settings, crew), settings, crew)
    random_state.seed_all(settings.seed, DROPOUT, crew.rank)
    return model, optimizer


def resumed(
    task: Task, settings: TrainingSettings, crew: Crew, path: Path, *, n_batches: int
) -> tuple[nn.Module, torch.optim.Optimizer, TrainingState]:
    """The same as when the checkpoint was written."""
    card, sums = checkpoint.read_card(path)
    model = _model(task, settings, crew)
    checkpoint.load_model(model, _tensors(path, sums, checkpoint.MODEL), path)
    spread_model, optimizer = _spread(task, model, settings, crew)
    tensors = _tensors(path, sums, checkpoint.TRAINING)
    try:
        state = revive(TrainingState, {"threads": 0, **card.state})  # checkpoints of 0.1.0 have no such number
        state.check(n_batches)
        moments = {name: tensors.pop(name) for name in list(tensors) if name.startswith("optimizer.")}
        load_optimizer(bare(spread_model), optimizer, moments)
        _check_names(tensors, card.n_processes)
        if card.n_processes == crew.size:
            mine = f"random.{crew.rank}."
            random_state.restore({name[len(mine) :]: t for name, t in tensors.items() if name.startswith(mine)})
        else:  # other processes than before have other shares: their random numbers begin anew
            random_state.seed_all(settings.seed, REGROUPED, crew.rank, state.step)
    except ValueError as error:
        raise CheckpointError(f"{path} cannot be resumed: {error}") from error
    return spread_model, optimizer, state


def _model(task: Task, settings: TrainingSettings, crew: Crew) -> nn.Module:
    random_state.seed_all(settings.seed, INITIAL)
    return task.model().to(crew.device)


def _tensors(path: Path, sums: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    try:
        return checkpoint.read_tensors(path, sums, name)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; delete {path} to resume from the checkpoint before it") from error


def _check_names(tensors: Mapping[str, Tensor], n_processes: int) -> None:
    """What is left beside the optimiser's are the random numbers of every process."""
    for name in sorted(tensors):
        match = _RANDOM.fullmatch(name)
        if match is None or int(match[1]) >= n_processes or match[2] not in random_state.NAMES:
            raise ValueError(f"{checkpoint.TRAINING} has an unknown tensor {quoted(name)}")


def _spread(
    task: Task, model: nn.Module, settings: TrainingSettings, crew: Crew
) -> tuple[nn.Module, torch.optim.Optimizer]:
    spread_model = spread(task, model, crew, sharding=settings.sharding)
    return spread_model, adamw(bare(spread_model), settings)
