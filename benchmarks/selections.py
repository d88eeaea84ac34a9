"""Matchings against SciPy's assignment in a batch; SparseMAP and Sinkhorn on them; how subsets grow with n and k.

SciPy solves one matrix per call and returns indices; ours returns the score (`max`) or a 0/1 tensor (`map`).
"""

from __future__ import annotations

import argparse

import torch
from scipy.optimize import linear_sum_assignment
from timing import Section, both_ways, fastest, run

import omegamax as om

MATCHINGS = [(1, 20, 20), (32, 20, 20), (32, 20, 40), (32, 100, 100), (32, 100, 200)]
KINDS = {
    "normal": lambda *shape: torch.randn(*shape, dtype=torch.float64),
    "whole numbers": lambda *shape: torch.randint(0, 10, shape).double(),
    "distances": lambda b, r, c: -(torch.randn(b, r, 1) - torch.randn(b, 1, c)).square().double(),
}
SUBSETS = [(100, 5), (100, 50), (1000, 5), (1000, 50), (1000, 500), (10_000, 5), (10_000, 50)]


def against_scipy(seconds: float) -> list[list[object]]:
    table = []
    matching = om.Matching()
    for shape in MATCHINGS:
        for kind, draw in KINDS.items():
            scores = draw(*shape)
            matrices = scores.numpy()
            solved = [linear_sum_assignment(matrix, maximize=True) for matrix in matrices]
            theirs = torch.tensor([matrix[pair].sum() for matrix, pair in zip(matrices, solved)])
            torch.testing.assert_close(matching.max(scores, om.Hard()), theirs)
            best = fastest(
                {
                    "max": lambda: matching.max(scores, om.Hard()),
                    "map": lambda: matching.map(scores),
                    "scipy": lambda: [linear_sum_assignment(matrix, maximize=True) for matrix in matrices],
                },
                seconds=seconds,
            )
            table.append(
                [
                    "×".join(map(str, shape)),
                    kind,
                    best["max"] * 1e6,
                    best["scipy"] / best["max"],
                    best["scipy"] / best["map"],
                ]
            )
    return table


def smoothed(seconds: float) -> list[list[object]]:
    table = []
    matching = om.Matching()
    for scale in (0.2, 1.0, 5.0):
        scores = scale * torch.randn(32, 20, 20, dtype=torch.float64)
        calls = matching.sparsemap(scores).n_iterations.double().mean().item()
        best = fastest(
            {
                "max": lambda: matching.max(scores, om.Hard()),
                "sparsemap": lambda: matching.sparsemap(scores),
                "sinkhorn": lambda: matching.sinkhorn(scores),
            },
            seconds=seconds,
        )
        relative = best["sparsemap"] / (calls * best["max"])
        table.append([scale, calls, best["sparsemap"] * 1e3, relative, best["sinkhorn"] * 1e3])
    return table


def subsets(seconds: float) -> list[list[object]]:
    """Forward and backward of the log-partition; softmax on the same row is the unit."""
    table = []
    for n, k in SUBSETS:
        scores = torch.randn(32, n)
        structure = om.Subset(k)
        best = fastest(
            {
                "both": both_ways(structure.max, scores),
                "map": lambda: structure.map(scores),
                "topk": lambda: scores.topk(k),
                "softmax": lambda: torch.softmax(scores, -1),
            },
            seconds=seconds,
        )
        per_cell = best["both"] / (32 * n * k) * 1e9
        table.append([n, k, best["both"] * 1e6, per_cell, best["both"] / best["softmax"], best["map"] / best["topk"]])
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    seconds = options.seconds
    return [
        (
            "The best matching, float64",
            ["batch × rows × columns", "scores", "µs", "times faster than SciPy", "with a 0/1 tensor as the answer"],
            against_scipy(seconds),
        ),
        (
            "Smoothed matchings, 32×20×20, forward",
            ["scale", "calls of the oracle", "SparseMAP, ms", "/ (calls × the best of the batch)", "Sinkhorn, ms"],
            smoothed(seconds),
        ),
        (
            "Subsets, batch of 32, float32: log-partition and its gradient, linear in n · k",
            ["n", "k", "µs", "ns per item, n and k", "× softmax", "the best, × torch.topk"],
            subsets(seconds),
        ),
    ]


if __name__ == "__main__":
    run("selections", "Matchings and subsets", __doc__, sections)
