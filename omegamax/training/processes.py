"""Several processes under torchrun: who they are, what they tell each other, and what happens when one dies.

Data are parallel: every process computes the gradient of its share of each batch. DDP keeps the whole model in each;
FSDP2 (`fully_shard`) keeps a shard of parameters, gradients and moments, and gathers parameters when they are needed.
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
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from omegamax.errors import DeviceError, RecipeError, WorkerError
from omegamax.training.optimizer import whole
from omegamax.training.task import Task

Thing = TypeVar("Thing")
_CPU = torch.device("cpu")
_PATIENCE = timedelta(seconds=3)  # for the others to say that they live
_SILENCE = ("gloo", "peer", "timed out", "nccl", "connection", "store")  # words of errors that mean: a process is gone


@dataclass(frozen=True)
class Crew:
    """The processes of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU

    @property
    def first(self) -> bool:
        """The one process that writes and speaks."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Sums over processes."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def gather(self, thing: Thing) -> list[Thing]:
        """What each process has, in order of rank."""
        if self.size == 1:
            return [thing]
        things: list[Any] = [None] * self.size
        dist.all_gather_object(things, thing)
        return things

    def alone(self, act: Callable[[], Thing]) -> Thing:
        """What the first process got by acting alone, for all; if it failed, all fail."""
        if self.size == 1:
            return act()
        told: list[Any] = [None, None]
        failure: Exception | None = None
        if self.first:
            try:
                told[0] = act()
            except Exception as error:
                failure = error
                told[1] = str(error)
        dist.broadcast_object_list(told, src=0)
        if failure is not None:
            raise failure
        if told[1] is not None:
            raise RecipeError(told[1])
        return told[0]


@contextlib.contextmanager
def joined(device: str = "auto") -> Iterator[Crew]:
    """The crew that torchrun started, or this process alone."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = _device(device)
    if size == 1:
        yield Crew(device=chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    store, _, _ = next(dist.rendezvous("env://"))
    notes = dist.PrefixStore("omegamax", store)
    group = dist.PrefixStore("group", store)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", store=group, rank=rank, world_size=size)
    with _last_words():
        try:
            yield Crew(rank, size, chosen)
        except RecipeError:  # known to all
            raise
        except Exception as error:
            if not _silence(error):
                with contextlib.suppress(RuntimeError):
                    notes.set(f"failed/{rank}", f"{type(error).__name__}: {error}".partition("\n")[0])
                raise
            raise WorkerError(_roll_call(notes, rank, size)) from error
        finally:
            dist.destroy_process_group()


@contextlib.contextmanager
def _last_words() -> Iterator[None]:
    """Torchrun sends SIGTERM to those who outlive another: time for them to say what they saw, then the end."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "alarm"):
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.alarm(10))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def spread(task: Task, model: nn.Module, crew: Crew, *, sharding: str) -> nn.Module:
    """A model whose gradients are averaged over processes."""
    if crew.size == 1:
        return model
    if sharding == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(crew.device.type, (crew.size,))
    for block in task.blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def bare(model: nn.Module) -> nn.Module:
    """The task's own model, in which parameters have their own names."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, unsharded, on every process; all take part."""
    return {name: whole(tensor) for name, tensor in bare(model).state_dict().items()}


@contextlib.contextmanager
def backward_pass(model: nn.Module, *, last: bool) -> Iterator[None]:
    """Gradients travel with the last part of a batch only; those of the others are added up at home."""
    if isinstance(model, DistributedDataParallel) and not last:
        with model.no_sync():
            yield
        return
    synchronise: Any = getattr(model, "set_requires_gradient_sync", None)  # of FSDP2
    if synchronise is None:
        yield
        return
    synchronise(last)
    with warnings.catch_warnings():  # it warns of outputs that are views and might be changed in place: ours are not
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        yield


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        torch.zeros(1, device=name).item()  # a name alone does not say that the device is here
        return torch.device(name)
    except (RuntimeError, NotImplementedError, AssertionError) as error:  # as the kind of device has it
        raise DeviceError(
            f"device must be auto, cpu, cuda or another one that PyTorch has here, got {name!r}; "
            "choose it with --device"
        ) from error


def _silence(error: Exception) -> bool:
    return isinstance(error, (RuntimeError, dist.DistError)) and any(word in str(error).lower() for word in _SILENCE)


def _roll_call(notes: dist.Store, rank: int, size: int) -> str:
    """Who does not answer, and what those who failed said."""
    others = [other for other in range(size) if other != rank]
    try:
        notes.set(f"present/{rank}", "yes")
        said = {}
        for other in others:
            if notes.check([f"failed/{other}"]):
                said[other] = notes.get(f"failed/{other}").decode()
                continue
            try:
                notes.wait([f"present/{other}"], _PATIENCE)
            except RuntimeError:
                said[other] = "it died without a word"
    except RuntimeError:  # the store is gone, and with it the process that keeps it
        said = {0: "it died without a word"}
    who = "; ".join(f"rank {other} of {size} ended ({words})" for other, words in said.items())
    return f"{who or 'contact with another rank was lost'}, so rank {rank} stops too"
