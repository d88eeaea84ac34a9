"""The layout of runs and checkpoints on disk: names and keys that older and newer versions must share."""

import hashlib
import json

import pytest
from safetensors.torch import load_file
from toy_task import Sums, SumsSettings

from omegamax.recipes import TASKS
from omegamax.recipes.text_to_text import TextPair, TextToText
from omegamax.training import RunDirectory, Silent, TrainingSettings, train
from omegamax.training.task import data_digest, task_name

CARD = ["run", "task", "settings", "training", "assets", "data", "state", "n_processes", "versions"]
STATE = [
    "epoch",
    "position",
    "step",
    "best_value",
    "best_epoch",
    "best_step",
    "best_metrics",
    "n_stale",
    "plateau_factor",
    "plateau_n_stale",
    "window_loss",
    "window_items",
    "epoch_loss",
    "epoch_items",
    "n_lines",
    "threads",
    "seconds",
]
TRAINING = [
    "epochs",
    "batch_size",
    "accumulate",
    "optimizer",
    "learning_rate",
    "schedule",
    "warmup",
    "plateau",
    "pieces",
    "weight_decay",
    "clip",
    "patience",
    "precision",
    "sharding",
    "save_every",
    "keep",
    "log_every",
    "seed",
    "threads",
    "device",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("layout") / "run"
    task = Sums.prepare(SumsSettings(n_examples=20))
    train(
        task, TrainingSettings(epochs=1, batch_size=10, log_every=1, threads=1), RunDirectory(path), progress=Silent()
    )
    return path


def test_files(run):
    assert {path.name for path in run.iterdir()} - {"tensorboard"} == {
        "config.json",
        "metrics.jsonl",
        "checkpoints",
        "lock",
    }
    (checkpoint,) = (run / "checkpoints").iterdir()
    assert checkpoint.name == "epoch-00001-step-000000002"
    assert sorted(path.name for path in checkpoint.iterdir()) == [
        "checkpoint.json",
        "model.safetensors",
        "training.safetensors",
    ]


def test_keys(run):
    config = json.loads((run / "config.json").read_text())
    assert list(config) == ["format", "run", "task", "metric", "settings", "training", "versions"]
    assert config["format"] == "omegamax run 1" and config["task"] == "toy_task:Sums"
    assert list(config["training"]) == TRAINING
    signed = json.loads((run / "checkpoints" / "epoch-00001-step-000000002" / "checkpoint.json").read_text())
    content = signed["content"]
    assert list(signed) == ["sha256", "content"] and list(content) == ["format", *CARD, "files"]
    assert content["format"] == 1 and list(content["state"]) == STATE and list(content["training"]) == TRAINING
    steps, epoch = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][-2:]
    times = ["seconds", "items_per_second", "threads"]
    assert list(steps) == ["event", "epoch", "step", "loss", "learning_rate", "gradient_norm", *times]
    assert list(epoch) == ["event", "epoch", "step", "loss", "metrics", "best", *times]


def test_tensors(run):
    path = run / "checkpoints" / "epoch-00001-step-000000002"
    model, training = load_file(path / "model.safetensors"), load_file(path / "training.safetensors")
    parameters = [name for name in model if name != "n_calls"]
    moments = {f"optimizer.{key}.{name}" for key in ("exp_avg", "exp_avg_sq", "step") for name in parameters}
    random = {f"random.0.{name}" for name in ("torch", "python", "python_gauss", "numpy", "numpy_gauss")}
    assert set(training) - {"random.0.cuda"} == moments | random


def test_the_checksum_of_texts():
    """Resuming compares it, so it may not change with the name of a class."""

    class Texts(TextToText):
        read_texts = model = None

    pairs = [TextPair(("<fr>", "3"), "2017-03-03"), TextPair((), "")]
    lines = ["2", "TextPair(source=('<fr>', '3'), target='2017-03-03')", "TextPair(source=(), target='')", "0"]
    by_hand = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert data_digest(Texts.__new__(Texts), pairs, []) == by_hand


@pytest.mark.parametrize("name", TASKS)
def test_a_recipe_has_the_name_of_its_row(name):
    task = TASKS[name].task_class()
    assert task_name(task) == name and task.settings_type is TASKS[name].settings_class()
    assert task_name(type("Other", (task,), {})) != name  # checkpoints of a subclass are not those of the recipe
