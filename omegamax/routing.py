"""How a computation is reached: the one file that decides, and the one that touches private names of PyTorch.

| context                                   | what runs                                              |
|-------------------------------------------|--------------------------------------------------------|
| plain CPU tensors, no gradient asked      | the bare native kernel                                 |
| autograd or forward-mode AD               | an autograd Function around it                         |
| `torch.func` transforms                   | the same Function in `setup_context` form, with vmap   |
| `torch.compile`, `torch.export`, `make_fx`, fake, meta, subclasses | the registered operator `omegamax::solve` |
| ONNX export, other devices                | the PyTorch twin                                       |
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

try:
    native: Any = importlib.import_module("omegamax._native")
except ImportError:  # installed without a compiler: the PyTorch twins do all the work
    native = None

if os.environ.get("OMEGAMAX_KERNELS", "").lower() == "reference":
    native = None

_PLAIN_TYPES = (Tensor, Parameter)
_NATIVE_DTYPES = (torch.float32, torch.float64)
_STRIDED = torch.strided

is_compiling = torch.compiler.is_compiling
transforms_active = torch._C._are_functorch_transforms_active
alive = torch._C._functorch.unwrap_if_dead  # a tensor that outlived its transform, without what that left around it
outside_transforms = torch._C._DisableFuncTorch  # a context: tensors made inside are plain
# How many modes watch every operation (fake tensors, `make_fx`, counters): they would not see a bare kernel, and what
# it allocates under them may have no memory.
watching_modes = torch._C._len_torch_dispatch_stack


def plain_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`function.apply` without its look for transforms, for where there are none and the inputs are `alive`."""
    return super(torch.autograd.Function, function).apply  # type: ignore[misc]


def dual_level_active() -> bool:
    """Whether a forward-mode AD level is open."""
    return forward_ad._current_level >= 0


def has_tangent(tensor: Any) -> bool:
    """Whether forward-mode AD carries a tangent with this tensor."""
    return isinstance(tensor, Tensor) and dual_level_active() and forward_ad.unpack_dual(tensor).tangent is not None


def outer_forward_mode() -> Any:
    """A context for the `jvp` of a Function: PyTorch switches forward mode off there, also that of an outer transform.

    Without it `jacfwd(jacfwd(f))` would be zero in silence. What was saved has to pass `without_tangent` inside it.
    """
    return forward_ad._set_fwd_grad_enabled(True)


def without_tangent(tensor: Tensor) -> Tensor:
    """The tensor without the tangent of the innermost forward-mode level; outer levels keep theirs."""
    return forward_ad.unpack_dual(tensor).primal if tensor.is_floating_point() else tensor


def is_tracing() -> bool:
    """Whether `torch.jit.trace` (or the older ONNX exporter) is recording: a bare kernel would become a constant."""
    return torch._C._get_tracing_state() is not None


def exporting_to_onnx() -> bool:
    """Whether `torch.onnx.export` is recording this call; its graph may hold standard operators only.

    `torch.onnx.is_in_onnx_export()` asks the same, but TorchDynamo folds it to False: the exporter's own flag is read.
    """
    flags = sys.modules.get("torch.onnx._internal.exporter._flags")
    return flags is not None and bool(flags._is_onnx_exporting)


def is_concrete(tensor: Tensor) -> bool:
    """Whether the tensor holds numbers (it is not fake or meta) and is nobody's subclass."""
    return type(tensor) in _PLAIN_TYPES and not tensor.is_meta


def is_bare(scores: Any) -> bool:
    """Whether scores are dense rows of plain numbers, and only numbers are wanted: native kernels may have them."""
    return (
        native is not None
        and not is_compiling()
        and type(scores) in _PLAIN_TYPES
        and not (scores.requires_grad and torch.is_grad_enabled())
        and scores.is_cpu
        and scores.dtype in _NATIVE_DTYPES
        and scores.layout is _STRIDED
        and scores.ndim > 0
        and not transforms_active()
        and forward_ad._current_level < 0
        and torch._C._get_tracing_state() is None
        and not watching_modes()
    )


def holds_rows(scores: Tensor) -> bool:
    """Whether a native kernel may have these scores, where the context has been looked at (inside a Function)."""
    return (
        native is not None
        and scores.is_cpu
        and scores.dtype in _NATIVE_DTYPES
        and scores.layout is _STRIDED
        and scores.ndim > 0
    )


def unwrapped(tensor: Tensor) -> Tensor:
    """The plain tensor inside those of transforms: for constants, which a transform wraps like everything else."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


# Whether `torch.autograd.grad(..., is_grads_batched=True)` passes several at once, in its own kind of vmap.
is_many_gradients = torch._C._functorch.is_legacy_batchedtensor


def detached(tensor: Tensor) -> Tensor:
    """The tensor as a constant. Several gradients at once cannot be detached, and rarely have anything to detach."""
    return tensor if is_many_gradients(tensor) else tensor.detach()


def needs_grad(*tensors: Any) -> bool:
    """Whether autograd would have to record an operation on these inputs; numbers among them are ignored."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                return True
    return False


def records_plainly(scores: Tensor, *parameters: Tensor) -> bool:
    """Whether autograd records an operation on these inputs and nothing else looks on."""
    return (
        needs_grad(scores, *parameters)
        and is_concrete(scores)
        and not is_compiling()
        and not transforms_active()
        and forward_ad._current_level < 0
        and torch._C._get_tracing_state() is None
        and not watching_modes()
    )


def holds_native_memory(*tensors: Tensor) -> bool:
    """Whether a native program may read and write these tensors: inside an autograd Function gradients are its own."""
    if native is None or is_compiling() or transforms_active() or is_tracing() or watching_modes():
        return False
    return all(type(t) in _PLAIN_TYPES and t.is_cpu and t.dtype in _NATIVE_DTYPES for t in tensors)


def runs_native(*inputs: Any) -> bool:
    """Whether the native kernel may run on these inputs; numbers among them are ignored.

    Gradient-carrying inputs go to the twin, which is made of differentiable operations: that is how the
    product kernels are differentiated again.
    """
    if native is None or is_compiling() or transforms_active() or dual_level_active() or watching_modes():
        return False
    grad_enabled = torch.is_grad_enabled()
    for tensor in inputs:
        if type(tensor) in _PLAIN_TYPES:
            if not tensor.is_cpu or (grad_enabled and tensor.requires_grad):
                return False
            if tensor.dtype not in _NATIVE_DTYPES and tensor.is_floating_point():
                return False
        elif type(tensor) is not float and isinstance(tensor, Tensor):
            return False
    last = inputs[-1]  # where a gradient stands
    return not isinstance(last, Tensor) or not is_many_gradients(last)
