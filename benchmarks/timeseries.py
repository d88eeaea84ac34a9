"""Time series: pairwise distances beside tslearn, aeon and dtaidistance, pruned search, memory, long series, growth.

All libraries get the same series, in turn, in one process; the peers compile before they are timed. With `--sample 1`
the matrices have all series of the table's first column. By default they have fewer, as the second column says, because
the peers take minutes for the whole; times of a matrix grow with the number of pairs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from timing import RESULTS, Section, fastest, run

from omegamax import timeseries as ts

SHAPES = [(2000, 40), (500, 150), (100, 1000)]


def load(name: str):
    """A module, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as reason:
        return f"not run: {type(reason).__name__}: {reason}"


def peers(x: np.ndarray, soft: bool, threads: int) -> dict[str, Callable[[], np.ndarray] | str]:
    """What each peer computes: the whole symmetric matrix. They differ in the root, which is checked."""
    tslearn, aeon, dtai = load("tslearn.metrics"), load("aeon.distances"), load("dtaidistance.dtw")
    many = threads > 1
    if soft:
        return {
            "tslearn": tslearn if isinstance(tslearn, str) else lambda: tslearn.cdist_soft_dtw(x, gamma=1.0),
            "aeon": aeon
            if isinstance(aeon, str)
            else lambda: aeon.soft_dtw_pairwise_distance(x, gamma=1.0, n_jobs=threads),
        }
    return {
        "tslearn": tslearn
        if isinstance(tslearn, str)
        else lambda: tslearn.cdist_dtw(x, n_jobs=threads if many else None) ** 2,
        "aeon": aeon if isinstance(aeon, str) else lambda: aeon.dtw_pairwise_distance(x, n_jobs=threads),
        "dtaidistance (C)": dtai if isinstance(dtai, str) else lambda: dtai.distance_matrix_fast(x, parallel=many) ** 2,
    }


def pairwise(options: argparse.Namespace) -> list[list[object]]:
    table: list[list[object]] = []
    for n, length in SHAPES:
        some = n if options.sample >= 1 else max(16, int(n * options.sample))
        x = np.random.default_rng(0).normal(size=(some, length)).cumsum(1) / 5
        for soft in (False, True):
            what = "soft_dtw" if soft else "dtw"

            def ours():
                return ts.cdist(x, distance=what)

            other = {k: p for k, p in peers(x, soft, options.threads).items() if not isinstance(p, str)}
            upper = np.triu_indices(some, 1)
            for name, peer in other.items():  # aeon reports the absolute value of soft-DTW
                found, expected = np.abs(peer()[upper]), np.abs(ours()[upper])
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)
            best = fastest({"omegamax": ours, **other}, seconds=options.seconds, least=options.least)
            for name in other:
                shape = f"{n} × {length}"
                row = [shape, some, what, name, 1e3 * best[name], 1e3 * best["omegamax"], best[name] / best["omegamax"]]
                table.append(row)
                print(row, file=sys.stderr, flush=True)
    return table


def search(options: argparse.Namespace) -> list[list[object]]:
    table: list[list[object]] = []
    generator = np.random.default_rng(1)

    def walks(n, length):
        return _normalised(generator.normal(size=(n, length)).cumsum(1))

    for n, length in [(1000, 100), (4000, 100), (1000, 300)]:
        queries, references = walks(20, length), walks(n, length)
        for window in (0.05, 0.2):

            def full():
                return ts.cdist(queries, references, window=window).argmin(1)

            def pruned():
                return ts.nearest(queries, references, window=window)

            found = pruned()
            assert np.array_equal(found.indices[:, 0], full())
            best = fastest({"full": full, "pruned": pruned}, seconds=options.seconds, least=options.least)
            report = found.pruned
            shares = [100 * count / report.pairs for count in report[1:]]
            row = [
                f"20 × {n} × {length}",
                window,
                1e3 * best["full"],
                1e3 * best["pruned"],
                best["full"] / best["pruned"],
            ]
            table.append([*row, *shares])
    return table


def _normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


PROGRAM = """
import re, sys, time, numpy as np, torch
from omegamax import timeseries as ts
import omegamax as om
torch.set_num_threads({threads})
# The resident peak of this process alone; pages of a mapped file are counted apart.
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
{warm}
before, start = peak(), time.process_time()
{work}
print(peak() - before, time.process_time() - start)
"""


def measured(warm: str, work: str, threads: int) -> tuple[float, float]:
    """Runs a program of its own; returns how its peak grew in MB, and its processor time in seconds."""
    text = PROGRAM.format(warm=warm, work=work, threads=threads)
    output = subprocess.check_output([sys.executable, "-c", text], text=True)
    grown, seconds = output.split()
    return float(grown), float(seconds)


