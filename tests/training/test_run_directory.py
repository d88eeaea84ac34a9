"""Run directories: nothing is overwritten, nothing is lost, and there is one writer."""

import json
import os
import resource
import shutil
import subprocess
import sys

import pytest
import torch
from run_contents import Crash, CrashAfter, contents, metrics
from toy_task import Sums, SumsSettings

from omegamax.errors import CheckpointError, RunDirectoryError
from omegamax.recipes import load
from omegamax.training.loop import train
from omegamax.training.prediction import read_saved_model
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory, list_checkpoints, read_run_config
from omegamax.training.settings import TrainingSettings

SETTINGS = TrainingSettings(epochs=2, batch_size=10, save_every=1, log_every=1)
TASK = Sums.prepare(SumsSettings(n_examples=20))


def run(path, existing="refuse", settings=SETTINGS, task=TASK, progress=None):
    return train(task, settings, RunDirectory(path, existing=existing), progress=progress or Silent())


def changed(**values):
    return TrainingSettings(**{**vars(SETTINGS), **values})


def test_an_existing_run_is_refused_and_left_alone(tmp_path):
    run(tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=r"holds a run already; continue it with --resume, .* --overwrite"):
        run(tmp_path / "run", settings=changed(seed=1))
    assert contents(tmp_path / "run") == before


def test_overwriting_replaces_it(tmp_path):
    run(tmp_path / "run", settings=changed(seed=1, epochs=3))
    run(tmp_path / "run", existing="overwrite")
    run(tmp_path / "fresh")
    assert contents(tmp_path / "run") == contents(tmp_path / "fresh")


def test_a_damaged_run_can_be_overwritten(tmp_path):
    run(tmp_path / "run")
    for path in list_checkpoints(tmp_path / "run"):
        (path / "checkpoint.json").write_text("rubbish")
    run(tmp_path / "run", existing="overwrite")
    load(tmp_path / "run", task=Sums)


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.thinned(4)
def test_a_crash_while_overwriting_is_resumed_as_the_new_run(tmp_path, after):
    run(tmp_path / "run", settings=changed(seed=1, epochs=3))
    with pytest.raises(Crash):
        run(tmp_path / "run", existing="overwrite", progress=CrashAfter(after))
    run(tmp_path / "run", existing="resume")
    run(tmp_path / "fresh")
    assert contents(tmp_path / "run") == contents(tmp_path / "fresh")


@pytest.mark.parametrize("existing", ["refuse", "overwrite", "resume"])
def test_a_directory_of_something_else_is_left_alone(tmp_path, existing):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(RunDirectoryError, match=r"something else than a run \(thesis.tex\)"):
        run(tmp_path, existing)
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "config.json").write_text('{"mine": true}')
    with pytest.raises(RunDirectoryError, match=r"config\.json is not a run's"):
        run(tmp_path, existing)
    assert (tmp_path / "config.json").read_text() == '{"mine": true}'
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="is a file"):
        RunDirectory(tmp_path / "file", existing=existing).check()


def test_an_empty_directory_is_used(tmp_path):
    run(tmp_path)
    assert read_run_config(tmp_path)["task"] == "toy_task:Sums"


def test_existing_is_one_of_three():
    with pytest.raises(ValueError, match="existing must be refuse, overwrite or resume"):
        RunDirectory("run", existing="perhaps")


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"seed": 1}, "seed = 0"),
        ({"learning_rate": 0.5}, "learning_rate = 0.001"),
        ({"batch_size": 5}, "batch_size = 10"),
        ({"epochs": 3}, "epochs = 2"),  # the cosine would have been another
        ({"precision": "bfloat16"}, "precision = 'float32'"),
        ({"accumulate": 2}, "accumulate = 1"),
        ({"patience": 1}, "patience = 0"),
    ],
)
def test_other_settings_are_not_resumed(tmp_path, values, name):
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    with pytest.raises(RunDirectoryError, match=f"began with {name}, which cannot become"):
        run(tmp_path / "run", "resume", settings=changed(**values))


def test_a_run_that_began_before_an_option_was_there_is_resumed(tmp_path):
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    assert config["training"].pop("optimizer") == "adamw"
    file.write_text(json.dumps(config))
    with pytest.raises(RunDirectoryError, match="began with optimizer = 'adamw', which cannot become 'sgd'"):
        run(tmp_path / "run", "resume", settings=changed(optimizer="sgd"))
    run(tmp_path / "run", "resume")
    assert json.loads(file.read_text())["training"]["optimizer"] == "adamw"


def test_another_task_or_its_settings_are_not_resumed(tmp_path):
    class Other(Sums):
        pass

    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(1))
    with pytest.raises(RunDirectoryError, match=r"is a run of toy_task:Sums, not of .*Other"):
        run(tmp_path / "run", "resume", task=Other.prepare(TASK.settings))
    with pytest.raises(RunDirectoryError, match=r"began with dropout = 0\.2, which cannot become 0\.5"):
        run(tmp_path / "run", "resume", task=Sums.prepare(SumsSettings(n_examples=20, dropout=0.5)))


def test_what_does_not_change_the_result_may_change(tmp_path):
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    run(tmp_path / "run", "resume", settings=changed(save_every=7, sharding="fsdp", device="cpu"))
    run(tmp_path / "whole")
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["training"]["save_every"] == 7


