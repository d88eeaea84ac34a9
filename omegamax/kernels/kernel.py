"""Kernels: each has one specification in PyTorch, and may have a native twin with the same name and arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.gpu import Twin
from omegamax.kernels.per_row import native_parameter

F = TypeVar("F", bound=Callable[..., Any])

KERNELS: dict[str, Kernel] = {}
_NATIVE = routing.Context.NATIVE


class Kernel(Generic[F]):
    """Calls the native twin where it may run and the reference everywhere else.

    The reference is the specification. It is written in PyTorch without in-place tricks on its inputs, so it runs
    on any device; kernels named `..._product` are also differentiable in it. That is how a product is differentiated
    again: inputs that require a gradient are not for native kernels.
    """

    def __init__(self, reference: F) -> None:
        self.reference = _on_row_major(reference)
        self.native: Callable[..., Any] | None = None
        self.on_gpu: Twin | None = None
        self.__name__ = reference.__name__
        self.__doc__ = reference.__doc__
        KERNELS[self.__name__] = self

    def twin(self, native: F) -> F:
        """Registers the native implementation (a decorator)."""
        self.native = native
        return native

    def __call__(self, *inputs: Any) -> Any:
        """Runs the kernel on these inputs."""
        if routing.native is None:
            routing.report_slowness(*inputs)
        elif self.native is not None and routing.context(*inputs) is _NATIVE:
            last = inputs[-1]  # a gradient is always the last input
            if not isinstance(last, Tensor) or not routing.is_many_gradients(last):
                return self.native(*inputs)
        return self.without_native(*inputs)

    def without_native(self, *inputs: Any) -> Any:
        """Runs the Triton twin on tensors of a GPU where there is one that takes them, or else the reference."""
        function = None if self.on_gpu is None else self.on_gpu.function(*inputs)
        return (function or self.reference)(*inputs)


class Solver(Kernel[F]):
    """A kernel from rows and parameters to weights, one value per row and, for some operators, constants.

    Constants are what a certificate holds beside the weights, shaped as the rows: segments or clusters. The native
    entry has the kernel's name. Its arguments are the rows, the parameters and the results; the address 0 stands for a
    result that is not wanted, and a parameter is a pair: the address of one number per row, or 0 and one number.
    """

    def __init__(
        self, reference: F, constants: torch.dtype | None, native_arguments: Callable[..., list[Any]] | None
    ) -> None:
        super().__init__(reference)
        self.constants = constants
        self._native_arguments = native_arguments or _native_arguments
        self.native = self._solve
        self._no_other_results = (0,) if constants is None else (0, 0)
        self._entry = getattr(routing.native, self.__name__, None)

    def native_numbers(self, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        """Converts parameters that are plain numbers, the same for all rows, to what the native entry takes."""
        return tuple(self._native_arguments(None, parameters))

    def weights_by_numbers(self, rows: Tensor, numbers: tuple[Any, ...]) -> Tensor:
        """Computes the weights only, for rows in the context `NATIVE` and `native_numbers`: the usual call, quickly."""
        rows = rows.contiguous()
        weights = torch.empty_like(rows)
        columns = rows.shape[-1]
        if columns:
            self._entry(  # type: ignore[misc]
                rows.itemsize, rows.data_ptr(), *numbers, weights.data_ptr(), *self._no_other_results,
                rows.numel() // columns, columns, torch.get_num_threads(),
            )  # fmt: skip
        return weights

    def weights(self, rows: Tensor, *parameters: Any) -> Tensor:
        """Computes the weights only, for rows and parameters in the context `NATIVE`."""
        arguments = self._native_arguments(rows, parameters)  # kept until the call has read their addresses
        return self.weights_by_numbers(rows, tuple(routing.addresses(arguments)))

    def weights_and_value(self, rows: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
        """Computes weights and value without the constants, which are as large as the weights."""
        if routing.native is None:
            routing.report_slowness(rows)
        elif routing.context(rows, *parameters) is _NATIVE:
            return self._solve(rows, *parameters, constants=False)  # type: ignore[return-value]
        return self.without_native(rows, *parameters)[:2]

    def _solve(self, rows: Tensor, *parameters: Any, constants: bool = True) -> tuple[Tensor, ...]:
        rows = rows.contiguous()
        *lead, columns = rows.shape
        results = [torch.empty_like(rows), rows.new_empty(*lead) if lead else rows.new_empty(())]
        if constants and self.constants is not None:
            results.append(torch.empty_like(rows, dtype=self.constants))
        if columns:
            arguments = self._native_arguments(rows, parameters) if parameters else ()
            unwanted = (0,) * (1 + len(self._no_other_results) - len(results))
            launch(self.__name__, rows, rows, *arguments, *results, *unwanted)
        else:
            results[1].fill_(-torch.inf)
        return tuple(results)


def _native_arguments(rows: Any, parameters: tuple[Any, ...]) -> list[Any]:
    """Converts parameters to what a native entry takes; integers, such as the groups of positions, stay as they are."""
    arguments: list[Any] = []
    for parameter in parameters:
        if type(parameter) is float:
            arguments += (0, parameter)
        elif isinstance(parameter, Tensor) and not parameter.is_floating_point():
            arguments.append(parameter)
        else:
            arguments += native_parameter(parameter, rows)
    return arguments


def _on_row_major(reference: F) -> F:
    """Makes inputs contiguous first: the order in which PyTorch adds up a row depends on how it lies in memory."""

    @functools.wraps(reference)
    def on_row_major(*inputs):
        return reference(*(i.contiguous() if isinstance(i, Tensor) else i for i in inputs))

    return cast(F, on_row_major)


def kernel(reference: F) -> Kernel[F]:
    """Makes a function of rows a kernel; see `Kernel`."""
    return Kernel(reference)


def solver(
    *, constants: torch.dtype | None = None, native_arguments: Callable[..., list[Any]] | None = None
) -> Callable[[F], Solver[F]]:
    """Makes a function of rows and parameters a solver; see `Solver`. `native_arguments` converts the parameters."""
    return lambda reference: Solver(reference, constants, native_arguments)


def extent(rows: Tensor) -> tuple[int, int, int]:
    """Returns the last arguments of a native entry: rows, columns, threads."""
    columns = rows.shape[-1]
    return rows.numel() // columns if columns else 0, columns, torch.get_num_threads()


def launch(name: str, rows: Tensor, *arguments: Any) -> None:
    """Calls the native entry `name` on row-major memory; tensors among the arguments are passed as addresses."""
    columns = rows.shape[-1]
    count = rows.numel() // columns if columns else 0
    getattr(routing.native, name)(rows.itemsize, *routing.addresses(arguments), count, columns, torch.get_num_threads())
