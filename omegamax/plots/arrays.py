"""Converts to CPU tensors what can be drawn: tensors of any device and layout, NumPy arrays, and lists as in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Name = TypeVar("Name")


def to_cpu_tensor(given: Any) -> Any:
    """Returns a CPU tensor without its gradient; what is not an array is returned unchanged, to be refused later."""
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        return given if given.layout is torch.strided else given.to_dense()
    if isinstance(given, list):
        given = [one.detach().cpu() if isinstance(one, Tensor) else one for one in given]
    if isinstance(given, np.ndarray | list):
        try:
            copy = np.array(given)  # since PyTorch takes no array that is read-only or runs backwards
            return torch.from_numpy(copy)
        except (ValueError, TypeError):  # rows of different lengths, or words
            return given
    return given


def to_float_tensor(given: Any) -> Any:
    """Like `to_cpu_tensor`, but converts integers to floating point, for figures that compute something from them."""
    given = to_cpu_tensor(given)
    whole = isinstance(given, Tensor) and not given.is_floating_point()
    return given.to(torch.get_default_dtype()) if whole else given


def to_cpu_tensors(given: Mapping[Name, Any]) -> dict[Name, Any]:
    """Applies `to_cpu_tensor` to each value."""
    return {name: to_cpu_tensor(one) for name, one in given.items()}
