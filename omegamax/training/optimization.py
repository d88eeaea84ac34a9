"""One training step: the gradient of the mean loss over a batch, the optimizer, and the learning rate over time.

However a batch is cut into parts and dealt out to processes, parts and processes add up sums of losses, and one
division by the number of items of the whole batch follows. So the result is that of one pass over the batch, to
rounding.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.batches import split_batch
from omegamax.errors import DivergedError
from omegamax.training.processes import Processes, exchange_gradients, full_tensor
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import Task, move_to

_MOMENTS = ("exp_avg", "exp_avg_sq")
_KEYS = (*_MOMENTS, "step")
_STEP_TYPES = (torch.float32, torch.float64)  # in which PyTorch counts steps


class StepResult(NamedTuple):
    """What one step found, the same on every process."""

    loss: float  # summed over the batch
    n_items: int
    gradient_norm: float  # of the mean loss, before clipping
    stop_requested: bool  # by a signal to any of the processes


def take_step(
    task: Task,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    examples: Sequence[Any],
    batch: Sequence[int],
    *,
    settings: TrainingSettings,
    processes: Processes,
    stop_requested: bool,
) -> StepResult:
    """Takes one step on a batch of positions in `examples`.

    Raises DivergedError before anything is changed if the loss or its gradient is not a number.
    """
    optimizer.zero_grad(set_to_none=True)
    largest_share = -(-len(batch) // processes.size)
    share = split_batch(batch, processes.size)[processes.rank]
    parts = split_batch(share, min(settings.accumulate, largest_share))
    total, n_items = 0.0, 0
    for number, part in enumerate(parts, start=1):
        # A process without a share takes part in the exchange too, with a gradient of zero.
        inputs = move_to(task.collate([examples[at] for at in part or batch[:1]]), processes.device)
        with exchange_gradients(model, last=number == len(parts)):
            with _autocast(settings.precision, processes.device):
                loss = task.loss(model, inputs)
            (loss.total if part else loss.total * 0).backward()
        if part:
            total += loss.total.item()
            n_items += loss.n_items
    total, all_items, n_stops = processes.sum(total, n_items, float(stop_requested))
    norm = _scale_and_clip(model, processes.size / max(all_items, 1), settings.clip)
    if not (math.isfinite(total) and math.isfinite(norm)):
        what = f"loss is {total}" if not math.isfinite(total) else f"gradient has norm {norm}"
        raise DivergedError(f"the {what}")
    optimizer.step()
    return StepResult(total, int(all_items), norm, n_stops > 0)


def _scale_and_clip(model: nn.Module, factor: float, clip: float) -> float:
    """Turns averages of sums into the gradient of the mean and clips it; returns its norm."""
    learned = [parameter for parameter in model.parameters() if parameter.grad is not None]
    gradients: list[Tensor] = [parameter.grad for parameter in learned if parameter.grad is not None]
    for gradient in gradients:
        gradient.mul_(factor)
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip > 0:
        torch.nn.utils.clip_grads_with_norm_(learned, clip, norm)
    return full_tensor(norm).item()


def _autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


# The learning rate. It is a closed form of the step, so that only the plateau's counts need to be saved.


@dataclass(frozen=True)
class Plateau:
    """Halves the learning rate after some epochs in a row without a better metric, then waits as long again."""

    factor: float = 1.0
    n_stale: int = 0  # epochs since the metric was last better, or the rate last halved

    def after_epoch(self, better: bool, wait: int) -> Plateau:
        """Returns the plateau after one more epoch."""
        if better:
            return replace(self, n_stale=0)
        if self.n_stale + 1 < wait:
            return replace(self, n_stale=self.n_stale + 1)
        return Plateau(self.factor / 2, 0)


def learning_rate(settings: TrainingSettings, *, step: int, n_steps: int, plateau_factor: float = 1.0) -> float:
    """Returns the learning rate of step number `step` of `n_steps`, counted from 0.

    It rises linearly over the first `warmup` steps, whose last has the full rate r. After that, with t from 0 to 1 over
    the steps that remain: r (constant), r (1 + cos πt)/2 (cosine), r (1 - t) (linear), r · plateau_factor (plateau),
    r times the factor of the epoch (pieces).
    """
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    time = (step - settings.warmup) / max(n_steps - settings.warmup, 1)
    if settings.schedule == "cosine":
        return settings.learning_rate * (1 + math.cos(math.pi * time)) / 2
    if settings.schedule == "linear":
        return settings.learning_rate * (1 - time)
    if settings.schedule == "plateau":
        return settings.learning_rate * plateau_factor
    if settings.schedule == "pieces":
        return settings.learning_rate * _factor_of(settings.rate_pieces, step * settings.epochs // max(n_steps, 1))
    return settings.learning_rate


def _factor_of(pieces: Sequence[tuple[float, int]], epoch: int) -> float:
    """Returns the factor of an epoch, counted from 0."""
    for factor, n_epochs in pieces:
        if epoch < n_epochs:
            return factor
        epoch -= n_epochs
    return pieces[-1][0]


# The optimizer, and its state as named tensors, which are the same however the model is sharded


def make_optimizer(
    model: nn.Module, settings: TrainingSettings, rate_factor: Callable[[str], float] = lambda name: 1.0
) -> torch.optim.Optimizer:
    """Returns AdamW or plain SGD for a model. Decay shrinks matrices only: a small bias is no simpler than a large one.

    `rate_factor` gives, by the name of a parameter, what its learning rate is multiplied by.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decay = settings.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((rate_factor(name), decay), []).append(parameter)
    if not groups:
        raise ValueError("make_optimizer: the model must have a parameter that requires a gradient, got none")
    fused = all(parameter.device.type in ("cpu", "cuda") for group in groups.values() for parameter in group)
    options = [
        {"params": group, "weight_decay": decay, "rate_factor": factor} for (factor, decay), group in groups.items()
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.SGD
    return kind(options, lr=settings.learning_rate, fused=fused)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every parameter, times its factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_factor"]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns whole moments and step counts by the names of parameters."""
    return {
        f"optimizer.{key}.{name}": full_tensor(optimizer.state[parameter][key])
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for key in _KEYS
        if key in optimizer.state[parameter]  # plain SGD has no state
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Loads what `optimizer_tensors` returned, sharded as the parameters are; ValueError if it does not fit."""
    rest = dict(tensors)
    if rest and not isinstance(optimizer, torch.optim.AdamW):
        raise ValueError(f"the optimiser has no state, but there is a tensor {min(rest)!r}")
    for name, parameter in model.named_parameters():
        found = {key: rest.pop(f"optimizer.{key}.{name}") for key in _KEYS if f"optimizer.{key}.{name}" in rest}
        if not found:
            continue  # the parameter had no gradient yet, or the optimizer has no state
        for key in _KEYS:
            shape = () if key == "step" else tuple(parameter.shape)
            if key not in found or tuple(found[key].shape) != shape:
                raise ValueError(f"the optimiser's {key} of {name!r} must have shape {shape}")
            if not found[key].is_floating_point() or (key == "step" and found[key].dtype not in _STEP_TYPES):
                raise ValueError(f"the optimiser's {key} of {name!r} must hold real numbers, got {found[key].dtype}")
        moments = {key: _shard_like(parameter, found[key]) for key in _MOMENTS}
        fused = optimizer.defaults["fused"]  # otherwise PyTorch counts on the host
        optimizer.state[parameter] = {"step": found["step"].to(parameter.device if fused else "cpu"), **moments}
    if rest:
        raise ValueError(f"the optimiser has an unknown tensor {min(rest)!r}")


def _shard_like(parameter: Any, full: Tensor) -> Tensor:
    full = full.to(parameter.device, parameter.dtype)
    if hasattr(parameter, "full_tensor"):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(full, parameter.device_mesh, parameter.placements)
    return full
