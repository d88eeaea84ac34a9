"""Times training steps of several models on the same batches, in turns, so that a busy moment hits all of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any

import timing

from omegamax.data.batches import epoch_batches
from omegamax.training import random_state
from omegamax.training.optimization import make_optimizer, set_rate, take_step
from omegamax.training.processes import SINGLE_PROCESS
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import Task


def step_seconds(
    tasks: Mapping[str, Task], training: TrainingSettings, *, n_steps: int = 40, warm_up: int = 3
) -> dict[str, list[float]]:
    """Seconds of each step of each task's model, by `timing.clock`; the tasks have the same training examples."""
    contestants: dict[str, tuple[Task, Any, Any, list[float]]] = {}
    for name, task in tasks.items():
        random_state.seed_all(0, 0)
        model = task.model().train()
        contestants[name] = (task, model, make_optimizer(model, training, task.rate_factor), [])
    first = next(iter(tasks.values()))
    examples = first.examples("train")
    batches = epoch_batches(first.batch_lengths(examples), batch_size=training.batch_size, seed=0, epoch=0)
    context: Any = {"settings": training, "processes": SINGLE_PROCESS, "stop_requested": False}
    for number, batch in enumerate(islice(cycle(batches), n_steps + warm_up)):
        for task, model, optimizer, seconds in contestants.values():
            set_rate(optimizer, training.learning_rate)
            before = timing.clock()
            take_step(task, model, optimizer, examples, batch, **context)
            if number >= warm_up:
                seconds.append(timing.clock() - before)
    return {name: seconds for name, (_, _, _, seconds) in contestants.items()}


def times_softmax(seconds: list[float], plain: list[float]) -> float:
    """The middle of the ratios of steps on the same batch."""
    return statistics.median(a / b for a, b in zip(seconds, plain))
