"""`sparse_attention` against F.scaled_dot_product_attention (softmax), in one run.

A cell is forward + backward / forward: time relative to PyTorch's fused softmax attention; all take turns. Below 1 is
faster. Scores are those of normal queries and keys, the same times 3 and times 0.3, and constant; with --trained also
those of language models (saved by `language_model.py --tensors`), where attention is causal on both sides. Two more
tables show the weights that are not zero in a row, on average, and the memory that a forward and a backward pass add.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from functools import partial
from pathlib import Path

import timing
import torch
from timing import fastest, write

import omegamax as om

SIZE = 64
SHAPES = {512: 16, 1024: 16, 4096: 8, 16384: 2, 65536: 1}  # heads of each length
SPREADS = {"normal": 1.0, "×3": 3.0, "×0.3": 0.3, "constant": 0.0}
NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "fusedmax(0.1)": om.Fused(0.1),
    "oscarmax": om.Oscar(),
    "top-32": om.attention.TopK(32),
}


def both_ways(attend, tensors: list[torch.Tensor], gradient: torch.Tensor):
    leaves = [x.clone().requires_grad_() for x in tensors]

    def run() -> None:
        torch.autograd.grad(attend(*leaves), leaves, gradient)

    return run


def drawn(length: int, spread: float) -> list[torch.Tensor]:
    """Normal queries, multiplied by the spread of scores, normal keys and values."""
    tensors = [torch.randn(1, SHAPES[length], length, SIZE) for _ in range(3)]
    tensors[0] *= spread
    return tensors


def measured(
    tensors: list[torch.Tensor], names: list[str], seconds: float, least: int, *, causal: bool = False
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Seconds of a forward and of a forward and backward pass; and the sizes of supports."""
    gradient = torch.randn_like(tensors[2])
    runs = {"torch": partial(torch.nn.functional.scaled_dot_product_attention, is_causal=causal)}
    for name in names:
        runs[name] = partial(om.sparse_attention, normalizer=NORMALIZERS[name], causal=causal)
    with torch.no_grad():
        ahead = fastest({name: lambda f=f: f(*tensors) for name, f in runs.items()}, seconds=seconds, least=least)
    back = fastest({name: both_ways(f, tensors, gradient) for name, f in runs.items()}, seconds=seconds, least=least)
    sizes = {}
    few = tensors if causal else [tensors[0][:, :1, :256], *(x[:, :1] for x in tensors[1:])]
    for name in names:
        found = om.sparse_attention_with_weights(*few, NORMALIZERS[name], causal=causal)
        sizes[name] = float(found.support_sizes.double().mean())
    return ahead, back, sizes


def peak_memory(length: int, spread: float) -> float:
    """Megabytes that sparsemax adds to the process at most, of which this must be the largest problem so far."""
    tensors = drawn(length, spread)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    both_ways(lambda *x: om.sparse_attention(*x, om.SquaredNorm()), tensors, torch.ones_like(tensors[0]))()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="per contestant and cell (default %(default)s)")
    parser.add_argument("--least", type=int, default=5, help="rounds at least (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 4096], choices=SHAPES)
    parser.add_argument("--normalizers", nargs="+", default=list(NORMALIZERS), choices=NORMALIZERS)
    parser.add_argument("--scores", nargs="+", default=list(SPREADS), choices=SPREADS)
    parser.add_argument("--trained", type=Path, help="queries, keys and values saved by language_model.py --tensors")
    parser.add_argument("--save-as", default="sparse_attention", help="name of the results (default %(default)s)")
    parser.add_argument("--arch", choices=om.routing.native.supported_archs(), help="default: the best that runs here")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="perf_counter")
    arguments = parser.parse_args()
    timing.clock = getattr(time, arguments.clock)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.arch:
        om.routing.native.use_arch(arguments.arch)
    memory = [
        [length, kind, peak_memory(length, SPREADS[kind])]
        for length in arguments.lengths
        for kind in arguments.scores
        if kind in ("normal", "constant")
    ]
    names = arguments.normalizers
    rows, supports = [], []

    def add_row(kind: str, tensors: list[torch.Tensor], *, causal: bool = False) -> None:
        ahead, back, sizes = measured(tensors, names, arguments.seconds, arguments.least, causal=causal)
        cells = [f"{back[n] / back['torch']:.3f} / {ahead[n] / ahead['torch']:.3f}" for n in names]
        n_heads, length = tensors[0].shape[1:3]
        rows.append([length, n_heads, kind, *cells])
        supports.append([length, kind, *(sizes[n] for n in names)])
        print(length, kind, dict(zip(names, cells)), file=sys.stderr, flush=True)

    for length in arguments.lengths:
        for kind in arguments.scores:
            add_row(kind, drawn(length, SPREADS[kind]))
    if arguments.trained is not None:
        for name, tensors in torch.load(arguments.trained, weights_only=True).items():
            add_row(f"model trained with {name}, causal", tensors, causal=True)
    sections = [
        (
            "Time relative to F.scaled_dot_product_attention: forward + backward / forward",
            ["N", "heads", "scores", *names],
            rows,
        ),
        ("Weights that are not zero in a row", ["N", "scores", *names], supports),
        ("Memory added by sparsemax, forward + backward (MB)", ["N", "scores", "MB"], memory),
    ]
    arch = "" if om.routing.native.arch() == om.routing.native.supported_archs()[0] else f"_{om.routing.native.arch()}"
    write(f"{arguments.save_as}{arch}", "Sparse attention", sections)


if __name__ == "__main__":
    main()
