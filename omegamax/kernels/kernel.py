"""A kernel: one specification in PyTorch, and optionally a native twin with the same name, arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from omegamax import routing

F = TypeVar("F", bound=Callable[..., object])

KERNELS: dict[str, Kernel] = {}
_NUMBERS = (float, int)


class Kernel(Generic[F]):
    """Calls the native twin where it may run and the reference everywhere else.

    The reference is the specification. It is written in PyTorch without in-place tricks on its inputs, so it runs
    on any device; kernels named `..._product` are also differentiable in it.
    """

    def __init__(self, reference: F) -> None:
        self.reference = reference
        self.native: Callable[..., object] | None = None
        self.weights: Callable[..., Tensor]
        self.__name__ = reference.__name__
        self.__doc__ = reference.__doc__
        KERNELS[self.__name__] = self

    def twin(self, native: F) -> F:
        """Registers the native implementation (a decorator)."""
        self.native = native
        return native

    def alone(self, weights: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Registers the twin that gives the weights alone, for bare rows and numbers (a decorator)."""
        self.weights = weights
        return weights

    def __call__(self, *inputs):
        """The kernel on these inputs."""
        if self.native is not None and routing.runs_native(*inputs):
            return self.native(*inputs)
        return self.reference(*inputs)


def kernel(reference: F) -> Kernel[F]:
    """Makes a function of rows a kernel; see `Kernel`."""
    return Kernel(reference)


def new_solution(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Room for weights, shaped as contiguous rows, and for one value per row."""
    *lead, _ = rows.shape
    return torch.empty_like(rows), rows.new_empty(*lead) if lead else rows.new_empty(())  # separate sizes parse faster


def extent(rows: Tensor) -> tuple[int, int, int]:
    """What ends the arguments of a native entry: rows, columns, threads."""
    columns = rows.shape[-1]
    return rows.numel() // columns if columns else 0, columns, torch.get_num_threads()


def launch(name: str, rows: Tensor, *arguments) -> None:
    """Calls the native entry `name` on row-major memory; tensors among the arguments are passed as addresses."""
    columns = rows.shape[-1]
    count = rows.numel() // columns if columns else 0
    addresses = [a if type(a) in _NUMBERS else a.data_ptr() for a in arguments]
    getattr(routing.native, name)(rows.itemsize, *addresses, count, columns, torch.get_num_threads())
