"""Soft ranks and sorting against a plain PyTorch implementation of the same projection, and torchsort if installed.

The plain one sorts with PyTorch, pools adjacent violators in a Python loop over each row, and averages the pools with
`index_add`, which autograd differentiates. All give the same numbers, which is checked before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util

import torch
from timing import Section, both_ways, fastest, run
from torch import Tensor

import omegamax as om

SHAPES = [(64, 10), (64, 100), (64, 1000), (1, 10_000)]
GAMMA = 0.5


def pools(gaps: list[float]) -> list[int]:
    """The pool of each entry of one row: non-increasing least squares, by a stack."""
    blocks: list[list[float]] = []
    for gap in gaps:
        total, size = gap, 1.0
        while blocks and blocks[-1][0] * size < total * blocks[-1][1]:
            before = blocks.pop()
            total, size = total + before[0], size + before[1]
        blocks.append([total, size])
    return [number for number, (_, size) in enumerate(blocks) for _ in range(int(size))]


def plain_soft_rank(x: Tensor) -> Tensor:
    """The projection of x / γ onto the permutahedron of 1, ..., n, row by row."""
    n = x.shape[-1]
    ordered, order = (x / GAMMA).sort(dim=-1, descending=True)
    weights = torch.arange(n, 0, -1, dtype=x.dtype)
    rows = []
    for row in ordered:
        label = torch.tensor(pools((row.detach() - weights).tolist()))
        gap = row - weights
        size = torch.zeros(n, dtype=x.dtype).index_add(0, label, torch.ones_like(gap))
        mean = torch.zeros(n, dtype=x.dtype).index_add(0, label, gap) / size.clamp(min=1)
        rows.append(row - mean[label])
    return torch.stack(rows).gather(-1, order.argsort(dim=-1))


def ranks(seconds: float) -> list[list[object]]:
    entropic = om.Shannon()
    has_peer = importlib.util.find_spec("torchsort") is not None
    table = []
    for shape in SHAPES:
        x = torch.randn(*shape)
        torch.testing.assert_close(plain_soft_rank(x), om.soft_rank(x, gamma=GAMMA), atol=1e-2, rtol=1e-4)
        contestants = {
            "sort": both_ways(lambda x: x.sort(-1).values, x),
            "rank": both_ways(lambda x: om.soft_rank(x, gamma=GAMMA), x),
            "entropic": both_ways(lambda x: om.soft_rank(x, gamma=GAMMA, regularizer=entropic), x),
            "soft sort": both_ways(lambda x: om.soft_sort(x, gamma=GAMMA), x),
            "plain": both_ways(plain_soft_rank, x),
        }
        if has_peer:
            import torchsort

            contestants["torchsort"] = both_ways(lambda x: torchsort.soft_rank(x, regularization_strength=GAMMA), x)
        best = fastest(contestants, seconds=seconds, least=3)
        row: list[object] = ["×".join(map(str, shape)), best["rank"] * 1e6]
        row += [best[name] / best["rank"] for name in ("sort", "soft sort", "entropic", "plain")]
        row.append(best["torchsort"] / best["rank"] if has_peer else "not installed")
        table.append(row)
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    header = ["shape", "`soft_rank`, µs", "`torch.sort`", "`soft_sort`", "entropic", "plain PyTorch", "torchsort"]
    return [
        (
            "Forward and backward, float32; the other columns are multiples of the time of `soft_rank`",
            header,
            ranks(options.seconds),
        )
    ]


if __name__ == "__main__":
    run("soft_sorting", "Soft sorting and ranking", __doc__, sections)
