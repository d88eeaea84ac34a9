"""Projective and constituency trees against torch-struct, forward and backward; the growth with the sentence; memory.

Times are of the log-partition and its gradient (Shannon), or of DP_Ω and its gradient, for a batch, float32.
torch-struct's DependencyCRF writes into its argument, so it is given a copy, which costs next to nothing.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from timing import Section, both_ways, fastest, run

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram

OMEGAS = {"Shannon": om.Shannon(), "squared norm": om.SquaredNorm(), "hard": om.Hard()}
SHAPES = [(16, 10), (16, 20), (16, 40), (16, 80), (1, 40), (64, 25)]
GROWTH = [10, 20, 40, 80, 160, 320]


def structures(batch: int, n: int) -> dict:
    return {
        "projective, any roots": (om.ProjectiveTree(single_root=False), torch.randn(batch, n + 1, n + 1)),
        "projective, one root": (om.ProjectiveTree(), torch.randn(batch, n + 1, n + 1)),
        "constituency": (om.ConstituencyTree(), torch.randn(batch, n, n, 1)),
        "constituency, 20 labels": (om.ConstituencyTree(), torch.randn(batch, n, n, 20)),
    }


def peers(structure: om.Structure, potentials: torch.Tensor) -> dict:
    """The same number by torch-struct, and a check that it is the same."""
    try:
        from torch_struct import DependencyCRF, TreeCRF
    except ImportError:
        return {}
    if isinstance(structure, om.ConstituencyTree):
        scores, value = potentials, lambda x: TreeCRF(x).partition
    else:  # (B, N, N), the arcs from the root on the diagonal
        n = potentials.shape[-1] - 1
        scores = potentials[:, 1:, 1:].clone()
        scores[:, range(n), range(n)] = potentials[:, 0, 1:]
        multiroot = not structure.single_root
        value = lambda x: DependencyCRF(x * 1, multiroot=multiroot).partition  # noqa: E731
    theirs = value(scores.clone().requires_grad_()).detach()
    torch.testing.assert_close(theirs, structure.max(potentials), rtol=1e-4, atol=1e-3)
    return {"torch-struct": both_ways(value, scores)}


def generic(structure: om.Structure, potentials: torch.Tensor, omega: om.Regularizer):
    """Value and marginals by the hypergraph engine."""
    problem = structure.bind(potentials)
    program = LatticeProgram(problem.lattice, omega, problem.goals)

    def run() -> None:
        program.marginals(problem.parts, program.value(problem.parts)[1])

    return run


def against_peers(seconds: float) -> list[list[object]]:
    table = []
    for batch, n in SHAPES:
        for name, (structure, potentials) in structures(batch, n).items():
            runs = {
                "om": both_ways(structure.max, potentials),
                "generic": generic(structure, potentials, om.Shannon()),
                **peers(structure, potentials),
            }
            best = fastest(runs, seconds=seconds)
            ratio = best["torch-struct"] / best["om"] if "torch-struct" in best else "torch-struct is not installed"
            table.append([f"{batch}×{n}", name, best["om"] * 1e6, ratio, best["generic"] / best["om"]])
            print(*table[-1], flush=True)
    return table


def sweeps(seconds: float) -> list[list[object]]:
    table = []
    for name, (structure, potentials) in structures(16, 40).items():
        for kind, omega in OMEGAS.items():
            problem = structure.bind(potentials)
            program, parts = problem.program(omega), problem.parts
            direction = (torch.randn_like(potentials),)
            _, state = program.value(parts)
            visits = program.marginals(parts, state).state

            def gradient() -> None:
                program.marginals(parts, program.value(parts)[1])

            def hessian() -> None:
                below = program.value(parts)[1]
                program.tangent(parts, (*below, *program.marginals(parts, below).state), direction)

            best = fastest(
                {
                    "value": lambda: program.value(parts),
                    "gradient": gradient,
                    "hessian": hessian,
                    "tangent": lambda: program.tangent(parts, (*state, *visits), direction),
                },
                seconds=seconds,
            )
            relative = (best[key] / best["value"] for key in ("gradient", "hessian", "tangent"))
            table.append([name, kind, best["value"] * 1e6, *relative])
    return table


def growth(seconds: float) -> list[list[object]]:
    table = []
    before: dict[str, float] = {}
    for n in GROWTH:
        line: list[object] = [n]
        for name, (structure, potentials) in list(structures(4, n).items())[1:3]:
            best = fastest({"om": both_ways(structure.max, potentials)}, seconds=seconds)["om"]
            line += [best * 1e6, best / before[name] if name in before else "", best / 4 / n**3 * 1e9]
            before[name] = best
        table.append(line)
    return table


def memory() -> list[list[object]]:
    """Numbers that the value leaves for the gradient, per number of the potentials."""
    table = []
    for n in (40, 160):
        for name, (structure, potentials) in structures(2, n).items():
            problem = structure.bind(potentials)
            program = problem.program(om.Shannon())
            _, state = program.value(problem.parts)
            table.append([n, name, sum(t.numel() for t in state) / potentials.numel()])
    return table


def lists() -> list[list[object]]:
    table = []
    for name, (structure, potentials) in structures(16, 40).items():
        best = fastest({"topk": lambda: structure.topk(potentials, 5)}, seconds=0.1, least=2)["topk"]
        table.append([name, best])
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    warnings.filterwarnings("ignore")
    seconds = options.seconds
    return [
        (
            "Log-partition and its gradient",
            ["batch × words", "structure", "µs", "times faster than torch-struct", "than the generic engine"],
            against_peers(seconds),
        ),
        (
            "Sweeps, 16×40: everything up to the gradient, up to the Hessian product, and its own sweeps alone",
            ["structure", "Ω", "value, µs", "gradient / value", "Hessian product / value", "its sweeps / value"],
            sweeps(seconds),
        ),
        (
            "Growth with the sentence (batch of 4, forward and backward): cubic",
            [
                "words",
                "projective, µs",
                "× before",
                "ns per item and n³",
                "constituency, µs",
                "× before",
                "ns per item and n³",
            ],
            growth(seconds),
        ),
        ("Memory that the gradient needs", ["words", "structure", "× potentials"], memory()),
        ("The five best, 16×40", ["structure", "seconds"], lists()),
    ]


if __name__ == "__main__":
    run("trees", "Trees", __doc__, sections)
