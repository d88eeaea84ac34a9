"""Finds the Triton twin of a kernel, for tensors on a GPU. Nothing here imports Triton before a twin is called for."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax import routing

DEVICES = {"cuda"}  # the tests add "cpu": Triton's interpreter computes there
LEAST_ORDER = 1.05  # of entmax: closer to 1 the threshold needs more digits than float32 has
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@functools.cache
def is_installed() -> bool:
    """Says whether Triton can be imported, and the user did not choose the reference kernels."""
    is_wanted = os.environ.get("OMEGAMAX_KERNELS", "").lower() != "reference"
    return is_wanted and importlib.util.find_spec("triton") is not None


def has_order(alpha: Any) -> bool:
    """Says whether the Triton kernels solve entmax of this order; a tensor of orders is for the reference."""
    return not isinstance(alpha, Tensor) and LEAST_ORDER <= float(alpha) <= 2


def are_on_gpu(tensors: Sequence[Tensor]) -> bool:
    """Says whether Triton kernels may read these tensors."""
    return is_installed() and all(x.device.type in DEVICES and x.layout is torch.strided for x in tensors)


class Twin:
    """The Triton form of a kernel: a function of `omegamax.kernels.triton`, imported at its first call.

    Arguments:
        module: the file of the function
        name: its name
        order: which input is the order of entmax, if any
    """

    def __init__(self, module: str, name: str, order: int | None = None) -> None:
        self._module, self._name, self._order = module, name, order

    def function(self, *inputs: Any) -> Callable[..., Any] | None:
        """Returns the function if it takes these inputs, and nothing records them."""
        first, *others = [x for x in inputs if isinstance(x, Tensor)]
        if first.device.type not in DEVICES or not are_on_gpu([first, *others]) or first.dtype not in DTYPES:
            return None
        if self._order is not None and not has_order(inputs[self._order]):
            return None
        if routing.context(*inputs) is not routing.Context.PLAIN or first.ndim == 0:
            return None
        if any(routing.is_many_gradients(x) or x.shape != first.shape for x in others):
            return None
        if any(x.is_floating_point() and x.dtype != first.dtype for x in others):
            return None
        return getattr(importlib.import_module(f"omegamax.kernels.triton.{self._module}"), self._name)
