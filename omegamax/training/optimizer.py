"""AdamW, and its state as named tensors that no sharding shows through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.training.settings import TrainingSettings

_KEYS = ("exp_avg", "exp_avg_sq", "step")
_STEP = (torch.float32, torch.float64)  # the types in which PyTorch counts steps


def adamw(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """Decay shrinks matrices only: a bias or a gain near zero is no simpler than another."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learned if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in learned if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise ValueError("adamw: the model must have a parameter that requires a gradient, got none")
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in learned)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=fused)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of a shard; every process takes part."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and step counts by the names of parameters, whole."""
    return {
        f"optimizer.{key}.{name}": whole(optimizer.state[parameter][key])
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for key in _KEYS
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`, sharded as the parameters are; raises ValueError where they do not fit."""
    rest = dict(tensors)
    for name, parameter in model.named_parameters():
        found = {key: rest.pop(f"optimizer.{key}.{name}") for key in _KEYS if f"optimizer.{key}.{name}" in rest}
        if not found:
            continue  # it had no gradient yet
        for key in _KEYS:
            shape = () if key == "step" else tuple(parameter.shape)
            if key not in found or tuple(found[key].shape) != shape:
                raise ValueError(f"the optimiser's {key} of {name!r} must have shape {shape}")
            if not found[key].is_floating_point() or (key == "step" and found[key].dtype not in _STEP):
                raise ValueError(f"the optimiser's {key} of {name!r} must hold real numbers, got {found[key].dtype}")
        moments = {key: _like(parameter, found[key]) for key in _KEYS[:2]}
        fused = optimizer.defaults["fused"]  # else PyTorch counts on the host
        optimizer.state[parameter] = {"step": found["step"].to(parameter.device if fused else "cpu"), **moments}
    if rest:
        raise ValueError(f"the optimiser has an unknown tensor {min(rest)!r}")


def _like(parameter: Any, full: Tensor) -> Tensor:
    full = full.to(parameter.device, parameter.dtype)
    if hasattr(parameter, "full_tensor"):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(full, parameter.device_mesh, parameter.placements)
    return full
