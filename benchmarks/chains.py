"""Chains against pytorch-crf, torch-struct and a plain PyTorch loop: forward and backward in one run.

Contestants take turns in this process; a cell is the fastest round. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
from timing import Section, fastest, run

import omegamax as om

SHAPES = [(32, 128, 32), (16, 512, 64)]
OMEGAS = {"Shannon": om.Shannon(), "SquaredNorm": om.SquaredNorm(), "Tsallis(1.5)": om.Tsallis(1.5), "Hard": om.Hard()}
chain = om.Chain()


def draw(batch: int, n: int, c: int) -> om.structures.FactoredChain:
    parts = torch.randn(batch, n, c), torch.randn(c, c), torch.randn(c), torch.randn(c)
    return om.structures.FactoredChain(*(part.requires_grad_() for part in parts))


def fixed(potentials: om.structures.FactoredChain) -> om.structures.FactoredChain:
    return om.structures.FactoredChain(*(part.detach() for part in potentials))


def both_ways(function, *leaves: torch.Tensor):
    def run() -> None:
        torch.autograd.grad(function().sum(), leaves)

    return run


def plain_loop(potentials: om.structures.FactoredChain) -> torch.Tensor:
    """The recursion as anyone would write it."""
    emissions, transitions, start, end = potentials
    values = start + emissions[:, 0]
    for place in range(1, emissions.shape[1]):
        values = torch.logsumexp(values.unsqueeze(-1) + transitions, 1) + emissions[:, place]
    return torch.logsumexp(values + end, -1)


def peers(potentials: om.structures.FactoredChain) -> dict:
    batch, n, c = potentials.emissions.shape
    found = {"plain PyTorch loop": both_ways(lambda: plain_loop(potentials), *potentials)}
    try:
        import torchcrf

        crf = torchcrf.CRF(c, batch_first=True)
        mask = torch.ones(n, batch, dtype=torch.bool)
        normalizer = lambda: crf._compute_normalizer(potentials.emissions.transpose(0, 1), mask)  # noqa: E731
        found["pytorch-crf"] = both_ways(normalizer, potentials.emissions, *crf.parameters())
    except ImportError as error:
        print(f"pytorch-crf: {error}", file=sys.stderr)
    if n > 128:  # torch-struct takes minutes
        return found
    try:
        from torch_struct import LinearChainCRF

        def dense() -> torch.Tensor:  # [n, next, previous], and the first emission on the first edge
            emissions, transitions = potentials.emissions, potentials.transitions
            edges = emissions[:, 1:].unsqueeze(-1) + transitions.T
            first = torch.zeros(batch, n - 1, 1, c)
            first[:, 0] = 1
            return edges + first * (emissions[:, 0] + potentials.start)[:, None, None]

        with torch.no_grad():
            _ = LinearChainCRF(dense()[:1, :3]).partition
        found["torch-struct"] = both_ways(lambda: LinearChainCRF(dense()).partition, *potentials[:3])
    except Exception as error:  # it does not import, or not run, with every PyTorch
        print(f"torch-struct: {error!r}", file=sys.stderr)
    return found


def against_peers(seconds: float) -> list[list[object]]:
    table = []
    for shape in SHAPES:
        potentials = draw(*shape)
        ours = {
            name: both_ways(lambda o=omega: chain.max(potentials, o), *potentials) for name, omega in OMEGAS.items()
        }
        best = fastest(ours, seconds=seconds)
        theirs = fastest(peers(potentials) | {"Shannon": ours["Shannon"]}, seconds=seconds, least=3)
        best["Shannon"] = min(best["Shannon"], theirs.pop("Shannon"))
        label = "×".join(map(str, shape))
        for name, time in {**best, **theirs}.items():
            table.append([label, name, time * 1e3, time / best["Shannon"]])
    return table


def sweeps(seconds: float) -> list[list[object]]:
    """The value, marginals and the Hessian product, each without autograd around it."""
    table = []
    for shape in SHAPES:
        factored = fixed(draw(*shape))
        dense = torch.randn(*shape, shape[-1])
        for form, potentials in (("factored", factored), ("dense", dense)):
            if form == "dense" and shape != SHAPES[0]:
                continue
            problem = chain.bind(potentials)
            for name, omega in OMEGAS.items():
                program = problem.program(omega)
                _, state = program.value(problem.parts)
                along = tuple(torch.randn_like(part) for part in problem.parts)
                best = fastest(
                    {
                        "value": lambda: program.value(problem.parts),
                        "marginals": lambda: program.marginals(problem.parts, state),
                        "product": lambda: program.tangent(problem.parts, state, along),
                    },
                    seconds=seconds,
                )
                ratios = best["marginals"] / best["value"], best["product"] / best["value"]
                table.append(["×".join(map(str, shape)), form, name, best["value"] * 1e3, *ratios])
    return table


def growth(seconds: float) -> list[list[object]]:
    table = []
    for n in (64, 256, 1024, 4096):
        line: list[object] = [n]
        for omega in (om.Shannon(), om.SquaredNorm()):
            potentials = draw(4, n, 32)
            run = both_ways(lambda: chain.max(potentials, omega), *potentials)
            line.append(fastest({"om": run}, seconds=seconds)["om"] / n * 1e6)
        segmental = om.SemiMarkov(4)
        if n <= 1024:
            leaf = torch.randn(2, n, 4, 4, 4, requires_grad=True)
            run = both_ways(lambda: segmental.max(leaf), leaf)
            line.append(fastest({"om": run}, seconds=seconds, least=2)["om"] / n * 1e6)
        else:
            line.append("")
        table.append(line)
    return table


def holes(seconds: float) -> list[list[object]]:
    """`positions=` with every fourth position left out, beside the same chains with those positions cut out before."""
    table = []
    for shape in SHAPES:
        potentials = draw(*shape)
        kept = (torch.arange(shape[1]) % 4 != 3).expand(*shape[:2])
        short = draw(shape[0], int(kept[0].sum()), shape[2])
        for name in ("Shannon", "SquaredNorm"):
            omega = OMEGAS[name]
            best = fastest(
                {
                    "positions": both_ways(lambda: chain.max(potentials, omega, positions=kept), *potentials),
                    "cut": both_ways(lambda: chain.max(short, omega), *short),
                },
                seconds=seconds,
            )
            table.append(["×".join(map(str, shape)), name, best["cut"] * 1e3, best["positions"] / best["cut"]])
    return table


def lists(seconds: float) -> list[list[object]]:
    potentials = fixed(draw(*SHAPES[0]))
    runs = {
        "map": lambda: chain.map(potentials),
        "sample(n_samples=10)": lambda: chain.sample(potentials, n_samples=10),
        "topk(5)": lambda: chain.topk(potentials, 5),
    }
    return [[name, time * 1e3] for name, time in fastest(runs, seconds=seconds, least=2).items()]


def memory() -> list[list[object]]:
    """What a backward pass allocates, by PyTorch's own count."""
    table = []
    for form, leaves in (("factored", draw(*SHAPES[1])), ("dense", (torch.randn(8, 128, 32, 32, requires_grad=True),))):
        size = sum(leaf.numel() * leaf.element_size() for leaf in leaves)
        for name, omega in OMEGAS.items():
            potentials = om.structures.FactoredChain(*leaves) if form == "factored" else leaves[0]
            table.append([form, name, _peak(lambda: chain.max(potentials, omega), leaves) / size])
    return table


