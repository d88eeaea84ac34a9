"""How many threads to compute with: one, or all that PyTorch has, whichever a short trial finds faster.

A small model is made of operations that take microseconds. After each of them the threads of PyTorch's OpenMP team wait
for the next one by spinning, and where another process wants their core, an operation waits for a thread that has no
core. So all threads may take many times as long as one: 2 to 10 s a step instead of 0.1 s on two busy cores, with 20 to
90 times the processor time; 1.2 times where waiting threads sleep (OMP_WAIT_POLICY=passive, which the commands set).
How large a model must be to gain from them depends on the machine and on what else runs there, so it is measured.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from omegamax.data.batches import epoch_batches
from omegamax.training import random_state
from omegamax.training.task import Task

_ROUNDS = 5
_SECONDS = 2.0  # after which no further round is begun
_GAIN = 0.9  # all threads are taken if they need at most this share of the time: they cost more processor time
_PLAIN = 2.0  # times as long: no further round is needed
_LARGE = 10_000_000  # parameters


@contextlib.contextmanager
def using_threads(n_threads: int) -> Iterator[None]:
    """Computes with so many threads, and afterwards with as many as before; 0 changes nothing."""
    before = torch.get_num_threads()
    try:
        if n_threads > 0:
            torch.set_num_threads(n_threads)
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def faster_threads(act: Callable[[], Any]) -> tuple[int, str]:
    """1 or all threads, whichever repeats an action faster, and a sentence with the times.

    The two take turns, after one turn each that is not counted, and the shortest times are compared: what else happens
    on the machine then delays both alike.
    """
    everything = torch.get_num_threads()
    if everything == 1:
        return 1, ""
    best = {1: float("inf"), everything: float("inf")}
    began = time.perf_counter()
    for turn in range(_ROUNDS + 1):
        for n_threads in best:
            with using_threads(n_threads):
                start = time.perf_counter()
                act()
                if turn > 0:
                    best[n_threads] = min(best[n_threads], time.perf_counter() - start)
        ratio = best[everything] / best[1] if turn else 1.0
        late = time.perf_counter() - began > _SECONDS and turn > 0
        if late or (turn > 1 and max(ratio, 1 / ratio) > _PLAIN):
            break
    chosen = everything if best[everything] <= _GAIN * best[1] else 1
    times = f"{1e3 * best[1]:.3g} ms with 1 thread, {1e3 * best[everything]:.3g} with {everything}"
    return chosen, f"a step takes {times}: using {chosen} (--threads N forces a number)"


def threads_for_training(
    task: Task, model: nn.Module, examples: Sequence[Any], lengths: Sequence[int], batch_size: int
) -> tuple[int, str]:
    """The faster number for a step on a batch of middle size; the model and all random numbers stay as they are."""
    batches = epoch_batches(lengths, batch_size=batch_size, seed=0, epoch=0)
    batches.sort(key=lambda batch: sum(lengths[at] for at in batch))
    middle = [examples[at] for at in batches[len(batches) // 2]]
    copied = copy.deepcopy(model).train()

    def act() -> None:
        copied.zero_grad(set_to_none=True)
        task.loss(copied, task.batch_for(copied, middle)).total.backward()

    with random_state.apart(0):
        return faster_threads(act)


def threads_for_prediction(task: Task, model: nn.Module, examples: Sequence[Any], batch_size: int) -> int:
    """The faster number for predictions; without a trial for a single batch: 1, or all if the model is large.

    The trial reads a batch and writes nothing, since operations are as large there as in a prediction.
    """
    if len(examples) <= batch_size:
        return 1 if sum(parameter.numel() for parameter in model.parameters()) < _LARGE else torch.get_num_threads()
    batch = task.batch_for(model, examples[:batch_size])
    with torch.no_grad(), random_state.apart(0):
        return faster_threads(lambda: task.loss(model, batch))[0]
