"""Kernels of structures: how a native entry is called, and how it is chosen where it has a reference of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.structures.host import to_device, to_host

F = TypeVar("F", bound=Callable[..., Any])


class StructureKernel(Generic[F]):
    """Calls the native twin where it may read the tensors, and the reference everywhere else.

    Tensors are positional arguments, options are keyword-only. Unlike `Kernel`, which serves rows, it also runs where
    autograd or forward mode records: programs are differentiated as a whole and call it without a gradient.

    A `search` branches on every number. For tensors of another device the host does it, natively if it can: one copy
    there and one back for a batch.
    """

    def __init__(self, reference: F, *, search: bool = False) -> None:
        self.reference = reference
        self.search = search
        self.native: Callable[..., Any] | None = None
        functools.update_wrapper(self, reference)

    def twin(self, native: F) -> F:
        """Registers the native implementation (a decorator)."""
        self.native = native
        return native

    def __call__(self, *tensors: Tensor, **options: Any) -> Any:
        """Runs the kernel on these inputs; integer tensors, such as lengths, are always on the CPU."""
        numbers = [tensor for tensor in tensors if tensor.is_floating_point()]
        if self.search and not routing.on_host(*numbers):
            there = iter(to_host(*numbers))
            given = [next(there) if tensor.is_floating_point() else tensor for tensor in tensors]
            if routing.in_native_memory(*(tensor for tensor in given if tensor.is_floating_point())):
                return to_device(self.native(*given, **options), numbers[0].device)  # type: ignore[misc]
            return to_device(self.reference(*given, **options), numbers[0].device)
        if routing.in_native_memory(*numbers):
            return self.native(*tensors, **options)  # type: ignore[misc]
        return self.reference(*tensors, **options)


def structure_kernel(reference: F) -> StructureKernel[F]:
    """Makes a function a kernel; see `StructureKernel`."""
    return StructureKernel(reference)


def search_kernel(reference: F) -> StructureKernel[F]:
    """Makes a function a kernel that the host runs for every device."""
    return StructureKernel(reference, search=True)


def launch(entry: str, *arguments: Any, itemsize: int, n_items: int, cost: int) -> None:
    """Calls a native entry on all items of a batch.

    Tensors among the arguments are passed as addresses, None as address 0. `itemsize` is the size of one score, 4 or 8;
    `cost` is roughly the work of one item, by which threads share the batch.
    """
    given = routing.addresses(arguments)
    getattr(routing.native, entry)(itemsize, *given, n_items, cost, torch.get_num_threads())


def has_native() -> bool:
    """Says whether the compiled module is loaded: for searches whose arguments are always plain memory on the CPU."""
    return routing.native is not None
