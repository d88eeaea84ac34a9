"""Freed memory stays with the process while it trains, and the user's own setting of malloc is respected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="Unix only")

PROGRAM = """
import resource, torch
from omegamax.cli.freed_memory import keep_freed_memory
kept = keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(1 << 24)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(int(kept), faults())
"""


def run(**more: str) -> tuple[bool, int]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**plain, **more}, capture_output=True, text=True, check=True
    )
    kept, n_faults = found.stdout.split()
    return bool(int(kept)), int(n_faults)


def test_pages_are_not_asked_for_again():
    kept, n_faults = run()
    if not kept:
        pytest.skip("this C library cannot be asked")
    assert n_faults < 200  # ten times 16,384 without


def test_a_users_setting_stays():
    assert not run(MALLOC_ARENA_MAX="2")[0]
