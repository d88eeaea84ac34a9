"""A program that trains in child processes and kills them: `python killing.py sites|moments DIRECTORY`.

It loads PyTorch once and forks, so that hundreds of processes can die in a few seconds. It exits with 0 if each run,
once resumed, is the same as one that nobody killed.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from run_contents import contents
from toy_task import Sums, SumsSettings

from omegamax.data import files
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "ftruncate")  # all that changes a directory


class Steps(Silent):
    """Says on a pipe that a step was taken."""

    def __init__(self, pipe):
        self.pipe = pipe

    def step(self, *, epoch, loss):
        os.write(self.pipe, b".")


def run(path, settings, progress=None, existing="resume"):
    task = Sums.prepare(SumsSettings(n_examples=20))
    train(task, settings, RunDirectory(path, existing=existing), progress=progress or Silent())


def child(act):
    """Acts in a process of its own; returns its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid):
    """How a child ended: 0 for well, -9 for killed."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fatal_call(number, count=None):
    """Makes the n-th call that changes the disk the last; counts calls if there is no such number."""
    left = [number]

    def counted(original):
        def call(*arguments, **options):
            if left[0] == 0:
                die()
            left[0] -= 1
            if count is not None:
                os.write(count, b".")
            return original(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


def fatal_write(number):
    """Makes the n-th file be half written when the process dies."""
    left, original = [number], files._write

    def write(path, content):
        if left[0] == 0:
            path.write_bytes(content[: len(content) // 2])
            die()
        left[0] -= 1
        original(path, content)

    files._write = write


def same_after(spoil, directory, settings, expected):
    """Whether a run that `spoil` killed comes to the expected end."""
    path = directory / "killed"
    shutil.rmtree(path, ignore_errors=True)
    status = ended(child(lambda: (spoil(), run(path, settings))))
    if status == 0:
        return None  # it came to its end before
    assert status == -signal.SIGKILL, status
    assert ended(child(lambda: run(path, settings))) == 0, "it could not be resumed"
    return contents(path) == expected


def sites(directory):
    """Dies at every call that changes the disk, and in every file, of a fresh run and of one that overwrites."""
    settings = TrainingSettings(epochs=2, batch_size=10, save_every=1, log_every=1)
    assert ended(child(lambda: run(directory / "whole", settings))) == 0
    expected = contents(directory / "whole")
    n_tried = 0
    for fatal in (fatal_call, fatal_write):
        for number in range(10_000):
            same = same_after(lambda: fatal(number), directory, settings, expected)  # noqa: B023
            if same is None:
                break
            n_tried += 1
            assert same, f"killed at {fatal.__name__} {number}"
    print(f"killed {n_tried} times")
    assert n_tried > 50
    overwriting(directory, settings, expected)


def overwriting(directory, settings, expected):
    """Dies while it replaces an old run, which is there whole until the new one is in its place."""
    old, path = directory / "old", directory / "killed"
    assert ended(child(lambda: run(old, TrainingSettings(epochs=1, batch_size=10, seed=1)))) == 0
    replaced = []
    for number in range(12):
        shutil.rmtree(path)
        shutil.copytree(old, path)
        act = lambda: (fatal_call(number), run(path, settings, existing="overwrite"))  # noqa: B023, E731
        assert ended(child(act)) == -signal.SIGKILL
        replaced.append((path / "config.json").read_bytes() != (old / "config.json").read_bytes())
        if replaced[-1]:
            assert ended(child(lambda: run(path, settings))) == 0
            assert contents(path) == expected, f"killed at call {number} of an overwriting run"
        else:
            files.remove_unfinished(path)
            assert contents(path) == contents(old), f"killed at call {number} of an overwriting run"
    assert replaced == sorted(replaced)
    assert set(replaced) == {True, False}


def moments(directory):
    """Dies at random moments, again and again, until the run is at its end."""
    settings = TrainingSettings(epochs=12, batch_size=5, save_every=3, log_every=2)
    assert ended(child(lambda: run(directory / "whole", settings))) == 0
    expected = contents(directory / "whole")
    chance = random.Random(0)
    n_kills = 0
    for attempt in range(3):
        path = directory / f"killed{attempt}"
        while True:
            reader, writer = os.pipe()
            pid = child(lambda: run(path, settings, Steps(writer)))  # noqa: B023
            os.close(writer)
            for _ in range(chance.randrange(1, 14)):  # after some steps, and a moment
                if not os.read(reader, 1):
                    break
            time.sleep(chance.random() * 0.03)
            os.kill(pid, signal.SIGKILL)
            status = ended(pid)
            os.close(reader)
            if status == 0:
                break
            assert status == -signal.SIGKILL, status
            n_kills += 1
        assert contents(path) == expected, f"attempt {attempt}"
    print(f"killed {n_kills} times")
    assert n_kills > 10


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    run(directory / "warm", TrainingSettings(epochs=1))
    {"sites": sites, "moments": moments}[sys.argv[1]](directory)
