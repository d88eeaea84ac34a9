"""Finds out what records a computation, and whether native kernels may read its memory.

`context(...)` says both at once for row operators and kernels:

| context      | what records                                                  | what runs                             |
|--------------|---------------------------------------------------------------|---------------------------------------|
| `NATIVE`     | nothing, and native kernels may read the memory               | the native kernel                     |
| `PLAIN`      | nothing, on another device or without the extension           | the PyTorch reference                 |
| `AUTOGRAD`   | reverse mode, and nothing else                                | an autograd Function around it        |
| `FORWARD`    | a level of forward-mode AD                                    | the same Function                     |
| `TRANSFORM`  | a `torch.func` transform                                      | its `setup_context` form, with vmap   |
| `WATCHED`    | a dispatch mode: a counter, `make_fx`                         | the registered operator               |
| `GRAPH`      | `torch.compile`, `torch.export`; fake, meta, subclass tensors | the registered operator               |
| `EXPORT`     | ONNX export, `torch.jit.trace`                                | the PyTorch reference                 |

`omegamax.operators.evaluation` matches the context for row operators. Private names of PyTorch are used in this file,
and two of them in `checks.py`, which cannot import it.
"""

from __future__ import annotations

import enum
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from omegamax.warning import SlowKernelsWarning, warn

_missing = ""  # why there are no compiled kernels
try:
    native: Any = importlib.import_module("omegamax._native")
except ImportError as error:  # installed without a compiler: the PyTorch twins do all the work
    native, _missing = None, str(error)

slowness_reported = False  # True from the start if the user chose the slow kernels
if os.environ.get("OMEGAMAX_KERNELS", "").lower() == "reference":
    native, slowness_reported = None, True

_PLAIN_TYPES = (Tensor, Parameter)
_NATIVE_DTYPES = (torch.float32, torch.float64)
_STRIDED = torch.strided

is_compiling = torch.compiler.is_compiling
transforms_active = torch._C._are_functorch_transforms_active
unwrap_dead = torch._C._functorch.unwrap_if_dead  # the tensor inside a functorch wrapper whose transform has ended
outside_transforms = torch._C._DisableFuncTorch  # a context manager: tensors made inside are plain
outside_graphs = (
    torch._disable_dynamo
)  # a decorator: torch.compile breaks its graph there, and runs the function as it is
_n_modes = torch._C._len_torch_dispatch_stack
_tracing_state = torch._C._get_tracing_state


is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # since PyTorch 2.7


def may_break_graph() -> bool:
    """Says whether torch.compile records this call and may leave it out of its graph, as torch.export may not."""
    return torch.compiler.is_dynamo_compiling() and not is_exporting()


class Context(enum.Enum):
    """What records an operation on some inputs; see the table above."""

    NATIVE = enum.auto()
    PLAIN = enum.auto()
    AUTOGRAD = enum.auto()
    FORWARD = enum.auto()
    TRANSFORM = enum.auto()
    WATCHED = enum.auto()
    GRAPH = enum.auto()
    EXPORT = enum.auto()


# Reading members through their class costs a tenth of a microsecond more in every call.
_NATIVE, _PLAIN, _AUTOGRAD = Context.NATIVE, Context.PLAIN, Context.AUTOGRAD


def context(scores: Any, *others: Any) -> Context:
    """Returns what records an operation on these inputs. What is not a tensor among the others is ignored."""
    if (
        not is_compiling()
        and not transforms_active()
        and forward_ad._current_level < 0
        and not _n_modes()
        and _tracing_state() is None
    ):
        # The usual case is one tensor and perhaps a number. Small kernels take no longer than this test.
        if (
            (not others or (len(others) == 1 and type(others[0]) is float))
            and type(scores) in _PLAIN_TYPES
            and scores.is_cpu
            and scores.dtype in _NATIVE_DTYPES
            and native is not None
            and scores.layout is _STRIDED
        ):
            return _AUTOGRAD if scores.requires_grad and torch.is_grad_enabled() else _NATIVE
        recorded, readable, found = False, native is not None, False
        for tensor in (scores, *others):  # one loop without calls: a backward pass has three tensors
            if type(tensor) in _PLAIN_TYPES and not tensor.is_meta:
                found, recorded = True, recorded or tensor.requires_grad
                readable = readable and (_is_readable(tensor) or _is_row_parameter(tensor, scores))
            elif isinstance(tensor, Tensor):
                break  # fake, or of a subclass
        else:
            if recorded and torch.is_grad_enabled():
                return _AUTOGRAD
            return _NATIVE if readable and found else _PLAIN
    return _other_context(_tensors(scores, *others))


