"""The processes that torchrun started: how they exchange numbers, what they do when one dies, and how they stop.

The data are parallel: every process computes the gradient of its share of each batch. DDP keeps the whole model in each
process; FSDP2 (`fully_shard`) keeps a shard of parameters, gradients and moments, and gathers parameters when they are
needed. Rank 0 is the one process that writes files and prints.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from omegamax.errors import DeviceError, RecipeError, WorkerError
from omegamax.training.task import Task

T = TypeVar("T")
_CPU = torch.device("cpu")
_REPLY_TIMEOUT = timedelta(seconds=3)  # for the other processes to say that they still run
_LOST_CONTACT = ("gloo", "peer", "timed out", "nccl", "connection", "store")  # in errors after a process has died


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as one of them sees them."""

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the one process that writes files and prints."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Returns the sum of each number over all processes."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes, in order of rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def on_rank_zero(self, function: Callable[[], T]) -> T:
        """Calls a function on rank 0 and returns its result on every process; if it raises, all of them raise."""
        if self.size == 1:
            return function()
        message: list[Any] = [None, None]  # the result, or the text of the error
        failure: Exception | None = None
        if self.is_rank_zero:
            try:
                message[0] = function()
            except Exception as error:
                failure = error
                message[1] = str(error)
        dist.broadcast_object_list(message, src=0)
        if failure is not None:
            raise failure
        if message[1] is not None:
            raise RecipeError(message[1])
        return message[0]


SINGLE_PROCESS = Processes()


@contextlib.contextmanager
def join_processes(device: str = "auto") -> Iterator[Processes]:
    """Joins the processes that torchrun started; without torchrun, this process is the only one."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = _find_device(device)
    if size == 1:
        yield Processes(device=chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    store, _, _ = next(dist.rendezvous("env://"))
    notes = dist.PrefixStore("omegamax", store)
    group = dist.PrefixStore("group", store)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", store=group, rank=rank, world_size=size)
    with _delay_termination():
        try:
            yield Processes(rank, size, chosen)
        except RecipeError:  # all processes have raised it
            raise
        except Exception as error:
            if not _is_lost_contact(error):
                with contextlib.suppress(RuntimeError):
                    notes.set(f"failed/{rank}", f"{type(error).__name__}: {error}".partition("\n")[0])
                raise
            raise WorkerError(_describe_lost(notes, rank, size)) from error
        finally:
            dist.destroy_process_group()


@contextlib.contextmanager
def _delay_termination() -> Iterator[None]:
    """Lets a process run for ten seconds after SIGTERM, which torchrun sends to all when one of them has died.

    In that time the process finds out which one died and prints it.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "alarm"):
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.alarm(10))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        torch.zeros(1, device=name).item()  # a name alone does not say that the device is here
        return torch.device(name)
    except (RuntimeError, NotImplementedError, AssertionError) as error:  # kinds of devices raise different ones
        raise DeviceError(
            f"device must be auto, cpu, cuda or another one that PyTorch has here, got {name!r}; "
            "choose it with --device"
        ) from error


def _is_lost_contact(error: Exception) -> bool:
    is_of_torch = isinstance(error, (RuntimeError, dist.DistError))
    return is_of_torch and any(word in str(error).lower() for word in _LOST_CONTACT)


def _describe_lost(notes: dist.Store, rank: int, size: int) -> str:
    """Says which processes do not reply, and with which errors others ended."""
    others = [other for other in range(size) if other != rank]
    try:
        notes.set(f"present/{rank}", "yes")
        ends = {}
        for other in others:
            if notes.check([f"failed/{other}"]):
                ends[other] = notes.get(f"failed/{other}").decode()
                continue
            try:
                notes.wait([f"present/{other}"], _REPLY_TIMEOUT)
            except RuntimeError:
                ends[other] = "it died without a message"
    except RuntimeError:  # the store is gone, and with it rank 0, which keeps it
        ends = {0: "it died without a message"}
    lost = "; ".join(f"rank {other} of {size} ended ({how})" for other, how in ends.items())
    return f"{lost or 'contact with another rank was lost'}, so rank {rank} stops too"


# The model on several processes


def distribute_model(task: Task, model: nn.Module, processes: Processes, *, sharding: str) -> nn.Module:
    """Wraps a model so that its gradients are averaged over processes."""
    if processes.size == 1:
        return model
    if sharding == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(processes.device.type, (processes.size,))
    for block in task.blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def unwrap_model(model: nn.Module) -> nn.Module:
    """Returns the task's own model, in which parameters have their own names."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def full_tensor(tensor: Tensor) -> Tensor:
    """Returns the whole tensor of which this may be a shard; every process must call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def full_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Returns whole parameters and buffers on every process; every process must call it."""
    return {name: full_tensor(tensor) for name, tensor in unwrap_model(model).state_dict().items()}


def exchange_gradients(model: nn.Module, *, last: bool) -> contextlib.AbstractContextManager[None]:
    """Returns a context for a backward pass. Processes exchange gradients only in the last pass of a batch.

    In the passes before, each process adds up its own gradients.
    """
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    synchronise: Any = getattr(model, "set_requires_gradient_sync", None)  # of FSDP2
    if synchronise is None:
        return contextlib.nullcontext()
    synchronise(last)
    return _without_view_warnings()


@contextlib.contextmanager
def _without_view_warnings() -> Iterator[None]:
    with warnings.catch_warnings():  # FSDP2 warns that outputs are views and might be changed in place: ours are not
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        yield


# Signals


class Interrupted(Exception):  # noqa: N818  (not an error)
    """Raised inside an evaluation when a signal stops training."""


class StopSignals:
    """A context that remembers Ctrl-C and SIGTERM, so that training stops between two steps and not within one.

    A second Ctrl-C raises KeyboardInterrupt at once if `repeat_stops_at_once`. Under torchrun it must not, because the
    launcher repeats the signal to processes that are already saving.
    """

    def __init__(self, *, repeat_stops_at_once: bool) -> None:
        self.requested = False
        self._repeat_stops_at_once = repeat_stops_at_once
        self._interruptible = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and self._repeat_stops_at_once and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        if self._interruptible:
            self._interruptible = False
            raise Interrupted

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Returns a context that a signal ends at once with `Interrupted`, for work whose result may be thrown away."""
        if self.requested:
            raise Interrupted
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False
