"""SparseMAP, forward and backward in a batch, against a plain NumPy and SciPy active set, and against its MAP calls."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import plain_sparsemap as plain
import torch
from timing import Section, fastest, run

import omegamax as om

BATCH = 32
FLAT_BATCH = 4


def cases() -> dict[str, tuple[om.Structure, Callable, torch.Tensor, torch.Tensor]]:
    """Structure, plain oracle, scores, extra scores."""
    none = torch.zeros(0)
    return {
        "matching 20 x 20": (om.Matching(), plain.matching(20), torch.randn(BATCH, 20, 20), none),
        "chain 50 x 10": (om.Chain(), plain.chain(50, 10), torch.randn(BATCH, 50, 10), torch.randn(10, 10)),
        "arborescence 30": (
            om.Arborescence(single_root=False),
            plain.arborescence(31),
            torch.randn(BATCH, 31, 31),
            none,
        ),
    }


def flat_cases() -> dict[str, tuple[om.Structure, torch.Tensor]]:
    """Nearly flat scores, which end on faces of hundreds of structures."""
    return {
        "chain 30 x 8, dense": (om.Chain(), torch.randn(FLAT_BATCH, 30, 8, 8)),
        "matching 20 x 20": (om.Matching(), torch.randn(FLAT_BATCH, 20, 20)),
        "arborescence 30": (om.Arborescence(single_root=False), torch.randn(FLAT_BATCH, 31, 31)),
        "projective tree 30": (om.ProjectiveTree(), torch.randn(FLAT_BATCH, 31, 31)),
    }


def flat_rows(scale: float, per_cell: float) -> list[list[object]]:
    """MAP calls, structures and milliseconds per item, at scores times a small number."""
    rows: list[list[object]] = []
    for name, (structure, scores) in flat_cases().items():
        scores = scale * scores.double()
        found = structure.sparsemap(scores)
        seconds = fastest({"ours": lambda s=structure, at=scores: s.sparsemap(at)}, seconds=per_cell, least=1)["ours"]
        structures = (found.probabilities > 0).sum(-1).double().mean().item()
        calls = found.n_iterations.double().mean().item()
        rows.append([name, scale, calls, structures, 1e3 * seconds / FLAT_BATCH, found.gap.max().item()])
    return rows


def potentials(structure: om.Structure, scores: torch.Tensor, extra: torch.Tensor):
    return structure.with_extra(scores, extra) if extra.numel() else scores


def ours(structure: om.Structure, scores: torch.Tensor, extra: torch.Tensor) -> Callable[[], object]:
    leaf, smooth = scores.clone().requires_grad_(), om.SparseMAP(structure)

    def run() -> torch.Tensor:
        leaf.grad = None
        found = smooth.argmax(potentials(structure, leaf, extra))
        mean = found[0] if extra.numel() else found
        mean.backward(scores)
        return mean

    return run


def theirs(best: Callable, scores: torch.Tensor, extra: torch.Tensor) -> Callable[[], object]:
    rows, more = scores.double().flatten(1).numpy(), extra.double().flatten().numpy()

    def run() -> np.ndarray:
        found = []
        for row in rows:
            mean, vertices = plain.sparsemap(best, row, more)
            plain.pull(vertices, row)
            found.append(mean)
        return np.stack(found)

    return run


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scales", type=float, nargs="*", default=[1.0, 5.0], help="factors of the scores")


def sections(options: argparse.Namespace) -> list[Section]:
    rows = []
    for scale in options.scales:
        for name, (structure, best, scores, extra) in cases().items():
            scores, extra = scale * scores, scale * extra
            one, other = ours(structure, scores, extra), theirs(best, scores, extra)
            np.testing.assert_allclose(one().detach().flatten(1).numpy(), other(), atol=1e-4)
            at = potentials(structure, scores, extra)
            doubled = type(at)(*(part.double() for part in at)) if extra.numel() else at.double()
            calls = structure.sparsemap(at).n_iterations.double().mean().item()
            # Apart, so that the MAP runs as it does in the solver, again and again; in float64, as there.
            times = fastest({"ours": one}, seconds=options.seconds)
            times |= fastest({"map": lambda s=structure, d=doubled: s.map(d)}, seconds=options.seconds)
            plainly = fastest({"theirs": other}, seconds=options.seconds, least=2)["theirs"]
            ratio = times["ours"] / (calls * times["map"])
            rows.append([name, scale, calls, 1e3 * times["ours"], 1e3 * times["map"], ratio, plainly / times["ours"]])
    header = ["structure", "scores x", "MAP calls", "ours (ms)", "one MAP (ms)", "ours / (calls x MAP)", "plain / ours"]
    flat_header = ["structure", "scores x", "MAP calls", "structures", "ours (ms an item)", "gap"]
    flat = flat_rows(0.01, options.seconds)
    return [("Ratios", header, rows), ("Nearly flat scores, forward", flat_header, flat)]


if __name__ == "__main__":
    title = f"SparseMAP, forward and backward, batch of {BATCH}"
    run("sparsemap", title, __doc__, sections, seconds=1.0, add_options=add_options)
