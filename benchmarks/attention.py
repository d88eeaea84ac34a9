"""Attention with each normalizer against F.scaled_dot_product_attention and against softmax through the same module.

A cell is forward / forward + backward: time relative to the fused softmax attention of PyTorch, then, in the second
table, relative to `Attention(normalizer=Shannon())`. Below 1 is faster. B·H = 16 heads of size 64.
"""

from __future__ import annotations

import argparse
import sys

import torch
from timing import Section, both_ways, fastest, run

import omegamax as om

HEADS, SIZE, LENGTHS = 16, 64, (128, 512, 1024)
ROUNDS = 20  # at least: long ones are few in the time given, and a busy moment may hit all of them
LIMIT = 1.3  # sparse attention must not be slower than this many times softmax through the same module
SPREADS = {"normal": 1.0, "×3": 3.0}  # of the scores: as at random, and as in a trained model


def normalizers(length: int) -> dict[str, om.SmoothMax]:
    return {
        "softmax": om.Shannon(),
        "hardmax": om.Hard(),
        "sparsemax": om.SquaredNorm(),
        "entmax15": om.Tsallis(1.5),
        "entmax(1.3)": om.Tsallis(1.3),
        "sqpnormmax": om.SquaredPNorm(1.5),
        "fusedmax(0.1)": om.Fused(0.1),
        "oscarmax(1/N)": om.Oscar(1 / length),
    }


def through_module(normalizer: om.SmoothMax):
    attention = om.Attention(normalizer=normalizer)
    return lambda query, key, value: attention(query, key, value, need_weights=False).output


def measured(length: int, spread: float, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a forward and of a forward and backward pass, for each normalizer and for PyTorch's attention."""
    tensors = [torch.randn(1, HEADS, length, SIZE) for _ in range(3)]
    tensors[0] *= spread  # scores are query · key / √d
    gradient = torch.randn(1, HEADS, length, SIZE)
    runs = {"torch": torch.nn.functional.scaled_dot_product_attention}
    runs |= {name: through_module(smooth) for name, smooth in normalizers(length).items()}
    with torch.no_grad():
        ahead = fastest({name: lambda f=f: f(*tensors) for name, f in runs.items()}, seconds=seconds, least=ROUNDS)
    back = fastest(
        {name: both_ways(f, *tensors, gradient=gradient) for name, f in runs.items()}, seconds=seconds, least=ROUNDS
    )
    return ahead, back


def sections(options: argparse.Namespace) -> list[Section]:
    names = list(normalizers(1))
    tables: dict[str, list[list[object]]] = {"torch": [], "softmax": []}
    slow = []
    for length in LENGTHS:
        for kind, spread in SPREADS.items():
            ahead, back = measured(length, spread, options.seconds)
            for base, table in tables.items():
                cells = [f"{ahead[name] / ahead[base]:.2f} / {back[name] / back[base]:.2f}" for name in names]
                table.append([length, kind, *cells])
            for name in names:
                ratios = ahead[name] / ahead["softmax"], back[name] / back["softmax"]
                if max(ratios) > LIMIT:
                    slow.append([name, length, kind, *ratios])
            print(length, kind, dict(zip(names, tables["softmax"][-1][2:])), file=sys.stderr, flush=True)
    header = ["N", "scores", *names]
    return [
        ("Time relative to F.scaled_dot_product_attention: forward / forward + backward", header, tables["torch"]),
        ("Time relative to softmax through the same module", header, tables["softmax"]),
        (f"Slower than {LIMIT} times softmax", ["normalizer", "N", "scores", "forward", "forward + backward"], slow),
    ]


if __name__ == "__main__":
    run("attention", "Attention", __doc__, sections)
