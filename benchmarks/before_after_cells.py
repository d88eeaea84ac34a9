"""The measurements of before_after.py, which runs this file with the interpreter of each tree.

It reads one command per line: `list` prints the names of the cells as a JSON list, the name of a cell prints the
seconds of one call of it, or null where this tree has no such thing. Only names that stay from version to version are
used, so that two trees that differ inside can be compared.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable

import torch

import omegamax as om

SHAPES = [(4096, 64), (4096, 512), (1024, 4096)]
TINY = (4, 16)
Run = Callable[[], object]


def operators(columns: int) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    groups = om.GroupLasso([i // 8 for i in range(columns)])
    return {
        "hardmax": om.hardmax,
        "softmax": om.softmax,
        "sparsemax": om.sparsemax,
        "entmax15": om.entmax15,
        "entmax(1.3)": lambda x: om.entmax(x, alpha=1.3),
        "sqpnormmax": om.sqpnormmax,
        "fusedmax": om.fusedmax,
        "oscarmax": om.oscarmax,
        "groupmax": lambda x: om.smooth_argmax(x, groups),
    }


def with_gradient(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Run:
    leaves = [x.clone().requires_grad_() for x in inputs]
    gradient = torch.randn_like(function(*leaves))
    return lambda: torch.autograd.grad(function(*leaves), leaves, gradient)


def without_gradient(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Run:
    return lambda: function(*inputs)


WAYS = {"forward": without_gradient, "with backward": with_gradient}


def row_cells() -> dict[str, Callable[[], Run]]:
    """A function that draws the inputs and returns the run, by name: nothing is drawn before it is measured."""
    return {
        f"{name} {rows}×{columns}, {way}": lambda n=name, r=rows, c=columns, m=make: m(
            operators(c)[n], torch.randn(r, c)
        )
        for rows, columns in SHAPES
        for name in operators(8)
        for way, make in WAYS.items()
    }


def tiny_cells() -> dict[str, Callable[[], Run]]:
    functions = {
        **operators(TINY[1]),
        "smooth_max": lambda x: om.smooth_max(x, om.SquaredNorm()),
        "SquaredNorm().argmax": om.SquaredNorm().argmax,
    }
    kinds = {
        "without grad": lambda f: without_gradient(f, torch.randn(TINY)),
        "with grad, forward": lambda f: without_gradient(f, torch.randn(TINY).requires_grad_()),
        "with backward": lambda f: with_gradient(f, torch.randn(TINY)),
    }
    return {
        f"{name} 4×16, {kind}": lambda f=function, m=make: m(f)
        for name, function in functions.items()
        for kind, make in kinds.items()
    }


def chain_cells() -> dict[str, Callable[[], Run]]:
    chain = om.Chain()
    shapes = {"dense 32×64×16": [(32, 64, 16, 16)], "factored 32×128×32": [(32, 128, 32), (32, 32)]}
    kinds = {
        "max, forward": (without_gradient, chain.max),
        "max, with backward": (with_gradient, chain.max),
        "argmax, forward": (without_gradient, lambda *given: _first(chain.argmax(*given))),
        "argmax, with backward": (with_gradient, lambda *given: _first(chain.argmax(*given))),
    }
    cells = {}
    for form, sizes in shapes.items():
        pack = chain.from_emissions if form.startswith("factored") else _first
        for omega in (om.Shannon(), om.SquaredNorm()):
            for kind, (make, method) in kinds.items():

                def prepare(sizes=sizes, pack=pack, omega=omega, make=make, method=method) -> Run:
                    return make(lambda *parts: method(pack(*parts), omega), *(torch.randn(size) for size in sizes))

                cells[f"chain {form}, {type(omega).__name__}, {kind}"] = prepare
    return cells


def alignment_cells() -> dict[str, Callable[[], Run]]:
    alignment = om.Alignment()
    return {
        f"alignment {'×'.join(map(str, shape))}, {type(omega).__name__}, {way}": (
            lambda s=shape, o=omega, m=make: m(lambda x: alignment.max(x, o), -torch.rand(s))
        )
        for shape in ((32, 128, 128), (1, 512, 512))
        for omega in (om.Shannon(), om.SquaredNorm())
        for way, make in WAYS.items()
    }


def attention_cells() -> dict[str, Callable[[], Run]]:
    normalizers = {"softmax": om.Shannon, "sparsemax": om.SquaredNorm, "fusedmax": om.Fused}

    def attend(normalizer: object) -> Callable[..., torch.Tensor]:
        layer = om.Attention(normalizer=normalizer)
        return lambda *given: layer(*given, need_weights=False)[0]

    def many_heads(normalizer: object) -> Callable[..., torch.Tensor]:
        layer = om.MultiheadAttention(256, 4, batch_first=True, normalizer=normalizer).requires_grad_(False)
        return lambda x: layer(x, x, x, need_weights=False)[0]

    cells = {}
    for n in (128, 512):
        for name, normalizer in normalizers.items():
            for way, make in WAYS.items():
                cells[f"Attention 16×{n}×64, {name}, {way}"] = lambda n=n, m=make, f=normalizer: m(
                    attend(f()), *(torch.randn(1, 16, n, 64) for _ in range(3))
                )
                cells[f"MultiheadAttention 4×{n}×256, {name}, {way}"] = lambda n=n, m=make, f=normalizer: m(
                    many_heads(f()), torch.randn(4, n, 256)
                )
    return cells


def _first(found: object) -> torch.Tensor:
    """A tensor itself, or the first of several."""
    return found if isinstance(found, torch.Tensor) else found[0]


def seconds_per_call(run: Run, seconds: float, clock: Callable[[], float]) -> float:
    """The fastest of several batches of calls; a batch lasts at least 0.2 ms, so that the clock's own time is small."""
    run()
    before = time.perf_counter()
    run()
    n_calls = max(1, int(2e-4 / max(time.perf_counter() - before, 1e-7)))
    best, n_batches, start = float("inf"), 0, time.perf_counter()
    while n_batches < 3 or time.perf_counter() - start < seconds:
        before = clock()
        for _ in range(n_calls):
            run()
        best = min(best, (clock() - before) / n_calls)
        n_batches += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--clock", required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gc.disable()
    cells = {**row_cells(), **tiny_cells(), **chain_cells(), **alignment_cells(), **attention_cells()}
    for line in sys.stdin:
        if line.strip() == "list":
            print(json.dumps(list(cells)), flush=True)
            continue
        torch.manual_seed(0)
        try:
            prepared = cells[line.rstrip("\n")]()
        except (AttributeError, KeyError, TypeError) as reason:  # a name or an argument that this tree does not have
            print(f"{line.rstrip()}: {reason!r}", file=sys.stderr, flush=True)
            print("null", flush=True)
            continue
        found = seconds_per_call(prepared, options.seconds, getattr(time, options.clock))
        del prepared
        time.sleep(0.002)  # PyTorch's threads stay awake for a millisecond, which would slow down the other tree
        print(found, flush=True)


if __name__ == "__main__":
    main()