_LOWEST_ADDRESS = 1 << 16  # no program has memory below this


def addresses(arguments: Iterable[Any]) -> list[Any]:
    """Converts arguments of a native call: tensors to the addresses of their memory, None to 0; the rest stays.

    A tensor whose storage has been released still has its shape; it raises an error.
    """
    given = []
    for argument in arguments:  # one loop and no calls: small kernels take no longer than this
        if isinstance(argument, Tensor):
            at = argument.data_ptr()
            if at < _LOWEST_ADDRESS and argument.numel():
                raise ValueError(
                    f"omegamax: tensors must hold numbers, got one of shape {tuple(argument.shape)} whose storage has "
                    "been released; keep its storage, or pass a clone made before"
                )
            given.append(at)
        else:
            given.append(0 if argument is None else argument)
    return given


def address(tensor: Tensor) -> int:
    """Returns the address of the numbers of one tensor; see `addresses`."""
    return addresses((tensor,))[0]


def _tensors(*inputs: Any) -> list[Tensor]:
    return [tensor for tensor in inputs if type(tensor) is not float and isinstance(tensor, Tensor)]


def _other_context(tensors: list[Tensor]) -> Context:
    """Returns what records if it is more than autograd."""
    if is_tracing():
        return Context.EXPORT
    if is_compiling() or not all(map(is_concrete, tensors)):
        return Context.EXPORT if exporting_to_onnx() else Context.GRAPH
    if transforms_active():
        return Context.TRANSFORM
    return Context.FORWARD if dual_level_active() else Context.WATCHED


def _is_readable(tensor: Tensor) -> bool:
    """Says whether native kernels may read a plain tensor; each kernel checks the type of its integers and masks."""
    has_native_type = tensor.dtype in _NATIVE_DTYPES or not tensor.is_floating_point()
    return tensor.is_cpu and has_native_type and tensor.layout is _STRIDED


def _is_row_parameter(tensor: Tensor, scores: Tensor) -> bool:
    """Says whether a tensor is one number per row, which native kernels take in double precision, whatever its type."""
    is_small = tensor is not scores and (tensor.ndim == 0 or tensor.shape[-1] == 1 != scores.shape[-1])
    return is_small and tensor.is_cpu and tensor.is_floating_point() and tensor.layout is _STRIDED


def in_native_memory(*tensors: Tensor) -> bool:
    """Says whether a native program may read and write these tensors; it may where autograd records them, too.

    Programs of structures call this before they are differentiated, where `context` would return `AUTOGRAD`.
    """
    if native is None:
        report_slowness(*tensors)
        return False
    if is_compiling() or transforms_active() or is_tracing() or _n_modes():
        return False
    for tensor in tensors:  # a generator would cost more than the tests
        if type(tensor) not in _PLAIN_TYPES or not tensor.is_cpu or tensor.dtype not in _NATIVE_DTYPES:
            return False
    return True


def needs_grad(*tensors: Any) -> bool:
    """Says whether autograd would have to record an operation on these inputs; numbers among them are ignored."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                return True
    return False


def on_host(*tensors: Tensor) -> bool:
    """Says whether these numbers are in the host's memory: to read one of another device is to wait for the device."""
    return all(tensor.is_cpu for tensor in tensors)


def is_concrete(tensor: Tensor) -> bool:
    """Says whether the tensor holds numbers (it is not fake or meta) and is of no subclass."""
    return type(tensor) in _PLAIN_TYPES and not tensor.is_meta


def is_tracing() -> bool:
    """Says whether `torch.jit.trace` (or the older ONNX exporter) records: it would take a kernel for a constant."""
    return _tracing_state() is not None


def exporting_to_onnx() -> bool:
    """Says whether `torch.onnx.export` is recording this call; its graph may hold standard operators only.

    `torch.onnx.is_in_onnx_export()` says the same, but TorchDynamo folds it to False: the exporter's own flag is read.
    """
    flags = sys.modules.get("torch.onnx._internal.exporter._flags")
    return flags is not None and bool(flags._is_onnx_exporting)


