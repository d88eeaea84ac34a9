"""A program for torchrun: `processes_program.py agree|die|fail DIRECTORY`."""

import contextlib
import json
import os
import signal
import sys
import warnings
from pathlib import Path

import torch
from run_contents import Crash, contents
from toy_task import Sums, SumsSettings

from omegamax.data import files
from omegamax.errors import RecipeError
from omegamax.recipes import load
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate, predict
from omegamax.training.processes import join_processes
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

STILL = SumsSettings(n_examples=61, dropout=0.0, noise=0.0)  # the last batch of ten has one example: one share is empty
NOISY = SumsSettings(n_examples=61)
SETTINGS = {"epochs": 2, "batch_size": 10, "learning_rate": 0.02, "save_every": 3, "log_every": 2}


class Fragile(Sums):
    """Acts at a given call of its loss."""

    act, at, n_calls = None, 0, 0

    def loss(self, model, batch):
        self.n_calls += 1
        if self.n_calls == self.at:
            self.act()
        return super().loss(model, batch)


Fragile.__module__, Fragile.__qualname__ = Sums.__module__, Sums.__qualname__


def fragile(settings, at, act):
    task = Fragile.prepare(settings)
    task.at, task.act = at, act
    return task


def crash():
    raise Crash


def agree(directory, processes):
    """Trains in several ways; what the first process writes is compared by the test."""
    if not processes.is_rank_zero:
        files._write = None  # only one writes

    def run(name, task, existing="refuse", **settings):
        chosen = TrainingSettings(**{**SETTINGS, **settings})
        return train(
            task, chosen, RunDirectory(directory / name, existing=existing), progress=Silent(), processes=processes
        )

    still, noisy = Sums.prepare(STILL), Sums.prepare(NOISY)
    run("ddp", still)
    run("fsdp", still, sharding="fsdp", accumulate=3)
    for sharding in ("ddp", "fsdp"):
        run(f"{sharding}-whole", noisy, sharding=sharding)
        for at in (6, 3):  # after the checkpoint at step 3, and two steps later
            try:
                run(f"{sharding}-crashed", fragile(NOISY, at, crash), existing="resume", sharding=sharding)
            except Crash:
                pass
            else:
                raise AssertionError
        run(f"{sharding}-crashed", noisy, existing="resume", sharding=sharding)
        assert contents(directory / f"{sharding}-crashed") == contents(directory / f"{sharding}-whole"), sharding
    interrupt = fragile(NOISY, 4, lambda: processes.rank == 1 and os.kill(os.getpid(), signal.SIGINT))  # one of two
    trained = run("interrupted", interrupt)
    assert processes.gather((trained.outcome, trained.steps)) in ([("interrupted", 4)] * 2, [("interrupted", 5)] * 2)
    run("interrupted", noisy, existing="resume")
    assert contents(directory / "interrupted") == contents(directory / "ddp-whole")
    with contextlib.suppress(Crash):  # left for one process to take up
        run("regrouped", fragile(STILL, 6, crash), sharding="fsdp")
    try:
        run("ddp", still)
    except RecipeError as error:
        assert "holds a run already" in str(error)
    else:
        raise AssertionError
    loaded = load(directory / "ddp", task=Sums, device=processes.device)
    lines = predict(loaded.task, loaded.model, still.examples("test"), batch_size=4, processes=processes)
    metrics = evaluate(loaded.task, loaded.model, still.examples("test"), batch_size=4, processes=processes)
    assert processes.gather((lines, metrics)) == [(lines, metrics)] * 2
    if processes.is_rank_zero:
        (directory / "said.json").write_text(json.dumps([lines, metrics]))


def lose(directory, processes, act):
    task = fragile(STILL, 5, act) if processes.rank == 1 else Sums.prepare(STILL)
    train(task, TrainingSettings(**SETTINGS), RunDirectory(directory / "run"), progress=Silent(), processes=processes)


def fail():
    raise ValueError("no luck today")


def main(what, directory):
    torch.set_num_threads(1)
    try:
        with join_processes("cpu") as processes:
            if what == "agree":
                agree(directory, processes)
            elif what == "die":
                lose(directory, processes, lambda: os.kill(os.getpid(), signal.SIGKILL))
            else:
                lose(directory, processes, fail)
    except RecipeError as error:
        print(f"SAID: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    os._exit(0)  # without a shutdown of the interpreter, which PyTorch's own threads may not survive


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1], Path(sys.argv[2]))
