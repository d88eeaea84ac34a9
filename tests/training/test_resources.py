"""The number of threads: the faster of one and all, chosen without a trace in the result."""

import json
import os
import signal
import threading
import time

import pytest
import torch
from run_contents import Crash, CrashAfter, contents
from toy_task import Sums, SumsSettings

from omegamax.training import loop, resources
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SETTINGS = {"epochs": 2, "batch_size": 10, "save_every": 1, "log_every": 1}
TASK = Sums.prepare(SumsSettings(n_examples=20))


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def run(path, existing="refuse", progress=None, task=TASK, **values):
    settings = TrainingSettings(**{**SETTINGS, **values})
    return train(task, settings, RunDirectory(path, existing=existing), progress=progress or Silent())


@pytest.mark.parametrize(("one", "two", "chosen"), [(1, 8, 1), (8, 1, 2), (5, 5, 1)])
def test_the_faster_number_wins_and_one_wins_a_tie(one, two, chosen):
    found, said = resources.faster_threads(lambda: time.sleep(1e-3 * (one if torch.get_num_threads() == 1 else two)))
    assert found == chosen and f"using {chosen} " in said and "--threads" in said
    assert torch.get_num_threads() == 2


@pytest.mark.slow
def test_a_slow_trial_is_short():
    began = time.monotonic()
    resources.faster_threads(lambda: time.sleep(0.6))
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("chosen", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_trial_leaves_no_trace_in_the_result(tmp_path, monkeypatch, chosen):
    original = resources.faster_threads
    monkeypatch.setattr(resources, "faster_threads", lambda act: (original(act) and chosen, "said"))
    trained = run(tmp_path / "tried")
    assert trained.threads == chosen and torch.get_num_threads() == 2
    lines = [json.loads(line) for line in (tmp_path / "tried" / "metrics.jsonl").read_text().splitlines()]
    assert {line["threads"] for line in lines} == {chosen}
    run(tmp_path / "forced", threads=chosen)
    tried, forced = contents(tmp_path / "tried"), contents(tmp_path / "forced")
    for found in (tried, forced):
        for name in found:
            if name.startswith("epoch"):
                found[name]["card"]["training"]["threads"] = None
    assert tried == forced


def test_a_resumed_run_goes_on_with_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "threads_for_training", lambda *_: (1, ""))
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    monkeypatch.setattr(loop, "threads_for_training", None)  # would fail if it were called
    assert run(tmp_path / "run", "resume").threads == 1


@pytest.mark.slow
def test_a_number_that_is_given_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "threads_for_training", None)
    assert run(tmp_path / "run", threads=2).threads == 2


class Slow(Sums):
    def predict(self, model, examples):
        for _ in range(1000):
            time.sleep(0.01)
        return super().predict(model, examples)


def test_ctrl_c_ends_an_evaluation_at_once_and_loses_nothing(tmp_path, monkeypatch):
    class Alarm(Silent):
        def step(self, *, epoch, loss):
            if epoch == 1 and not self.steps:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            self.steps += 1

        steps = 0

    began = time.monotonic()
    trained = run(tmp_path / "run", progress=Alarm(), task=Slow.prepare(TASK.settings), threads=1)
    assert trained.outcome == "interrupted" and time.monotonic() - began < 5
    monkeypatch.setattr(Slow, "predict", Sums.predict)
    run(tmp_path / "run", "resume", task=Slow.prepare(TASK.settings), threads=1)
    run(tmp_path / "whole", task=Slow.prepare(TASK.settings), threads=1)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
