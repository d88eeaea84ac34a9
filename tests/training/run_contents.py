"""What a run left behind, without the times: two runs are the same if these are."""

import json

from omegamax.training.progress import Silent

TIMES = ("seconds", "items_per_second", "threads")


class Crash(Exception):  # noqa: N818
    """Stands for whatever ends a process."""


class CrashAfter(Silent):
    """Raises `Crash` after some steps, which stands for the end of the process."""

    def __init__(self, n_steps):
        self.left = n_steps

    def step(self, *, epoch, loss):
        self.left -= 1
        if self.left == 0:
            raise Crash


def metrics(path):
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in lines]


def contents(path):
    """Every file of a run but the lock, the run's name for itself, and TensorBoard's."""
    found = {"metrics": metrics(path), "files": sorted(p.name for p in path.iterdir() if p.name != "tensorboard")}
    for directory in sorted((path / "checkpoints").iterdir()):
        sealed = json.loads((directory / "checkpoint.json").read_text())["content"]
        sealed["run"] = sealed["state"]["seconds"] = sealed["state"]["threads"] = None
        found[directory.name] = {
            "card": sealed,
            "model": (directory / "model.safetensors").read_bytes(),
            "training": (directory / "training.safetensors").read_bytes(),
        }
    return found