HOLDER = """
import fcntl, os, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(str(os.getpid()))
lock.flush()
print("held", flush=True)
time.sleep(60)
"""


def test_two_processes_do_not_share_a_directory_and_a_lock_dies_with_its_holder(tmp_path):
    run(tmp_path / "run")
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run" / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            for existing in ("resume", "overwrite"):
                with pytest.raises(RunDirectoryError, match=f"in use by process {holder.pid}"):
                    run(tmp_path / "run", existing)
        finally:
            holder.kill()
    run(tmp_path / "run", "resume")


def test_the_lock_is_released_after_a_refusal(tmp_path):
    run(tmp_path / "run")
    for _ in range(2):
        with pytest.raises(RunDirectoryError, match="holds a run already"):
            run(tmp_path / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunDirectoryError, match=r"cannot write to .* \(permission denied\)"):
            run(tmp_path / "run")
    finally:
        tmp_path.chmod(0o700)


def test_a_path_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match=r"cannot write to .* \(not a directory\)"):
        run(tmp_path / "file" / "run")


class LimitAfter(Silent):
    """No file may grow beyond some bytes after some steps: the system refuses as it does when a disk is full."""

    def __init__(self, n_steps, n_bytes):
        self.left, self.n_bytes = n_steps, n_bytes

    def step(self, *, epoch, loss):
        self.left -= 1
        if self.left == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.n_bytes, resource.RLIM_INFINITY))


@pytest.mark.parametrize("n_bytes", [100, 1000, 4000, 10_000])  # in the log, in the model, in the moments, in the card
@pytest.mark.thinned(2)
def test_a_full_disk_loses_nothing(tmp_path, n_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(RunDirectoryError, match=r"cannot write to .*epoch-00001-step-000000002 is whole.*--resume"):
            run(tmp_path / "run", progress=LimitAfter(3, n_bytes))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    load(tmp_path / "run", task=Sums)
    assert not list(tmp_path.rglob(".unfinished*"))
    run(tmp_path / "run", "resume")
    run(tmp_path / "whole")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_what_a_killed_process_left_is_swept_away(tmp_path):
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    shutil.copytree(list_checkpoints(tmp_path / "run")[-1], tmp_path / "run" / "checkpoints" / ".unfinished-1")
    (tmp_path / "run" / ".unfinished-2").write_text("{")
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"event": "st')
    run(tmp_path / "run", "resume")
    run(tmp_path / "whole")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_lost_lines_of_metrics_are_told_and_training_goes_on(tmp_path):
    class Listening(Silent):
        said = ""

        def message(self, text):
            self.said += text

    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashAfter(3))
    (tmp_path / "run" / "metrics.jsonl").unlink()
    listening = Listening()
    run(tmp_path / "run", "resume", progress=listening)
    assert "metrics.jsonl has lost lines" in listening.said
    assert len(metrics(tmp_path / "run")) > 0


def test_no_line_is_there_twice_after_lines_were_lost(tmp_path):
    settings = changed(epochs=4, save_every=100)
    with pytest.raises(Crash):
        run(tmp_path / "run", settings=settings, progress=CrashAfter(3))
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(Crash):  # one line after the checkpoint of the second epoch
        run(tmp_path / "run", "resume", settings=settings, progress=CrashAfter(4))
    run(tmp_path / "run", "resume", settings=settings)
    steps = [line["step"] for line in metrics(tmp_path / "run") if line["event"] == "step"]
    assert steps == [3, 4, 5, 6, 7, 8]


def test_the_best_and_the_latest_are_kept(tmp_path):
    run(tmp_path / "run")
    state = load(tmp_path / "run", task=Sums, which="latest").card.state
    kept = {path.name for path in list_checkpoints(tmp_path / "run")}
    assert kept == {
        f"epoch-{state['epoch']:05d}-step-{state['step']:09d}",
        f"epoch-{state['best_epoch']:05d}-step-{state['best_step']:09d}",
    }


def test_the_latest_checkpoints_are_kept_and_averaged(tmp_path):
    task = Sums.prepare(SumsSettings(n_examples=20))
    settings = TrainingSettings(epochs=4, batch_size=10, keep=3, threads=1, device="cpu")
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    kept = list_checkpoints(tmp_path / "run")
    assert [path.name[:11] for path in kept[-3:]] == ["epoch-00002", "epoch-00003", "epoch-00004"] and len(kept) <= 4
    parts = [read_saved_model(path).tensors for path in kept[-3:]]
    mean = read_saved_model(tmp_path / "run", average=3)
    assert mean.path == kept[-1] and any(tensor.is_floating_point() for tensor in mean.tensors.values())
    for name, tensor in mean.tensors.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, sum(part[name] for part in parts) / 3)
        else:
            assert torch.equal(tensor, parts[-1][name])
    best = tmp_path / "run" / "checkpoints" / "epoch-00001-step-000000002"
    if not best.exists():  # the best is kept however old it is, and is none of the latest
        shutil.copytree(kept[0], best)
    with pytest.raises(CheckpointError, match="has 3 checkpoints, and 4 are to be averaged; train it with"):
        read_saved_model(tmp_path / "run", average=4)
    with pytest.raises(CheckpointError, match="has 1 checkpoints, and 2 are to be averaged"):
        read_saved_model(kept[-1], average=2)