def memory(options: argparse.Namespace) -> list[list[object]]:
    table: list[list[object]] = []
    for n in (500, 1000, 2000, 4000):
        warm = f"x = np.random.default_rng(0).normal(size=({n}, 20)).astype(np.float32); ts.cdist(x[:100])"
        grown, seconds = measured(warm, "ts.cdist(x, condensed=True)", options.threads)
        near, near_seconds = measured(warm, "ts.nearest(x, x, n_neighbors=5, window=2)", options.threads)
        table.append([n, n * (n - 1) / 2 * 4 / 2**20, grown, seconds, near, near_seconds])
    return table


def long_series(options: argparse.Namespace) -> list[list[object]]:
    table: list[list[object]] = []
    for length, band in [(8192, None), (65536, 655), (65536, None)]:
        if length > options.longest:
            continue
        warm = (
            "a = torch.randn(1, 64, 1, requires_grad=True); om.soft_dtw(a, a).sum().backward()\n"
            f"x = torch.randn(1, {length}, 1, requires_grad=True); y = torch.randn(1, {length}, 1)\n"
            f"band = {None if band is None else f'om.structures.SakoeChiba({band})'}"
        )
        grown, seconds = measured(warm, "om.soft_dtw(x, y, band=band).sum().backward()", options.threads)
        cells = length * length if band is None else length * (2 * band + 1)
        table.append([f"{length} × {length}", band or "none", grown, seconds, 1e9 * seconds / cells])
        print(table[-1], file=sys.stderr, flush=True)
    return table


def growth(options: argparse.Namespace) -> list[list[object]]:
    table: list[list[object]] = []
    for length in (16, 32, 64, 128, 256, 512, 1024):
        n = min(256, max(32, 8192 // length))
        x = np.random.default_rng(0).normal(size=(n, length))
        cells = n * (n + 1) / 2 * length * length
        runs = {
            f"{what}, {dtype}": (lambda what=what, dtype=dtype: ts.cdist(x, distance=what, dtype=dtype))
            for what in ("dtw", "soft_dtw")
            for dtype in ("float32", "float64")
        }
        best = fastest(runs, seconds=options.seconds / 4, least=options.least)
        table.append([n, length, *(1e9 * seconds / cells for seconds in best.values())])
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    numba = load("numba")
    if not isinstance(numba, str):
        numba.set_num_threads(min(options.threads, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(options.threads)
    all_sections = [
        (
            "Pairwise distances, float64",
            ["series × length", "series timed", "distance", "peer", "peer, ms", "omegamax, ms", "times faster"],
            pairwise,
        ),
        (
            "Nearest neighbour, with pruning and from the full matrix",
            [
                "queries × references × length",
                "window",
                "full matrix, ms",
                "nearest, ms",
                "times faster",
                "% by LB_Kim",
                "% by LB_Keogh",
                "% abandoned",
                "% computed",
            ],
            search,
        ),
        (
            "Memory against n, float32, length 20",
            ["n", "condensed matrix, MB", "peak of cdist, MB", "s", "peak of nearest (k = 5), MB", "s"],
            memory,
        ),
        (
            "Soft-DTW of long series: value and gradient, float32",
            ["grid", "Sakoe–Chiba band", "peak, MB", "processor time, s", "ns per cell"],
            long_series,
        ),
        (
            "Growth: ns per cell of a matrix",
            ["series", "length", "dtw, float32", "dtw, float64", "soft_dtw, float32", "soft_dtw, float64"],
            growth,
        ),
    ]
    if options.only is None:
        return [(heading, header, measure(options)) for heading, header, measure in all_sections]
    before = json.loads((RESULTS / "timeseries.json").read_text())["sections"]
    return [
        (heading, header, measure(options) if measure.__name__ == options.only else old["rows"])
        for (heading, header, measure), old in zip(all_sections, before)
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sample", type=float, default=0.15, help="share of the series that is timed")
    names = ["pairwise", "search", "memory", "long_series", "growth"]
    parser.add_argument("--only", choices=names, help="measure one section again, and keep the others of the results")
    parser.add_argument("--least", type=int, default=3, help="rounds of every cell (default %(default)s)")
    parser.add_argument("--longest", type=int, default=65536, help="the longest series for soft-DTW with its gradient")


if __name__ == "__main__":
    run("timeseries", "Time series", __doc__, sections, seconds=0.5, add_options=add_options)
