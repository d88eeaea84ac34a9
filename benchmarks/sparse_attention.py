"""`sparse_attention` against F.scaled_dot_product_attention (softmax), in one run.

A cell is forward + backward / forward: time relative to PyTorch's fused softmax attention; all take turns. Below 1 is
faster. Scores are those of normal queries and keys, the same times 3 and times 0.3, and constant. Two more tables show
the weights that are not zero in a row, on average, and the memory that a forward and a backward pass add.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

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


def measured(
    length: int, spread: float, names: list[str], seconds: float, least: int
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Seconds of a forward and of a forward and backward pass; and the sizes of supports."""
    tensors = [torch.randn(1, SHAPES[length], length, SIZE) for _ in range(3)]
    tensors[0] *= spread
    gradient = torch.randn(1, SHAPES[length], length, SIZE)
    runs = {"torch": torch.nn.functional.scaled_dot_product_attention}
    for name in names:
        runs[name] = lambda *x, normalizer=NORMALIZERS[name]: om.sparse_attention(*x, normalizer)
    with torch.no_grad():
        ahead = fastest({name: lambda f=f: f(*tensors) for name, f in runs.items()}, seconds=seconds, least=least)
    back = fastest({name: both_ways(f, tensors, gradient) for name, f in runs.items()}, seconds=seconds, least=least)
    sizes = {}
    few = [x[:, :1] for x in tensors]
    few[0] = few[0][:, :, :256]
    for name in names:
        found = om.sparse_attention_with_weights(*few, NORMALIZERS[name])
        sizes[name] = float(found.support_sizes.double().mean())
    return ahead, back, sizes


def peak_memory(length: int, spread: float) -> float:
    """Megabytes that sparsemax adds to the process at most, of which this must be the largest problem so far."""
    tensors = [torch.randn(1, SHAPES[length], length, SIZE) for _ in range(3)]
    tensors[0] *= spread
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
    for length in arguments.lengths:
        for kind in arguments.scores:
            spread = SPREADS[kind]
            ahead, back, sizes = measured(length, spread, names, arguments.seconds, arguments.least)
            cells = [f"{back[n] / back['torch']:.3f} / {ahead[n] / ahead['torch']:.3f}" for n in names]
            rows.append([length, SHAPES[length], kind, *cells])
            supports.append([length, kind, *(sizes[n] for n in names)])
            print(length, kind, dict(zip(names, cells)), file=sys.stderr, flush=True)
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
