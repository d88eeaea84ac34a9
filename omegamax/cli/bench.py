"""`omegamax bench`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from omegamax.cli.parser import at_least
from omegamax.cli.refusal import Refused
from omegamax.cli.tables import aligned

HELP = "how fast the operators are on this machine"
DESCRIPTION = """\
Times every operator against torch.softmax on the same scores, in turns, and
prints the best of many turns as a ratio: 1 is as fast as softmax, 0.5 twice as
fast. (The benchmarks of the source tree, `make bench`, measure far more.)"""
EXAMPLES = """\
examples:
  omegamax bench
  omegamax bench --rows 64 --columns 65536 --threads 1
  omegamax bench --spread 0.1                  flat scores, large supports"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size and the spread of the scores."""
    parser.add_argument("--rows", metavar="N", type=at_least(1), default=4096, help="rows of scores (default: 4096)")
    parser.add_argument("--columns", metavar="N", type=at_least(1), default=512, help="scores in a row (default: 512)")
    parser.add_argument("--spread", metavar="X", type=float, default=1.0, help="their standard deviation (default: 1)")
    parser.add_argument("--seconds", metavar="X", type=float, default=5.0, help="time to spend, about (default: 5)")
    parser.add_argument(
        "--threads", metavar="N", type=at_least(0), default=0, help="of PyTorch; 0 leaves it to it (default: 0)"
    )


def run(options: argparse.Namespace) -> None:
    """Prints the ratios."""
    import torch

    from omegamax import registry
    from omegamax.cli.info import describe

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    try:
        scores = options.spread * torch.randn(options.rows, options.columns, generator=generator)
    except (RuntimeError, MemoryError) as error:  # PyTorch has no type of its own for this
        raise Refused(
            f"{options.rows} x {options.columns} scores do not fit into memory; give fewer --rows or --columns"
        ) from error
    contestants: dict[str, Callable[[Any], Any]] = {"torch.softmax": lambda x: torch.softmax(x, -1)}
    contestants |= {name: smooth.argmax for name, smooth in registry.lineup(options.columns).items()}
    forward = _best({name: _forward(f, scores) for name, f in contestants.items()}, options.seconds / 2)
    both = _best({name: _both(f, scores) for name, f in contestants.items()}, options.seconds / 2)
    rows = [["relative to torch.softmax", "forward", "forward + backward"]]
    for name in contestants:
        ratios = (times[name] / times["torch.softmax"] for times in (forward, both))
        rows.append([name, *(f"{ratio:.2f}" for ratio in ratios)])
    print(f"{describe()}\n\n{options.rows} x {options.columns}, float32, spread {options.spread:g}\n\n{aligned(rows)}")


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


def _best(calls: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    """The shortest time of each; all take turns, so that a busy moment hits them alike."""
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    for turn in range(1000):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn > 0:  # the first is a rehearsal
                best[name] = min(best[name], time.perf_counter() - start)
        if turn >= 3 and time.perf_counter() > end:
            break
    return best