def _peak(function, leaves) -> float:
    """Bytes allocated and not yet freed, at most, between a call and the end of its backward pass."""
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.autograd.grad(function().sum(), leaves)
    held, most = 0, 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return float(most)


def sections(options: argparse.Namespace) -> list[Section]:
    seconds = options.seconds
    load = f"load of the machine at the start {os.getloadavg()[0]:.1f}"
    return [
        (
            f"Forward + backward of max, factored, float32 ({load})",
            ["batch × N × C", "what", "ms", "times Shannon"],
            against_peers(seconds),
        ),
        (
            "Sweeps: the value, and the two others relative to it",
            ["batch × N × C", "form", "Ω", "value, ms", "marginals", "Hessian product"],
            sweeps(seconds),
        ),
        (
            "Holes: forward + backward with `positions=`, every fourth left out, relative to a chain without them",
            ["batch × N × C", "Ω", "shorter chain, ms", "positions, times that"],
            holes(seconds),
        ),
        (
            "Growth: µs per position, forward + backward (chains 4×N×32; semi-Markov 2×N×4×4×4, generic engine)",
            ["N", "Shannon", "SquaredNorm", "semi-Markov, Shannon"],
            growth(seconds),
        ),
        ("Lists, 32×128×32", ["what", "ms"], lists(seconds)),
        ("Memory of forward + backward, in copies of the potentials", ["form", "Ω", "copies"], memory()),
    ]


if __name__ == "__main__":
    run("chains", "Chains", __doc__, sections)
