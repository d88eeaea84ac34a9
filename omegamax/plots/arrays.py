"""What can be drawn: tensors on any device and with any gradient, NumPy arrays, and lists as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Name = TypeVar("Name")


def drawable(given: Any) -> Any:
    """A tensor in memory, without its gradient; what is no array is returned as it is, for the caller to refuse."""
    if isinstance(given, Tensor):
        return given.detach().cpu()
    if isinstance(given, list):
        given = [one.detach().cpu() if isinstance(one, Tensor) else one for one in given]
    if isinstance(given, np.ndarray | list):
        try:
            copy = np.array(given)  # since PyTorch takes no array that is read-only or runs backwards
            return torch.from_numpy(copy)
        except (ValueError, TypeError):  # rows of different lengths, or words
            return given
    return given


def computable(given: Any) -> Any:
    """As `drawable`, and whole numbers in floating point: for figures of what is computed from them."""
    given = drawable(given)
    whole = isinstance(given, Tensor) and not given.is_floating_point()
    return given.to(torch.get_default_dtype()) if whole else given


def drawables(given: Mapping[Name, Any]) -> dict[Name, Any]:
    """Each of them."""
    return {name: drawable(one) for name, one in given.items()}
