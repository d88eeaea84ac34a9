"""How much memory a model needs, known from its shapes before any of it is taken."""

from __future__ import annotations

import os

import torch
from torch import nn

from omegamax.errors import DataError
from omegamax.training.task import Task

_COPIES = 4  # of every parameter while it is trained: itself, its gradient and two moments


def sketch(task: Task) -> nn.Module | None:
    """The model's shapes; None if it looks at numbers while it is made, which shapes alone do not have."""
    try:
        with torch.device("meta"):
            return task.model()
    except (RuntimeError, NotImplementedError) as error:
        if "meta" in str(error):
            return None
        raise


def check_memory(task: Task) -> None:
    """Refuses to train a model that is larger than the machine's memory, before the attempt takes the machine down."""
    model, there = sketch(task), _memory()
    if model is None or there is None:
        return
    needed = _COPIES * sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    if needed > there:
        raise DataError(
            f"training must fit into the memory of this machine, {there / 2**30:.3g} GiB, but this model needs "
            f"at least {needed / 2**30:.3g} GiB; choose smaller sizes with --hidden-size, --embedding-size or "
            "--max-tokens"
        )


def _memory() -> int | None:
    """Bytes of the machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
