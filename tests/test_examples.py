"""Each example runs, from start to end, as a user would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def column(text, place):
    """The numbers of a table, by the first word of the line."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: float(row[place]) for row in rows if len(row) > abs(place) and re.fullmatch(r"[\d.]+", row[place])}


def memory_tasks(text):
    """Both tasks are learned, and go on to longer sequences."""
    shares = [float(share) for share in re.findall(r" \d: (\d\.\d+)", text)]
    assert len(shares) == 12
    assert min(shares) > 0.85


def hard_attention(text):
    """The estimators differ in their variance, and a sum over the support has none."""
    variance = column(text, -2)
    assert (
        variance["REINFORCE"] > 5 * variance["with"] > 5 * variance["straight-through"] > variance["marginalised"] == 0
    )


def attention_toy(text):
    """Segments are what fusedmax is made for; sparse weights are zero where they should be."""
    error, zeros = column(text, 1), column(text, 3)
    assert min(error, key=error.get) == "fusedmax"
    assert zeros["softmax"] == 0
    assert zeros["fusedmax"] > zeros["sparsemax"] > zeros["entmax15"] > 0.3


STATED = {"memory_tasks": memory_tasks, "hard_attention": hard_attention, "attention_toy": attention_toy}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    # From a directory of its own, where the package is found as this process finds it.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr, done.stderr
    STATED.get(path.stem, lambda text: None)(done.stdout)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert f"python examples/{path.name}" in text
