"""The command under torchrun: the result of one process, one writer, lines in order."""

import json
import os
import subprocess
import sys

import pytest
import torch
from cli.conftest import SMALL
from safetensors.torch import load_file

from omegamax import cli
from omegamax.training.runs import best_checkpoint

pytestmark = pytest.mark.slow
RUN = [*SMALL, "--dropout", "0", "--attention", "fusedmax"]


def torchrun(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "omegamax"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_train_as_one(tmp_path, sharding):
    assert cli.main(["train", "dates", *RUN, "--out", str(tmp_path / "one")]) == 0
    out = torchrun("train", "dates", *RUN, "--sharding", sharding, "--out", tmp_path / "two")
    assert out.count("exact_match") == 1  # one of them speaks
    one, two = (load_file(best_checkpoint(tmp_path / name) / "model.safetensors") for name in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-5, rtol=0)
    records = [json.loads((tmp_path / name / "evaluation.json").read_text()) for name in ("one", "two")]
    for split, metrics in records[0]["evaluation"].items():
        assert records[1]["evaluation"][split] == pytest.approx(metrics, rel=1e-3)


def test_predictions_are_shared_and_keep_their_order(trained, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{day} {'March ' * (day % 3 + 1)} 2017\n" for day in range(1, 20)))
    arguments = ["--input", str(lines), "--batch-size", "4", "--out"]
    assert cli.main(["predict", str(trained), *arguments, str(tmp_path / "one.txt")]) == 0
    torchrun("predict", trained, *arguments, tmp_path / "two.txt")
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()
    assert torchrun("evaluate", trained, "--json").count("exact_match") == 1
