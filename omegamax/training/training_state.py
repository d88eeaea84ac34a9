"""The state of a run: its counters, and its model, optimizer and random numbers, new or from a checkpoint."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.data.printable import short_repr
from omegamax.errors import CheckpointError
from omegamax.training import checkpoints, random_state
from omegamax.training.optimization import Plateau, load_optimizer, make_optimizer
from omegamax.training.processes import Processes, distribute_model, unwrap_model
from omegamax.training.settings import TrainingSettings, from_dict
from omegamax.training.task import Task

# Separate streams of random numbers: for initial values, for the dropout of each process, for evaluations, and for the
# dropout of a run that is resumed by another number of processes.
INITIAL, DROPOUT, EVALUATION, REGROUPED = range(4)
_RANDOM_TENSOR = re.compile(r"random\.(0|[1-9][0-9]{0,5})\.(\w+)")  # the random state of a process, in a checkpoint
_MAX_FLOAT = sys.float_info.max


def _count() -> Any:
    """Returns a field that counts something, from 0; a file may not make it larger than any run can reach."""
    return field(default=0, metadata={"least": 0, "most": 10**15})


def _number(default: float | None, least: float | None = 0.0) -> Any:
    """Returns a field with a finite number."""
    return field(default=default, metadata={"least": -_MAX_FLOAT if least is None else least, "most": _MAX_FLOAT})


@dataclass
class TrainingState:
    """The counters of a run between two steps. Every field is a JSON value."""

    epoch: int = _count()  # epochs finished and evaluated
    position: int = _count()  # batches of the present epoch already used
    step: int = _count()  # steps since the beginning
    best_value: float | None = _number(None, least=None)  # of the watched metric; None if it was not a number
    best_epoch: int = _count()  # 0 before the first evaluation
    best_step: int = _count()
    best_metrics: dict = field(default_factory=dict)
    n_stale: int = _count()  # epochs since the metric was last better
    plateau_factor: float = _number(1.0)
    plateau_n_stale: int = _count()
    window_loss: float = _number(0.0, least=None)  # sums since the last line of metrics.jsonl about steps
    window_items: int = _count()
    epoch_loss: float = _number(0.0, least=None)  # sums since the epoch began
    epoch_items: int = _count()
    n_lines: int = _count()  # of metrics.jsonl
    threads: int = _count()  # chosen by a trial when the run began; 0 if there was none
    seconds: float = _number(0.0)  # of training, without interruptions

    def add_step(self, loss: float, n_items: int) -> None:
        """Counts one more step."""
        self.position += 1
        self.step += 1
        self.window_loss += loss
        self.window_items += n_items
        self.epoch_loss += loss
        self.epoch_items += n_items

    def add_epoch(self, value: float, metrics: Mapping[str, float | None], wait: int) -> bool:
        """Counts one more epoch with its metrics; returns whether it is the best so far. NaN is never better."""
        self.epoch += 1
        self.position, self.epoch_loss, self.epoch_items = 0, 0.0, 0
        known = self.best_value if self.best_value is not None else -math.inf
        better = self.best_epoch == 0 or value > known
        if better:
            self.best_value = value if math.isfinite(value) else None
            self.best_epoch, self.best_step, self.best_metrics = self.epoch, self.step, dict(metrics)
        self.n_stale = 0 if better else self.n_stale + 1
        plateau = Plateau(self.plateau_factor, self.plateau_n_stale).after_epoch(better, wait)
        self.plateau_factor, self.plateau_n_stale = plateau.factor, plateau.n_stale
        return better

    def stops_early(self, settings: TrainingSettings) -> bool:
        """Returns whether the metric has not been better for as many epochs as `patience` allows."""
        return 0 < settings.patience <= self.n_stale

    def is_finished(self, settings: TrainingSettings) -> bool:
        """Returns whether no step is left."""
        return self.epoch >= settings.epochs or self.stops_early(settings)

    def check(self, n_batches: int) -> None:
        """Raises ValueError if the counters contradict each other or the data."""
        for name, value in self.best_metrics.items():
            if value is not None and not (type(value) in (int, float) and abs(value) <= _MAX_FLOAT):
                raise ValueError(f"its metric {short_repr(name)} must be a finite number, got {short_repr(value)}")
        inside = self.epoch >= 0 and 0 <= self.position <= n_batches
        if not inside or self.step != self.epoch * n_batches + self.position:
            raise ValueError(
                f"its position (epoch {self.epoch}, batch {self.position}, step {self.step}) does not fit "
                f"{n_batches} batches per epoch"
            )


def start_training(
    task: Task, settings: TrainingSettings, processes: Processes
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Returns a new model, the same on every process, and its optimizer; seeds the random numbers."""
    model = distribute_model(task, _new_model(task, settings, processes), processes, sharding=settings.sharding)
    optimizer = make_optimizer(unwrap_model(model), settings, task.rate_factor)
    random_state.seed_all(settings.seed, DROPOUT, processes.rank)
    return model, optimizer


def resume_training(
    task: Task, settings: TrainingSettings, processes: Processes, path: Path, *, n_batches: int
) -> tuple[nn.Module, torch.optim.Optimizer, TrainingState]:
    """Returns the model, the optimizer and the counters of a checkpoint; restores its random numbers."""
    card, sums = checkpoints.read_card(path)
    model = _new_model(task, settings, processes)
    checkpoints.load_model_tensors(model, _read_tensors(path, sums, checkpoints.MODEL_FILE), path)
    model = distribute_model(task, model, processes, sharding=settings.sharding)
    optimizer = make_optimizer(unwrap_model(model), settings, task.rate_factor)
    tensors = _read_tensors(path, sums, checkpoints.TRAINING_FILE)
    try:
        state = from_dict(TrainingState, {"threads": 0, **card.state})  # checkpoints of 0.1.0 have no such number
        state.check(n_batches)
        moments = {name: tensors.pop(name) for name in list(tensors) if name.startswith("optimizer.")}
        load_optimizer(unwrap_model(model), optimizer, moments)
        _check_random_tensors(tensors, card.n_processes)
        if card.n_processes == processes.size:
            mine = f"random.{processes.rank}."
            random_state.restore({name[len(mine) :]: t for name, t in tensors.items() if name.startswith(mine)})
        else:  # shares of a batch are others than before, so no random state fits them
            random_state.seed_all(settings.seed, REGROUPED, processes.rank, state.step)
    except ValueError as error:
        raise CheckpointError(f"{path} cannot be resumed: {error}") from error
    return model, optimizer, state


def _new_model(task: Task, settings: TrainingSettings, processes: Processes) -> nn.Module:
    random_state.seed_all(settings.seed, INITIAL)
    return task.model().to(processes.device)


def _read_tensors(path: Path, sums: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    try:
        return checkpoints.read_tensors(path, sums, name)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; delete {path} to resume from the checkpoint before it") from error


def _check_random_tensors(tensors: Mapping[str, Tensor], n_processes: int) -> None:
    """Raises ValueError for a tensor that is not part of the random state of one of the processes."""
    for name in sorted(tensors):
        match = _RANDOM_TENSOR.fullmatch(name)
        if match is None or int(match[1]) >= n_processes or match[2] not in random_state.NAMES:
            raise ValueError(f"{checkpoints.TRAINING_FILE} has an unknown tensor {short_repr(name)}")
