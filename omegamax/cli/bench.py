"""The command `omegamax bench`, which times every operator against torch.softmax."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

from omegamax.cli import bench_device
from omegamax.cli.errors import CommandError
from omegamax.cli.parser import at_least, positive
from omegamax.cli.tables import aligned, terminal_width
from omegamax.training.settings import MAX_THREADS

_FEWEST_ROUNDS, _MOST_ROUNDS = 11, 1000

HELP = "time the operators on this machine"
DESCRIPTION = """\
Times every operator against torch.softmax on the same scores: 1 is as fast as
softmax, 0.5 twice as fast. In each round every operator is timed right after
softmax, and the ratio is printed that lies in the middle of all rounds, with
half the width of the range in which half of them lie. (The benchmarks of the
source tree, `make bench`, measure far more.)

With --device it times the operators and attention on that device, forward and
backward, in milliseconds, beside the peers that run there: PyTorch's softmax
and scaled_dot_product_attention, and AdaSplash if it is installed. On a GPU it
also prints the most memory that a forward and backward pass took."""
EXAMPLES = """\
examples:
  omegamax bench
  omegamax bench --rows 64 --columns 65536 --threads 1
  omegamax bench --spread 0.1                  flat scores, large supports
  omegamax bench --device cuda --json gpu.json
  omegamax bench --device cuda --sequence 4096 --dtype bfloat16"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the size and the spread of the scores."""
    parser.add_argument("--rows", metavar="N", type=at_least(1), default=4096, help="rows of scores (default: 4096)")
    parser.add_argument("--columns", metavar="N", type=at_least(1), default=512, help="scores in a row (default: 512)")
    parser.add_argument(
        "--spread", metavar="X", type=positive(1e30), default=1.0, help="their standard deviation (default: 1)"
    )
    parser.add_argument(
        "--seconds", metavar="X", type=positive(86_400), default=5.0, help="time to spend, about (default: 5)"
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(0, MAX_THREADS),
        default=0,
        help="threads of PyTorch; 0 leaves the number to PyTorch (default: 0)",
    )
    there = parser.add_argument_group("on a device")
    there.add_argument("--device", metavar="NAME", help="cuda, cuda:1, mps or cpu")
    there.add_argument("--batch", metavar="N", type=at_least(1), default=4, help="items of attention (default: 4)")
    there.add_argument("--heads", metavar="N", type=at_least(1), default=8, help="heads of attention (default: 8)")
    there.add_argument(
        "--sequence", metavar="N", type=at_least(1), default=1024, help="queries and keys (default: 1024)"
    )
    there.add_argument(
        "--head-size", metavar="N", type=at_least(1), default=64, help="entries of a query of a head (default: 64)"
    )
    there.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        default="float32",
        help="type of queries, keys and values (default: float32)",
    )
    there.add_argument("--json", metavar="FILE", type=Path, help="write the table there as well")
    there.add_argument("--overwrite", action="store_true", help="replace that file if it exists")


def run(options: argparse.Namespace) -> None:
    """Times the operators and prints the ratios."""
    import torch

    from omegamax import registry
    from omegamax.cli.info import describe

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    if options.device is not None:
        bench_device.run(options)
        return
    generator = torch.Generator().manual_seed(0)
    try:
        scores = options.spread * torch.randn(options.rows, options.columns, generator=generator)
    except (RuntimeError, MemoryError) as error:  # PyTorch has no type of its own for this
        raise CommandError(
            f"{options.rows} x {options.columns} scores do not fit into memory; give fewer --rows or --columns"
        ) from error
    contestants: dict[str, Callable[[Any], Any]] = {"torch.softmax": lambda x: torch.softmax(x, -1)}
    contestants |= {name: smooth.argmax for name, smooth in registry.lineup(options.columns).items()}
    forward = _ratios({name: _forward(f, scores) for name, f in contestants.items()}, options.seconds / 2)
    both = _ratios({name: _both(f, scores) for name, f in contestants.items()}, options.seconds / 2)
    rows = [["relative to torch.softmax", "forward", "forward + backward"]]
    rows.append(["torch.softmax", "1.00", "1.00"])
    rows += [[name, *(_shown(ratios[name]) for ratios in (forward, both))] for name in forward]
    size = f"{options.rows} x {options.columns}, float32, spread {options.spread:g}"
    rounds = min(len(ratios) for ratios in forward.values()), min(len(ratios) for ratios in both.values())
    print(f"{describe()}\n\n{size}, {rounds[0]} and {rounds[1]} rounds\n\n{aligned(rows, terminal_width())}")


def _forward(function: Callable[[Any], Any], scores: Any) -> Callable[[], None]:
    import torch

    def call() -> None:
        with torch.no_grad():
            function(scores)

    return call


def _both(function: Callable[[Any], Any], scores: Any) -> Callable[[], None]:
    import torch

    leaf, direction = scores.clone().requires_grad_(), torch.randn_like(scores)

    def call() -> None:
        torch.autograd.grad(function(leaf), leaf, direction)

    return call


def _ratios(calls: dict[str, Callable[[], None]], seconds: float) -> dict[str, list[float]]:
    """Times every call but the first, as a multiple of the first one right before it, round by round.

    Both are timed one after the other, so that other work on the machine slows them alike. Each round begins with
    another call, so that none always follows the same one.
    """
    (_, reference), *others = calls.items()
    repeats = {name: _repeats(call) for name, call in calls.items()}
    ratios: dict[str, list[float]] = {name: [] for name, _ in others}
    n_reference = next(iter(repeats.values()))
    end = time.perf_counter() + seconds
    for turn in range(_MOST_ROUNDS):
        if turn >= _FEWEST_ROUNDS and time.perf_counter() > end:
            break
        start = turn % len(others)
        for name, call in others[start:] + others[:start]:
            before = _shortest(reference, n_reference)
            ratios[name].append(_shortest(call, repeats[name]) / before)
    return ratios


def _repeats(call: Callable[[], None]) -> int:
    """Returns how often to call in a row for about a millisecond, so that the clock and cold caches matter little."""
    call()
    took = _shortest(call, 1)
    return max(1, min(200, round(1e-3 / max(took, 1e-7))))


def _shortest(call: Callable[[], None], n_calls: int) -> float:
    """Returns the seconds of a call: the shorter of two attempts, since other processes only make it longer."""
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        for _ in range(n_calls):
            call()
        best = min(best, time.perf_counter() - start)
    return best / n_calls


def _shown(ratios: list[float]) -> str:
    """Writes the middle of the ratios, and half the width of the middle half."""
    low, middle, high = quantiles(ratios, n=4)
    return f"{middle:.2f} ± {(high - low) / 2:.2f}"
