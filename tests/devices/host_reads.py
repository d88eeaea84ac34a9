"""Finds where a program would make the host wait for a device; needs no device.

Two detectors. `fake_cuda` runs a program on tensors that have a shape, the device "cuda" and no numbers: a tensor
made on the wrong device, and Python that reads a number, raise. `HostReads` runs it on plain tensors that stand in for
those of a device, with their numbers, and lists every operation for which the host would have to wait.
"""

import contextlib
import traceback
from collections import Counter

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from omegamax import routing

# The operations after which the host must know a number of the device: the number itself, or the shape of the result.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::is_nonzero",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::repeat_interleave.Tensor",
    "aten::bincount",
}


class HostReads(TorchDispatchMode):
    """Lists the waiting operations by name, each with the line of omegamax that called it.

    Numbers of tensors that never were on the device, such as a topology of indices, are free to read: an operation
    counts if one of its inputs was computed from `inputs`.
    """

    def __init__(self, *inputs):
        super().__init__()
        self.found = Counter()
        self._kept = list(inputs)  # so that no address is used twice
        self._storages = {_storage(tensor) for tensor in inputs}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = [each for each in _tensors((args, kwargs or {})) if _storage(each) in self._storages]
        result = function(*args, **(kwargs or {}))
        if given:
            name = function._schema.name
            boolean_index = name in ("aten::index", "aten::index_put_") and any(
                each is not None and each.dtype is torch.bool for each in args[1]
            )
            full_name = f"{name}.{function._overloadname}"
            if name in WAITING or full_name in WAITING or boolean_index:
                self.found[f"{name.removeprefix('aten::')} in {_caller()}"] += 1
            for each in _tensors(result):
                self._kept.append(each)
                self._storages.add(_storage(each))
        return result


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def _tensors(tree):
    found = []
    tree_map(lambda each: found.append(each) if isinstance(each, torch.Tensor) else None, tree)
    return found


def _caller():
    """The innermost line of omegamax on the stack."""
    for frame in reversed(traceback.extract_stack()):
        if "omegamax" in frame.filename and "/tests/" not in frame.filename:
            return f"{frame.filename.rpartition('omegamax/')[2]}:{frame.lineno} ({frame.name})"
    return "a test"


@contextlib.contextmanager
def standing_in_for_a_device(monkeypatch):
    """Makes the library treat tensors of the CPU as it treats those of a device."""
    with monkeypatch.context() as patched:
        patched.setattr(routing, "native", None)
        patched.setattr(routing, "on_host", lambda *tensors: False)
        yield


def host_reads(function, *inputs):
    """Runs the function and returns what `HostReads` found."""
    with HostReads(*inputs) as reads:
        function(*inputs)
    return dict(reads.found)


@contextlib.contextmanager
def fake_cuda():
    """A place for tensors that have the device "cuda" and no numbers, on a machine without one.

    The operator ~ asks PyTorch's CPU build for the device itself, before the mode sees it; the function does not.
    """
    invert = torch.Tensor.__invert__
    torch.Tensor.__invert__ = lambda tensor: torch.bitwise_not(tensor)
    try:
        with FakeTensorMode() as mode:
            yield mode
    finally:
        torch.Tensor.__invert__ = invert


def fake(tensor, device="cuda"):
    """A tensor without numbers, of the same shape and type, on the device; to be called inside `fake_cuda`."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=device)


def devices(tree):
    """The kinds of device of the tensors in a result."""
    return {each.device.type for each in _tensors(tree)}
