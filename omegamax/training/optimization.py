"""One step: the gradient of the mean loss over a batch, however it is cut into parts and dealt out to processes.

Parts and processes add up sums of losses, and one division by the number of items of the whole batch follows. So the
result is that of one pass over the batch, to rounding.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.batches import split
from omegamax.errors import DivergedError
from omegamax.training.optimizer import whole
from omegamax.training.processes import Crew, backward_pass
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import Task, place


class Update(NamedTuple):
    """What a step tells, the same on every process."""

    loss: float  # summed over the batch
    n_items: int
    gradient_norm: float  # of the mean loss, before clipping
    stop: bool  # some process was asked to stop


def update(
    task: Task,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    examples: Sequence[Any],
    batch: Sequence[int],
    *,
    settings: TrainingSettings,
    crew: Crew,
    stop: bool,
) -> Update:
    """Takes one step on a batch of positions in `examples`.

    Raises DivergedError before anything is changed if the loss or its gradient is not a number.
    """
    optimizer.zero_grad(set_to_none=True)
    largest_share = -(-len(batch) // crew.size)
    parts = split(split(batch, crew.size)[crew.rank], min(settings.accumulate, largest_share))
    total, n_items = 0.0, 0
    for number, part in enumerate(parts, start=1):
        # A process without a share takes part in the exchange all the same, with a gradient of zero.
        chosen = [examples[at] for at in part or batch[:1]]
        inputs = place(task.collate(chosen), crew.device)
        with backward_pass(model, last=number == len(parts)):
            with _autocast(settings.precision, crew.device):
                loss = task.loss(model, inputs)
            (loss.total if part else loss.total * 0).backward()
        if part:
            total += loss.total.item()
            n_items += loss.n_items
    total, all_items, stops = crew.sum(total, n_items, float(stop))
    norm = _scale(model, crew.size / max(all_items, 1), settings.clip)
    if not (math.isfinite(total) and math.isfinite(norm)):
        what = f"loss is {total}" if not math.isfinite(total) else f"gradient has norm {norm}"
        raise DivergedError(f"the {what}")
    optimizer.step()
    return Update(total, int(all_items), norm, stops > 0)


def _scale(model: nn.Module, factor: float, clip: float) -> float:
    """Turns averages of sums into the gradient of the mean and clips it; returns its norm."""
    learned = [parameter for parameter in model.parameters() if parameter.grad is not None]
    gradients: list[Tensor] = [parameter.grad for parameter in learned if parameter.grad is not None]
    for gradient in gradients:
        gradient.mul_(factor)
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip > 0:
        torch.nn.utils.clip_grads_with_norm_(learned, clip, norm)
    return whole(norm).item()


def _autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
