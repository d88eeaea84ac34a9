"""SparseMAP, forward and backward in a batch, against a plain NumPy and SciPy active set, and against its MAP calls."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import plain_sparsemap as plain
import torch
from timing import fastest, write

import omegamax as om

BATCH = 32


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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--scales", type=float, nargs="*", default=[1.0, 5.0])
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
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
            times = fastest({"ours": one}, seconds=1.0)
            times |= fastest({"map": lambda s=structure, d=doubled: s.map(d)}, seconds=1.0)
            plainly = fastest({"theirs": other}, seconds=1.0, least=2)["theirs"]
            ratio = times["ours"] / (calls * times["map"])
            rows.append([name, scale, calls, 1e3 * times["ours"], 1e3 * times["map"], ratio, plainly / times["ours"]])
    header = ["structure", "scores x", "MAP calls", "ours (ms)", "one MAP (ms)", "ours / (calls x MAP)", "plain / ours"]
    write("sparsemap", f"SparseMAP, forward and backward, batch of {BATCH}", [("Ratios", header, rows)])


if __name__ == "__main__":
    main()
