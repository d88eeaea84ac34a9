"""Decides how many threads to compute with, and whether the model fits into memory.

Training computes with one thread or with all that PyTorch has, whichever a short trial finds faster.

A small model is made of operations that take microseconds. After each of them the threads of PyTorch's OpenMP team wait
for the next one by spinning, and where another process uses their core, an operation waits for a thread that has no
core. So all threads may take many times as long as one: 2 to 10 s a step instead of 0.1 s on two busy cores, with 20 to
90 times the processor time; 1.2 times where waiting threads sleep (OMP_WAIT_POLICY=passive, which the commands set).
How large a model must be to gain from them depends on the machine and on what else runs there, so it is measured.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from omegamax.data.batches import epoch_batches
from omegamax.errors import DataError
from omegamax.training import random_state
from omegamax.training.task import Task

_ROUNDS = 5
_SECONDS = 2.0  # after which no further round is begun
_GAIN = 0.9  # all threads are taken if they need at most this share of the time: they cost more processor time
_CLEAR = 2.0  # times as long: no further round is needed
_MANY_PARAMETERS = 10_000_000
_COPIES = 4  # of every parameter while it is trained: itself, its gradient and two moments


@contextlib.contextmanager
def using_threads(n_threads: int) -> Iterator[None]:
    """Returns a context that computes with this many threads, and restores the number afterwards; 0 changes nothing."""
    before = torch.get_num_threads()
    try:
        if n_threads > 0:
            torch.set_num_threads(n_threads)
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def faster_threads(function: Callable[[], Any]) -> tuple[int, str]:
    """Returns 1 or the number of all threads, whichever repeats a call faster, and a sentence with the times.

    Both are timed in turns, after one turn each that is not counted, and the shortest times are compared: other
    processes on the machine then delay both alike.
    """
    all_threads = torch.get_num_threads()
    if all_threads == 1:
        return 1, ""
    best = {1: float("inf"), all_threads: float("inf")}
    began = time.perf_counter()
    for turn in range(_ROUNDS + 1):
        for n_threads in best:
            with using_threads(n_threads):
                start = time.perf_counter()
                function()
                if turn > 0:
                    best[n_threads] = min(best[n_threads], time.perf_counter() - start)
        ratio = best[all_threads] / best[1] if turn else 1.0
        late = time.perf_counter() - began > _SECONDS and turn > 0
        if late or (turn > 1 and max(ratio, 1 / ratio) > _CLEAR):
            break
    chosen = all_threads if best[all_threads] <= _GAIN * best[1] else 1
    times = f"{1e3 * best[1]:.3g} ms with 1 thread, {1e3 * best[all_threads]:.3g} with {all_threads}"
    return chosen, f"a step takes {times}: using {chosen} (--threads N forces a number)"


def threads_for_training(
    task: Task, model: nn.Module, examples: Sequence[Any], lengths: Sequence[Sequence[int]], batch_size: int
) -> tuple[int, str]:
    """Returns the faster number of threads for a step on a batch of middle size, and a sentence with the times.

    The model and all random numbers stay as they are.
    """
    batches = epoch_batches(lengths, batch_size=batch_size, seed=0, epoch=0)
    batches.sort(key=lambda batch: sum(sum(lengths[at]) for at in batch))
    middle = [examples[at] for at in batches[len(batches) // 2]]
    copied = copy.deepcopy(model).train()

    def step() -> None:
        copied.zero_grad(set_to_none=True)
        task.loss(copied, task.batch_for(copied, middle)).total.backward()

    with random_state.isolated(0):
        return faster_threads(step)


def threads_for_prediction(task: Task, model: nn.Module, examples: Sequence[Any], batch_size: int) -> int:
    """Returns the faster number of threads for predictions.

    The trial computes the loss of one batch, whose operations are as large as those of a prediction. A single batch is
    not worth a trial: it gets 1 thread, or all of them if the model is large.
    """
    if len(examples) <= batch_size:
        return (
            1
            if sum(parameter.numel() for parameter in model.parameters()) < _MANY_PARAMETERS
            else torch.get_num_threads()
        )
    batch = task.batch_for(model, examples[:batch_size])
    with torch.no_grad(), random_state.isolated(0):
        return faster_threads(lambda: task.loss(model, batch))[0]


def model_shapes(task: Task) -> nn.Module | None:
    """Returns the model with shapes but without numbers; None if its constructor reads numbers."""
    try:
        with torch.device("meta"):
            return task.model()
    except (RuntimeError, NotImplementedError) as error:
        if "meta" in str(error):
            return None
        raise


def check_memory(task: Task) -> None:
    """Raises DataError if training the model needs more memory than the machine has, before any of it is taken."""
    model, available = model_shapes(task), _memory()
    if model is None or available is None:
        return
    needed = _COPIES * sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    if needed > available:
        raise DataError(
            f"training must fit into the memory of this machine, {available / 2**30:.3g} GiB, but this model needs "
            f"at least {needed / 2**30:.3g} GiB; choose smaller sizes, such as --hidden-size or --max-tokens"
        )


def _memory() -> int | None:
    """Returns the bytes of the machine; None if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
