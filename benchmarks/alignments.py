"""Soft-DTW against the peers that install today: forward + backward, float32, ratios in one run; memory; growth.

The PyTorch peers (tslearn, pysdtw) get features, the compiled loops (soft-dtw, tslearn's numba) the matrix of costs.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from timing import Section, both_ways, fastest, run

import omegamax as om

SHAPES = [(32, 128), (1, 1024)]


def load(name: str):
    """A module, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as reason:  # a peer that does not even import is a result
        return f"not run: {type(reason).__name__}: {reason}"


def ours_on_features(x: torch.Tensor, y: torch.Tensor, omega: om.Regularizer) -> Callable[[], None]:
    return both_ways(lambda x: om.soft_dtw(x, y, regularizer=omega), x)


def ours_on_costs(costs: torch.Tensor, omega: om.Regularizer) -> Callable[[], None]:
    return both_ways(lambda costs: om.structures.soft_dtw_from_costs(costs, regularizer=omega), costs)


def on_features(loss: Callable, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    return both_ways(lambda x: loss(x, y), x)


def torch_peers(x: torch.Tensor, y: torch.Tensor) -> dict[str, Callable[[], None] | str]:
    tslearn, pysdtw = load("tslearn.metrics"), load("pysdtw")
    return {
        "tslearn SoftDTWLossPyTorch": tslearn
        if isinstance(tslearn, str)
        else on_features(tslearn.SoftDTWLossPyTorch(gamma=1.0), x, y),
        "pysdtw": pysdtw if isinstance(pysdtw, str) else on_features(pysdtw.SoftDTW(gamma=1.0, use_cuda=False), x, y),
    }


def compiled_peers(costs: torch.Tensor) -> dict[str, Callable[[], None] | str]:
    matrices = costs.double().numpy()  # what they compute in
    batch, m, n = matrices.shape
    sdtw, numba = load("sdtw"), load("tslearn.metrics.soft_dtw_fast")

    def cython_loop() -> None:
        for matrix in matrices:
            found = sdtw.SoftDTW(matrix, gamma=1.0)
            found.compute()
            found.grad()

    def numba_loop() -> None:
        values, weights = np.zeros((batch, m + 2, n + 2)), np.zeros((batch, m + 2, n + 2))
        padded = np.zeros((batch, m + 1, n + 1))
        padded[:, :m, :n] = matrices
        numba._njit_soft_dtw_batch(matrices, values, 1.0)
        numba._njit_soft_dtw_grad_batch(padded, values, weights, 1.0)

    return {
        "soft-dtw (Cython)": sdtw if isinstance(sdtw, str) else cython_loop,
        "tslearn (numba, parallel)": numba if isinstance(numba, str) else numba_loop,
    }


def ratios(seconds: float) -> list[list[object]]:
    table: list[list[object]] = []
    for batch, size in SHAPES:
        x, y = torch.randn(batch, size, 4), torch.randn(batch, size, 4)
        costs = torch.cdist(x, y).square()
        groups = [
            (torch_peers(x, y), ours_on_features(x, y, om.Shannon())),
            (compiled_peers(costs), ours_on_costs(costs, om.Shannon())),
        ]
        for peers, ours in groups:
            for name, peer in peers.items():
                shape = f"{batch}×{size}×{size}"
                if isinstance(peer, str):
                    table.append([shape, name, peer, "", ""])
                    continue
                best = fastest({"om": ours, "peer": peer}, seconds=seconds)
                table.append([shape, name, 1e3 * best["peer"], 1e3 * best["om"], best["peer"] / best["om"]])
                print(table[-1], file=sys.stderr, flush=True)
    return table


def regularizers(seconds: float) -> list[list[object]]:
    table: list[list[object]] = []
    for batch, size in SHAPES:
        costs = torch.rand(batch, size, size)
        leaf = costs.clone().requires_grad_()

        def twice() -> None:
            (weights,) = torch.autograd.grad(om.structures.soft_dtw_from_costs(leaf).sum(), leaf, create_graph=True)
            torch.autograd.grad(weights.square().sum(), leaf)

        omegas = [om.Hard(), om.Shannon(), om.SquaredNorm()]
        runs = {
            f"{type(o).__name__}, value": (lambda o=o: om.structures.soft_dtw_from_costs(costs, regularizer=o))
            for o in omegas
        }
        runs |= {f"{type(o).__name__}, value and gradient": ours_on_costs(costs, o) for o in omegas}
        runs["Shannon, with a Hessian product"] = twice
        best = fastest(runs, seconds=seconds)
        base = best["Shannon, value"]
        table += [[f"{batch}×{size}×{size}", k, 1e3 * best[k], best[k] / base] for k in runs]
    return table


def growth(seconds: float) -> list[list[object]]:
    sizes = [64, 128, 256, 512, 1024, 2048, 4096]
    table: list[list[object]] = []
    for n in sizes:
        best = fastest({"om": ours_on_costs(torch.rand(1, n, n), om.Shannon())}, seconds=seconds)
        table.append([f"1×{n}×{n}", 1e3 * best["om"], 1e9 * best["om"] / n**2])
    return table


MEMORY = """
import re, torch, omegamax as om
torch.set_num_threads(2)
# The resident peak of this process alone: getrusage would start from that of the parent.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
small = torch.rand(1, 128, 128, requires_grad=True)
om.structures.soft_dtw_from_costs(small).sum().backward()
n = {n}
if {width}:
    banded = om.BandedAlignment(om.structures.SakoeChiba({width}), n_columns=n)
    costs = torch.rand(1, n, banded.columns(n)[0].shape[-1]).requires_grad_()
    before = peak()
    banded.max(costs, om.Scaled(om.Shannon(), 2.0)).sum().backward()
else:
    costs = torch.rand(1, n, n).requires_grad_()
    before = peak()
    om.structures.soft_dtw_from_costs(costs, 2.0).sum().backward()
print(costs.numel() * 4 / 2**20, peak() - before)
"""


def memory() -> list[list[object]]:
    """Measures how the peak grows during forward and backward, each in a process of its own."""
    table: list[list[object]] = []
    for n, width in [(4096, 0), (8192, 0), (8192, 32), (8192, 128), (65536, 32)]:
        output = subprocess.check_output([sys.executable, "-c", MEMORY.format(n=n, width=width)], text=True)
        held, grown = (float(number) for number in output.split())
        table.append([f"1×{n}×{n}", f"SakoeChiba({width}), packed" if width else "none", held, grown, grown / held])
        print(table[-1], file=sys.stderr, flush=True)
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    numba = load("numba")
    if not isinstance(numba, str):  # the peers' threads: as many, where there are as many cores
        numba.set_num_threads(min(options.threads, numba.config.NUMBA_NUM_THREADS))
    seconds = options.seconds
    return [
        (
            "Soft-DTW, forward + backward",
            ["batch × M × N", "peer", "peer, ms", "omegamax, ms", "times faster"],
            ratios(seconds),
        ),
        ("Regularizers", ["batch × M × N", "what", "ms", "relative to Shannon's value"], regularizers(seconds)),
        ("Growth, forward + backward", ["batch × M × N", "ms", "ns per cell"], growth(seconds)),
        (
            "Memory of forward + backward",
            ["grid", "band", "costs, MB", "peak above them, MB", "copies of the costs"],
            memory(),
        ),
    ]


if __name__ == "__main__":
    run("alignments", "Alignments", __doc__, sections, seconds=1.0)
