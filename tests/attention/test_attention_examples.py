"""The examples that take arguments start, and print their tables."""

import runpy
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("name", "arguments"), [pytest.param("memory_tasks", (2, 2), marks=pytest.mark.slow), ("hard_attention", (3,))]
)
def test_examples_start(name, arguments, capsys):
    n_threads = torch.get_num_threads()
    try:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](*arguments)
    finally:
        torch.set_num_threads(n_threads)
    assert len(capsys.readouterr().out.splitlines()) > 5