def apply_without_functorch(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Returns `function.apply` without its search for transforms. Inputs must have passed `unwrap_dead`."""
    return super(torch.autograd.Function, function).apply  # type: ignore[misc]


def dual_level_active() -> bool:
    """Says whether a forward-mode AD level is open."""
    return forward_ad._current_level >= 0


def has_tangent(tensor: Any) -> bool:
    """Says whether forward-mode AD carries a tangent with this tensor."""
    return isinstance(tensor, Tensor) and dual_level_active() and forward_ad.unpack_dual(tensor).tangent is not None


def outer_forward_mode() -> Any:
    """Returns a context for the `jvp` of a Function, where PyTorch switches off all forward mode, outer levels too.

    Without it `jacfwd(jacfwd(f))` would silently be zero. What was saved has to pass `without_tangent` inside it.
    """
    return forward_ad._set_fwd_grad_enabled(True)


def without_tangent(tensor: Tensor) -> Tensor:
    """Returns the tensor without the tangent of the innermost forward-mode level; outer levels keep theirs."""
    return forward_ad.unpack_dual(tensor).primal if tensor.is_floating_point() else tensor


def unwrapped(tensor: Tensor) -> Tensor:
    """Returns the plain tensor inside the wrappers of transforms: for constants, which a transform wraps too."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


# Whether `torch.autograd.grad(..., is_grads_batched=True)` passes several at once, in its own kind of vmap.
is_many_gradients = torch._C._functorch.is_legacy_batchedtensor


def detached(tensor: Tensor) -> Tensor:
    """Returns the tensor as a constant. Several gradients at once cannot be detached, and rarely need it."""
    return tensor if is_many_gradients(tensor) else tensor.detach()


def context_parallel_active() -> bool:
    """Whether `torch.distributed.tensor.experimental.context_parallel` has replaced PyTorch's own attention.

    Others replace it too, so its origin decides. The first line is all that graphs record.
    """
    attention = torch.nn.functional.scaled_dot_product_attention
    if attention is torch._C._nn.scaled_dot_product_attention:
        return False
    return str(getattr(attention, "__module__", "")).startswith("torch.distributed.tensor.experimental")


def report_slowness(*inputs: Any) -> None:
    """Warns once in a process that the compiled kernels are missing, at the first call that would have used them."""
    global slowness_reported
    if slowness_reported or is_compiling() or not any(isinstance(i, Tensor) and i.is_cpu for i in inputs):
        return
    slowness_reported = True
    warn(
        f"omegamax: compiled kernels are expected, got none ({_missing}), so PyTorch does their work, 20 to 1000 times "
        "slower; install a C++17 compiler and then omegamax again, as in pip install --force-reinstall --no-deps . in "
        "its clone, or set OMEGAMAX_KERNELS=reference to keep the slow kernels without this warning",
        SlowKernelsWarning,
    )


def has_hooks(module: torch.nn.Module) -> bool:
    """Says whether somebody is called when the module is: then it has to be called."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def autocasts(tensor: Tensor) -> bool:
    """Says whether `torch.autocast` is on for the device of a tensor."""
    return torch.is_autocast_enabled(tensor.device.type)


def in_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Makes a loss or a distance behave under `torch.autocast` as PyTorch's own do: computed and returned in float32.

    Half-precision arguments become float32 and the function runs with autocast switched off; gradients have the type
    of the arguments. Without autocast nothing changes.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Tensor:
        devices = {tensor.device.type for tensor in _tensors_in((*arguments, *options.values()))}
        casting = [device for device in devices if torch.is_autocast_enabled(device)]
        if not casting:
            return function(*arguments, **options)
        with torch.autocast(casting[0], enabled=False):
            wide = {name: _single(option) for name, option in options.items()}
            return function(*(_single(argument) for argument in arguments), **wide)

    return wrapped


def _tensors_in(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors_in(value)


def _single(value: Any) -> Any:
    """Converts half-precision tensors, also those in (named) tuples, to float32."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if isinstance(value, tuple):
        wide = [_single(each) for each in value]
        return type(value)(*wide) if hasattr(value, "_fields") else tuple(wide)
    return value
