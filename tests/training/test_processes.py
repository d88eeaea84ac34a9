"""Several processes: the result of one, exact resumption, one writer, and a reason when one of them dies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes_program import SETTINGS, STILL
from run_contents import metrics
from toy_task import Sums

from omegamax.errors import DeviceError
from omegamax.recipes import load
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate, predict
from omegamax.training.processes import Processes, join_processes
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory, list_checkpoints
from omegamax.training.settings import TrainingSettings

HERE = Path(__file__).parent


def torchrun(what, directory):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["", str(HERE.parent.parent)])}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, str(HERE / "processes_program.py"), what, str(directory)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


def one(path, **settings):
    chosen = TrainingSettings(**{**SETTINGS, **settings})
    return train(Sums.prepare(STILL), chosen, RunDirectory(path, existing="resume"), progress=Silent())


def assert_close(path, other):
    """Parameters and metrics to 1e-5."""
    mine, theirs = (load(each, task=Sums, which="latest").model for each in (path, other))
    for name, parameter in mine.named_parameters():
        torch.testing.assert_close(parameter, theirs.get_parameter(name), rtol=0, atol=1e-5)
    for line, expected in zip(metrics(path), metrics(other), strict=True):
        assert line.keys() == expected.keys()
        assert line["loss"] == pytest.approx(expected["loss"], abs=1e-5)
        assert line.get("metrics") == expected.get("metrics")


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path):
    done = torchrun("agree", tmp_path)
    assert done.returncode == 0, done.stderr
    one(tmp_path / "one")
    assert_close(tmp_path / "ddp", tmp_path / "one")
    assert_close(tmp_path / "fsdp", tmp_path / "one")
    one(tmp_path / "regrouped")
    assert_close(tmp_path / "regrouped", tmp_path / "one")
    loaded = load(tmp_path / "ddp", task=Sums)
    examples = loaded.task.examples("test")
    said, measured = json.loads((tmp_path / "said.json").read_text())
    assert said == predict(loaded.task, loaded.model, examples)
    assert measured == evaluate(loaded.task, loaded.model, examples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"), [("die", "it died without a message"), ("fail", "ValueError: no luck today")]
)
def test_the_death_of_one_ends_all_with_a_reason(tmp_path, how, words):
    done = torchrun(how, tmp_path)
    assert done.returncode != 0
    assert f"SAID: rank 1 of 2 ended ({words}), so rank 0 stops too" in done.stderr
    assert [path.name for path in list_checkpoints(tmp_path / "run")] == ["epoch-00000-step-000000003"]
    one(tmp_path / "run")
    one(tmp_path / "one")
    assert_close(tmp_path / "run", tmp_path / "one")


def test_one_process_is_a_crew_of_one():
    with join_processes("cpu") as processes:
        assert processes == Processes()
        assert processes.is_rank_zero
        assert processes.sum(1.5, 2) == [1.5, 2]
        assert processes.gather("a") == ["a"]
        assert processes.on_rank_zero(lambda: 3) == 3


def test_a_device_that_is_none_is_refused():
    with pytest.raises(DeviceError, match="device must be auto, cpu, cuda"), join_processes("abacus"):
        pass
