"""Runs every benchmark of this folder with the given arguments; results go to benchmarks/results/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = [
    "rows.py",
    "chains.py",
    "alignments.py",
    "trees.py",
    "arborescences.py",
    "selections.py",
    "soft_sorting.py",
    "sparsemap.py",
    "factor_graphs.py",
    "losses.py",
    "attention.py",
    "sparse_attention.py",
    "decoding.py",
]

if __name__ == "__main__":
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).parent / name), *sys.argv[1:]], check=True)
