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
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
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


_MOVES = (
    "cpu",
    "numpy",
    "tolist",
    "to",
)  # `tolist` and `numpy` move a tensor of the CPU nowhere, so nothing dispatches


class HostReads(TorchDispatchMode):
    """Lists the waiting operations by name, each with the line of omegamax that called it.

    Numbers of tensors that never were on the device, such as a topology of indices, are free to read: an operation
    counts if one of its inputs was computed from `inputs`. What `.cpu()` returns is on the host, and free until
    `.to(device)` moves it back.
    """

    def __init__(self, *inputs):
        super().__init__()
        self.found = Counter()
        self._kept = list(inputs)  # so that no address is used twice
        self._storages = {_storage(tensor) for tensor in inputs}

    def __enter__(self):
        self._own = {name: getattr(torch.Tensor, name) for name in _MOVES}
        for name, own in self._own.items():
            setattr(torch.Tensor, name, self._moving(name, own))
        return super().__enter__()

    def __exit__(self, *error):
        for name, own in self._own.items():
            setattr(torch.Tensor, name, own)
        return super().__exit__(*error)

    def _moving(self, name, own):
        """The method of tensors, which notes a move of a tensor of the device to the host."""

        def method(tensor, *args, **kwargs):
            given = (*args, kwargs.get("device"))[0]  # `torch.device("cpu")` is the device that the CPU stands in for
            to_host = name != "to" or (isinstance(given, str) and given == "cpu")
            to_device = isinstance(given, torch.device) or (isinstance(given, torch.Tensor) and self._is_here(given))
            if name == "to" and to_device and not self._is_here(tensor):
                with _disable_current_modes():
                    return self._keep(own(tensor.clone(), *args, **kwargs))
            if not to_host or not self._is_here(tensor):
                return own(tensor, *args, **kwargs)
            self.found[f"{name} in {_caller()}"] += 1
            with _disable_current_modes():  # a copy that does not count as one of the device
                return own(tensor.clone(), *args, **kwargs)

        return method

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = [each for each in _tensors((args, kwargs or {})) if self._is_here(each)]
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
                self._keep(each)
        return result

    def _is_here(self, tensor):
        return _storage(tensor) in self._storages

    def _keep(self, tensor):
        self._kept.append(tensor)
        self._storages.add(_storage(tensor))
        return tensor


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

    The operators ~ and [] and a few methods ask PyTorch's CPU build for the device themselves, before the mode sees
    them; here they call the functions that they stand for, which do not.
    """
    own = {name: getattr(torch.Tensor, name) for name in _OPERATORS}
    for name, function in _OPERATORS.items():
        setattr(torch.Tensor, name, function)
    try:
        with FakeTensorMode() as mode:
            yield mode
    finally:
        for name, function in own.items():
            setattr(torch.Tensor, name, function)


def _item(tensor, index):
    """tensor[index] by views, and then by tensors or lists of places."""
    index = list(index) if isinstance(index, tuple) else [index]
    n_axes = sum(1 if not isinstance(i, torch.Tensor) or i.dtype is not torch.bool else i.dim() for i in index)
    n_axes -= sum(i is None or i is Ellipsis for i in index)
    if not any(i is Ellipsis for i in index):
        index.append(Ellipsis)
    at = next(place for place, i in enumerate(index) if i is Ellipsis)
    index[at : at + 1] = [slice(None)] * (tensor.dim() - n_axes)
    axis, places = 0, []
    for i in index:
        if i is None:
            tensor = torch.unsqueeze(tensor, axis)
        elif isinstance(i, int):
            tensor = torch.select(tensor, axis, i)
            continue
        elif isinstance(i, slice):
            if i != slice(None):
                start = 0 if i.start is None else i.start
                stop = 2**63 - 1 if i.stop is None else i.stop
                tensor = torch.ops.aten.slice.Tensor(tensor, axis, start, stop, 1 if i.step is None else i.step)
        else:
            given = i if isinstance(i, torch.Tensor) else torch.tensor(i, device=tensor.device)
            places += [None] * (axis - len(places)) + [given]
        axis += 1
    return tensor, places


def _get(tensor, index):
    viewed, places = _item(tensor, index)
    return torch.ops.aten.index.Tensor(viewed, places) if places else viewed


def _set(tensor, index, value):
    viewed, places = _item(tensor, index)
    value = (
        value if isinstance(value, torch.Tensor) else torch.full((), value, dtype=tensor.dtype, device=tensor.device)
    )
    if places:
        torch.ops.aten.index_put_.default(viewed, places, value)
    else:
        torch.ops.aten.copy_.default(viewed, value)


_OPERATORS = {
    "__invert__": lambda tensor: torch.bitwise_not(tensor),
    "__getitem__": _get,
    "__setitem__": _set,
    "contiguous": lambda tensor: torch.clone(tensor, memory_format=torch.contiguous_format),
    "mT": property(lambda tensor: torch.transpose(tensor, -2, -1)),
}


def fake(tensor, device="cuda"):
    """A tensor without numbers, of the same shape and type, on the device; to be called inside `fake_cuda`."""
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device=device)


def devices(tree):
    """The kinds of device of the tensors in a result."""
    return {each.device.type for each in _tensors(tree)}
