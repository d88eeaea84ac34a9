"""Timing on a noisy machine: rounds of every contestant in turn, and the fastest round of each."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import omegamax
from omegamax import routing

RESULTS = Path(__file__).parent / "results"

PEERS = (
    "entmax",
    "pytorch-crf",
    "torch-struct",
    "tslearn",
    "aeon",
    "dtaidistance",
    "pysdtw",
    "soft-dtw",
    "numba",
    "ufal.chu_liu_edmonds",
)

Section = tuple[str, list[str], list[list[object]]]  # heading, header, rows

clock = time.perf_counter  # or time.process_time, for one thread on a machine that others keep busy


def fastest(contestants: dict[str, Callable[[], object]], *, seconds: float = 0.4, least: int = 5) -> dict[str, float]:
    """Seconds per call of each contestant. They take turns, so that a busy moment hits all of them."""
    for run in contestants.values():
        run()
    best = dict.fromkeys(contestants, float("inf"))
    start, rounds = clock(), 0
    gc.disable()
    while rounds < least or clock() - start < seconds * len(contestants):
        for name, run in contestants.items():
            before = clock()
            run()
            best[name] = min(best[name], clock() - before)
        rounds += 1
    gc.enable()
    return best


def both_ways(
    function: Callable[..., torch.Tensor], *inputs: torch.Tensor, gradient: torch.Tensor | None = None
) -> Callable[[], None]:
    """A forward and a backward pass: the gradient, in every input, of the function's sum, or of <gradient, output>."""
    leaves = [x.clone().requires_grad_() for x in inputs]

    def once() -> None:
        output = function(*leaves)
        torch.autograd.grad(output.sum() if gradient is None and output.dim() else output, leaves, gradient)

    return once


def versions(peers: Sequence[str] = PEERS) -> dict[str, str]:
    """What was measured, on what, beside which other packages."""
    native = routing.native
    found = {"omegamax": omegamax.__version__, "torch": torch.__version__, "python": platform.python_version()}
    for peer in peers:
        try:
            found[peer] = metadata.version(peer)
        except metadata.PackageNotFoundError:
            found[peer] = "not installed"
    found["kernels"] = "reference" if native is None else f"native ({native.arch()})"
    found["clock"] = clock.__name__
    found["threads"] = str(torch.get_num_threads())
    found["cores"] = str(os.cpu_count())
    found["torch cpu capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def run(
    name: str,
    title: str,
    description: str | None,
    sections: Callable[[argparse.Namespace], list[Section]],
    *,
    seconds: float = 0.4,
    add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> None:
    """The main program of a benchmark: reads the options, measures, writes the tables."""
    global clock
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=seconds, help="per contestant and cell (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default=clock.__name__)
    parser.add_argument("--arch", help="instruction set of the kernels: v4 (AVX-512), v3 (AVX2) or baseline")
    add_options(parser)
    options = parser.parse_args()
    clock = getattr(time, options.clock)
    if options.arch is not None:
        routing.native.use_arch(options.arch)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    write(name, title, sections(options), suffix="" if options.arch is None else f"_{options.arch}")


def write(name: str, title: str, sections: list[Section], *, suffix: str = "", peers: Sequence[str] = PEERS) -> None:
    """Tables as Markdown for people and JSON for programs, with the versions, in `name` + `suffix`."""
    RESULTS.mkdir(exist_ok=True)
    lines = [
        f"# {title}",
        "",
        f"Made by `benchmarks/{name}.py`. " + "; ".join(f"{k} {v}" for k, v in versions(peers).items()),
        "",
    ]
    for heading, header, rows in sections:
        lines += [f"## {heading}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows] + [""]
    (RESULTS / f"{name}{suffix}.md").write_text("\n".join(lines))
    data = {"versions": versions(peers), "sections": [{"heading": h, "header": c, "rows": r} for h, c, r in sections]}
    (RESULTS / f"{name}{suffix}.json").write_text(json.dumps(data, indent=1) + "\n")
    print("\n".join(lines))


def read_cells(name: str) -> list[dict[str, Any]]:
    """Returns what long benchmarks keep: a line for each cell that was ever finished, here or on another machine."""
    file = RESULTS / f"{name}_cells.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def add_cell(name: str, cell: dict[str, Any]) -> None:
    """Keeps a finished cell beside the tables, so that they can be written again without its run."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}_cells.jsonl").open("a") as file:
        file.write(json.dumps(cell) + "\n")


def _cell(cell: object) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
