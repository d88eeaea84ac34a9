"""What a model says of examples: in batches of like length, dealt out to processes, given back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from omegamax.training.processes import Crew
from omegamax.training.task import Task

ALONE = Crew()


def predict(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    crew: Crew = ALONE,
    tick: Callable[[int, int], None] | None = None,
) -> list[str]:
    """One line per example, in order, on every process of the crew.

    The batches do not depend on the number of processes, so neither do the predictions. `tick(n_done, n_all)` is called
    after each batch of this process.
    """
    order = sorted(range(len(examples)), key=lambda at: task.length(examples[at]))
    batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)][crew.rank :: crew.size]
    mine: list[tuple[int, str]] = []
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for done, batch in enumerate(batches, start=1):
                lines = task.predict(model, [examples[at] for at in batch])
                if len(lines) != len(batch):
                    raise ValueError(
                        f"{type(task).__name__}.predict must return a line for each of {len(batch)} examples, "
                        f"got {len(lines)}"
                    )
                mine += zip(batch, lines)
                if tick is not None:
                    tick(done, len(batches))
    finally:
        model.train(was_training)
    lines = [""] * len(examples)
    for part in crew.gather(mine):
        for at, line in part:
            lines[at] = line
    return lines


def evaluate(
    task: Task,
    model: nn.Module,
    examples: Sequence[Any],
    *,
    batch_size: int = 64,
    crew: Crew = ALONE,
    tick: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """The task's metrics on examples with targets, the same on every process of the crew."""
    lines = predict(task, model, examples, batch_size=batch_size, crew=crew, tick=tick)
    return scored(task, examples, lines, crew=crew)


def scored(task: Task, examples: Sequence[Any], lines: Sequence[str], *, crew: Crew = ALONE) -> dict[str, float]:
    """The task's metrics of predictions that all processes have."""
    return crew.alone(lambda: {name: float(value) for name, value in task.score(examples, lines).items()})
