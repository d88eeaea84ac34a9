"""The row operators against torch.softmax and the `entmax` package: ratios of time in one run.

A cell is forward / forward + backward, each relative to torch.softmax on the same tensor. Below 1 is faster. A name
without a number stands for the operator as users get it: fusedmax and groupmax with strength 0.1, oscarmax with
min(0.01, 1/d), sqpnormmax with p = 1.5. The README's table is made by `python benchmarks/rows.py` on a quiet machine.
`--arch v3` measures what a processor with AVX2 but without AVX-512 runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import torch
from timing import Section, both_ways, fastest, run

import omegamax as om

SHAPES = [(4096, 64), (4096, 512), (1024, 4096), (64, 65536)]
SCORES = {
    "normal": lambda r, c: torch.randn(r, c),
    "×10": lambda r, c: 10 * torch.randn(r, c),
    "×0.1": lambda r, c: 0.1 * torch.randn(r, c),
    "constant": lambda r, c: torch.zeros(r, c),
}


def operators(rows: int, columns: int) -> dict:
    alpha = (1.3 + torch.zeros(rows, 1)).requires_grad_()
    groups = om.GroupLasso([i // 8 for i in range(columns)])
    return {
        "softmax": om.softmax,
        "sparsemax": om.sparsemax,
        "entmax15": om.entmax15,
        "entmax(1.3)": lambda x: om.entmax(x, alpha=1.3),
        "entmax(learnable)": lambda x: om.entmax(x, alpha=alpha if x.requires_grad else alpha.detach()),
        "sqpnormmax": om.sqpnormmax,
        "normmax": om.normmax,
        "fusedmax": om.fusedmax,
        "fusedmax(1)": lambda x: om.fusedmax(x, strength=1.0),
        "oscarmax": om.oscarmax,
        "groupmax": lambda x: om.smooth_argmax(x, groups),
    }


def ratios(seconds: float) -> list[list[object]]:
    table = []
    for rows, columns in SHAPES:
        for kind, make in SCORES.items():
            scores = make(rows, columns)
            gradient = torch.randn(rows, columns)
            line: list[object] = [f"{rows}×{columns}", kind]
            for name, function in operators(rows, columns).items():
                with torch.no_grad():
                    ahead = fastest(
                        {"torch": lambda: torch.softmax(scores, -1), "om": lambda: function(scores)}, seconds=seconds
                    )
                back = fastest(
                    {
                        "torch": both_ways(lambda x: torch.softmax(x, -1), scores, gradient=gradient),
                        "om": both_ways(function, scores, gradient=gradient),
                    },
                    seconds=seconds,
                )
                line.append(f"{ahead['om'] / ahead['torch']:.2f} / {back['om'] / back['torch']:.2f}")
                print(rows, columns, kind, name, line[-1], file=sys.stderr, flush=True)
            table.append(line)
    return table


def against_entmax(seconds: float) -> list[list[object]]:
    try:
        import entmax
    except ImportError:
        return []
    pairs = {
        "sparsemax": (om.sparsemax, lambda x: entmax.sparsemax(x, -1)),
        "entmax15": (om.entmax15, lambda x: entmax.entmax15(x, -1)),
        "entmax_bisect(1.3)": (lambda x: om.entmax(x, alpha=1.3), lambda x: entmax.entmax_bisect(x, 1.3, -1)),
    }
    table = []
    for rows, columns in SHAPES[:3]:
        scores, gradient = torch.randn(rows, columns), torch.randn(rows, columns)
        for name, (ours, theirs) in pairs.items():
            with torch.no_grad():
                ahead = fastest({"om": lambda: ours(scores), "peer": lambda: theirs(scores)}, seconds=seconds)
            back = fastest(
                {
                    "om": both_ways(ours, scores, gradient=gradient),
                    "peer": both_ways(theirs, scores, gradient=gradient),
                },
                seconds=seconds,
            )
            table.append([f"{rows}×{columns}", name, ahead["peer"] / ahead["om"], back["peer"] / back["om"]])
    return table


def tiny_calls() -> list[list[object]]:
    scores = torch.randn(4, 16)
    leaf = scores.clone().requires_grad_()
    n_calls = 200

    def many(function, x):
        def run() -> None:
            for _ in range(n_calls):
                function(x)

        return run

    functions = {"torch.softmax": lambda x: torch.softmax(x, -1), **operators(4, 16)}
    del functions["entmax(learnable)"]
    plain = fastest({k: many(f, scores) for k, f in functions.items()}, seconds=0.3, least=30)
    graph = fastest({k: many(f, leaf) for k, f in functions.items()}, seconds=0.3, least=30)
    return [[k, plain[k] / n_calls * 1e6, graph[k] / n_calls * 1e6] for k in functions]


def total_variation() -> list[list[object]]:
    """Inputs that make greedy algorithms quadratic, beside noise."""
    n = 65536
    t = torch.linspace(-1, 1, n)
    inputs = {
        "noise": torch.randn(n),
        "random walk": torch.randn(n).cumsum(0) / n**0.5,
        "ramp": t,
        "parabola": t.square(),
        "steps": (t * 40).floor() / 10,
        "slow sine": torch.sin(6 * t),
        "alternating": torch.tensor([1.0, -1.0]).repeat(n // 2) * (1 + t),
        "constant": torch.zeros(n),
    }
    table = []
    for strength in (0.1, 10.0):
        runs = {k: (lambda x=x: om.prox_tv1d(x, strength)) for k, x in inputs.items()}
        best = fastest(runs, seconds=0.2)
        table += [[k, strength, best[k] / n * 1e9, best[k] / best["noise"]] for k in inputs]
    return table


def import_time() -> list[list[object]]:
    script = "import time, torch; t = time.perf_counter(); import omegamax; print(time.perf_counter() - t)"
    best = min(float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(5))
    return [["import omegamax, after torch", best]]


def sections(options: argparse.Namespace) -> list[Section]:
    seconds = options.seconds
    return [
        (
            "Time relative to torch.softmax: forward / forward + backward",
            ["rows × columns", "scores", *operators(1, 8)],
            ratios(seconds),
        ),
        (
            "How many times faster than entmax (normal scores)",
            ["rows × columns", "operator", "forward", "forward + backward"],
            against_entmax(seconds),
        ),
        ("A call on a 4×16 tensor, µs", ["operator", "without grad", "with grad, forward"], tiny_calls()),
        ("Total variation, n = 65536", ["input", "strength", "ns per entry", "relative to noise"], total_variation()),
        ("Import, seconds", ["what", "seconds"], import_time()),
    ]


if __name__ == "__main__":
    run("rows", "Row operators", __doc__, sections)
