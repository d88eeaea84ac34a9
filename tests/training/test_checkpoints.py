"""Checkpoints: damaged, foreign and hostile ones are refused with a reason, and none runs code."""

import hashlib
import json
import os
import pickle
import random
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from run_contents import contents
from safetensors.torch import save as to_bytes
from toy_task import Sums, SumsSettings

from omegamax.errors import CheckpointError, RecipeError
from omegamax.recipes import TASKS, TaskEntry, load
from omegamax.training import checkpoints
from omegamax.training.checkpoints import CARD_FILE, MODEL_FILE, TRAINING_FILE
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory, list_checkpoints
from omegamax.training.settings import TrainingSettings

SETTINGS = TrainingSettings(epochs=1, batch_size=10, schedule="constant")
TASK = Sums.prepare(SumsSettings(n_examples=20))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "run"
    train(TASK, SETTINGS, RunDirectory(path), progress=Silent())
    return path


@pytest.fixture
def copied(made, tmp_path):
    """A run with one checkpoint, to be spoilt."""
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def latest(run):
    return list_checkpoints(run)[-1]


def resume(run):
    longer = TrainingSettings(**{**vars(SETTINGS), "epochs": 2})
    return train(TASK, longer, RunDirectory(run, existing="resume"), progress=Silent())


def tamper(path, change=lambda content: None, *, model=None, training=None):
    """Rewrites a checkpoint as someone would who knows the format, checksums and all."""
    content = json.loads((path / CARD_FILE).read_text())["content"]
    for name, tensors in ((MODEL_FILE, model), (TRAINING_FILE, training)):
        if tensors is not None:
            data = to_bytes(tensors)
            (path / name).write_bytes(data)
            content["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change(content)
    seal = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (path / CARD_FILE).write_text(json.dumps({"sha256": seal, "content": content}))


def tensors(path, name):
    return checkpoints.read_tensors(path, checkpoints.read_card(path)[1], name)


def test_a_tampered_copy_that_changes_nothing_loads(copied):
    path = latest(copied)
    tamper(path, model=tensors(path, MODEL_FILE), training=tensors(path, TRAINING_FILE))
    load(copied, task=Sums)
    resume(copied)


def test_every_tensor_comes_back(copied):
    path = latest(copied)
    loaded = load(copied, task=Sums)
    stored = tensors(path, MODEL_FILE)
    assert stored.keys() == loaded.model.state_dict().keys()
    assert all(torch.equal(tensor, stored[name]) for name, tensor in loaded.model.state_dict().items())
    assert not loaded.model.training
    assert loaded.task.settings == TASK.settings


def test_one_checkpoint_loads_by_its_own_path_and_without_the_training_state(copied, tmp_path):
    shutil.copytree(latest(copied), tmp_path / "alone")
    (tmp_path / "alone" / TRAINING_FILE).unlink()
    assert load(tmp_path / "alone", task=Sums).path == tmp_path / "alone"


@given(st.randoms(use_true_random=False))
def test_flipped_bits_are_refused(made, tmp_path_factory, chance: random.Random):
    run = tmp_path_factory.mktemp("flip") / "run"
    shutil.copytree(made, run)
    name = chance.choice([MODEL_FILE, TRAINING_FILE, CARD_FILE])
    file = latest(run) / name
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    try:
        before = json.loads((latest(made) / CARD_FILE).read_text())
        harmless = name == CARD_FILE and json.loads(data) == before  # white space
    except ValueError:
        harmless = False
    if not harmless:
        with pytest.raises(CheckpointError):
            resume(run)
    if name != TRAINING_FILE and not harmless:
        with pytest.raises(CheckpointError):
            load(run, task=Sums)


@given(st.sampled_from([MODEL_FILE, TRAINING_FILE, CARD_FILE]), st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(made, tmp_path_factory, name, part):
    run = tmp_path_factory.mktemp("cut") / "run"
    shutil.copytree(made, run)
    file = latest(run) / name
    os.truncate(file, int(part * file.stat().st_size))
    with pytest.raises(CheckpointError, match=r"damaged|missing"):
        resume(run)


@pytest.mark.parametrize("name", [MODEL_FILE, TRAINING_FILE, CARD_FILE])
def test_a_missing_or_longer_file_is_refused(copied, name):
    file = latest(copied) / name
    with file.open("ab") as stream:
        stream.write(b"{}")
    with pytest.raises(CheckpointError, match="damaged"):
        resume(copied)
    file.unlink()
    with pytest.raises(
        CheckpointError, match=f"{name} is missing.*delete .* to resume from the checkpoint before|{name}"
    ):
        resume(copied)


def entry(*path):
    """Changes one entry of the card."""
    *rooms, last, value = path

    def change(content):
        for room in rooms:
            content = content[room]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (entry("format", 2), "has format 2, and this version of omegamax reads 1"),
        (entry("format", None), "has format None"),
        (entry("surprise", 1), "unknown entry 'surprise'"),
        (lambda content: content.pop("assets"), "missing or an unknown entry 'assets'"),
        (entry("n_processes", "two"), "'n_processes' must be of type int"),
        (entry("n_processes", True), "'n_processes' must be of type int"),
        (entry("settings", []), "'settings' must be of type dict"),
        (entry("settings", "features", "8"), "features must be of type"),
        (entry("settings", "features", 16), r"tensor '\S+' must have shape"),
        (entry("settings", "features", 10**6), r"tensor '\S+' must have shape"),  # would be terabytes
        (entry("settings", "features", 10**9), "of which no model can be made"),
        (entry("settings", "features", -1), "of which no model can be made"),
        (entry("settings", "features", 10**30), "of which no model can be made"),
        (entry("settings", "surprise", 1), "unknown setting 'surprise'"),
        (lambda content: content["settings"].pop("dropout"), "missing setting 'dropout'"),
        (entry("assets", {}), r"does not fit the task Sums \('vocabulary'\)"),
        (entry("files", {}), "must list model.safetensors and training.safetensors"),
        (entry("files", "../../evil", {"size": 1, "sha256": ""}), "must list"),
        (entry("files", MODEL_FILE, {"size": "1", "sha256": ""}), "must list"),
        (entry("files", MODEL_FILE, "sha256", None), "checksum"),
        (entry("files", MODEL_FILE, "size", -2), "damaged"),
        (entry("state", "best_step", 10**6), "not a complete checkpoint"),
        (entry("state", "best_step", "../../../etc"), None),
    ],
)
def test_a_card_that_does_not_fit_is_refused(copied, change, reason):
    path = latest(copied)
    tamper(path, change)
    if reason is None:  # what is no number is no name either
        assert load(copied, task=Sums).path == path
    else:
        with pytest.raises(CheckpointError, match=reason):
            load(copied, task=Sums)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (entry("state", "step", 3), "does not fit 2 batches per epoch"),
        (entry("state", "position", -1), "position must be 0 or more, got -1; the file is damaged"),
        (entry("state", "step", 10**400), "step must be at most"),
        (entry("state", "seconds", float("nan")), "seconds must be a number"),
        (entry("state", "seconds", 10**400), "a number must be at most 1.798e\\+308"),
        (entry("state", "best_metrics", {"a": "b"}), "metric 'a' must be a finite number, got 'b'"),
        (entry("n_processes", 10**9), "n_processes must be from 1 to 65536, got 1000000000"),
        (entry("state", "epoch", 1.5), "epoch must be of type"),
        (entry("state", "surprise", 1), "unknown setting 'surprise'"),
        (entry("data", "0"), "other data"),
        (entry("assets", "vocabulary", ["z"]), "other data"),
    ],
)
def test_a_position_that_does_not_fit_is_not_resumed(copied, change, reason):
    tamper(latest(copied), change)
    with pytest.raises(CheckpointError, match=reason):
        resume(copied)


def with_(**more):
    return lambda tensors: {**tensors, **more}


def without(name):
    return lambda tensors: {key: tensor for key, tensor in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (MODEL_FILE, with_(surprise=torch.ones(1)), "an unknown tensor 'surprise'"),
        (MODEL_FILE, without("out.bias"), "no tensor 'out.bias'"),
        (MODEL_FILE, with_(**{"out.bias": torch.ones(6)}), r"'out.bias' must have shape \(5,\)"),
        (MODEL_FILE, with_(**{"out.bias": torch.ones(5, dtype=torch.float64)}), "type torch.float32"),
        (TRAINING_FILE, with_(surprise=torch.ones(1)), "an unknown tensor 'surprise'"),
        (TRAINING_FILE, with_(**{"random.7.torch": torch.ones(1)}), "an unknown tensor 'random.7.torch'"),
        (TRAINING_FILE, without("random.0.torch"), "random numbers"),
        (TRAINING_FILE, with_(**{"random.0.torch": torch.ones(3, dtype=torch.uint8)}), "random numbers"),
        (TRAINING_FILE, with_(**{"random.0.numpy": torch.ones(3, dtype=torch.int64)}), r"cannot be resumed"),
        (TRAINING_FILE, with_(**{"random.0.numpy": torch.full((626,), 700)}), "624 words and a position among them"),
        (TRAINING_FILE, with_(**{"random.0.python": torch.ones(3, dtype=torch.int64)}), r"cannot be resumed"),
        (TRAINING_FILE, without("optimizer.step.out.bias"), "the optimiser's step of 'out.bias'"),
        (
            TRAINING_FILE,
            with_(**{"optimizer.exp_avg.out.bias": torch.ones(2)}),
            "the optimiser's exp_avg of 'out.bias'",
        ),
        (
            TRAINING_FILE,
            with_(**{"optimizer.step.out.bias": torch.tensor(1)}),
            "must hold real numbers, got torch.int64",
        ),
        (
            TRAINING_FILE,
            with_(**{"optimizer.exp_avg.out.bias": torch.ones(5, dtype=torch.bool)}),
            "must hold real numbers",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(copied, name, change, reason):
    path = latest(copied)
    tamper(path, **{"model" if name == MODEL_FILE else "training": change(tensors(path, name))})
    with pytest.raises(CheckpointError, match=reason):
        resume(copied)


class Evil:
    """A pickle that leaves a trace when it is read."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.mark.parametrize("name", [MODEL_FILE, TRAINING_FILE, CARD_FILE])
def test_a_pickle_is_not_read(copied, tmp_path, name):
    data = pickle.dumps(Evil(tmp_path / "trace"))
    path = latest(copied)
    (path / name).write_bytes(data)
    if name != CARD_FILE:
        sums = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        tamper(path, entry("files", name, sums))
    with pytest.raises(CheckpointError, match=r"is not a safetensors file|damaged"):
        resume(copied)
    assert not (tmp_path / "trace").exists()


def test_a_model_that_looks_at_numbers_while_it_is_made_loads(copied):
    class Looking(Sums):
        def model(self):
            assert torch.ones(2).sum().item() == 2
            return super().model()

    assert load(copied, task=Looking).model.state_dict().keys() == TASK.model().state_dict().keys()


def test_no_module_is_imported_because_a_checkpoint_says_so(copied, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    tamper(latest(copied), entry("task", "evil_module:Task"))
    with pytest.raises(CheckpointError, match="'evil_module:Task', which is not one of"):
        load(copied)


def test_a_recipe_is_found_by_its_name(copied, monkeypatch):
    monkeypatch.setitem(TASKS, "sums", TaskEntry("sums", "toy_task:Sums", "toy_task:SumsSettings"))
    tamper(latest(copied), entry("task", "sums"))
    assert isinstance(load(copied).task, Sums)


def test_an_endless_file_is_not_read_to_its_end(copied):
    path = latest(copied)
    for name in (MODEL_FILE, CARD_FILE):
        (path / name).unlink()
        (path / name).symlink_to("/dev/zero")
        with pytest.raises(CheckpointError, match="not a regular file but a pipe or a device"):
            load(copied, task=Sums)


@pytest.mark.parametrize("name", [MODEL_FILE, CARD_FILE])
def test_a_pipe_is_not_waited_for(copied, name):
    path = latest(copied)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(CheckpointError, match="not a regular file but a pipe or a device"):
        load(copied, task=Sums)


@pytest.mark.parametrize("size", [10**30, 10**15, -5])
def test_no_room_is_made_for_what_is_not_there(copied, size):
    path = latest(copied)
    tamper(path, lambda content: content["files"][MODEL_FILE].update(size=size))
    with pytest.raises(CheckpointError, match=f"bytes and should have {size}"):
        load(copied, task=Sums)


def test_deep_json_is_refused(copied):
    (latest(copied) / CARD_FILE).write_text("[" * 10**6)
    with pytest.raises(CheckpointError, match="not a checkpoint's JSON"):
        load(copied, task=Sums)


def test_a_damaged_checkpoint_is_not_overwritten(copied):
    file = latest(copied) / MODEL_FILE
    file.write_bytes(b"rubbish")
    with pytest.raises(CheckpointError, match=f"damaged.*; delete {latest(copied)} to resume from the checkpoint"):
        resume(copied)
    assert file.read_bytes() == b"rubbish"


def test_tied_weights_and_half_types_are_saved(tmp_path):
    weight = torch.randn(3, 4)
    card = checkpoints.Card("r", "t", {}, {}, {}, "d", {}, 1)
    given = {"a": weight, "b": weight, "t": weight.T, "half": weight.bfloat16(), "none": torch.empty(0, 3)}
    checkpoints.write_checkpoint(tmp_path / "c", card, given, {})
    found = tensors(tmp_path / "c", MODEL_FILE)
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in given.items())
    assert checkpoints.read_card(tmp_path / "c")[0] == card


def test_assets_that_are_not_json_are_refused(tmp_path):
    class Odd(Sums):
        def assets(self):
            return {"vocabulary": {1, 2}}

    with pytest.raises(RecipeError, match="plain JSON values"):
        train(Odd.prepare(SumsSettings()), SETTINGS, RunDirectory(tmp_path / "run"), progress=Silent())


@pytest.mark.parametrize("what", ["nothing", "file", "empty"])
def test_what_is_no_run_is_not_loaded(tmp_path, what):
    path = tmp_path / what
    if what == "file":
        path.write_text("")
    if what == "empty":
        path.mkdir()
    with pytest.raises(CheckpointError, match=r"is not a directory|has no checkpoint yet"):
        load(path, task=Sums)


def test_a_run_is_whole_after_each_of_these(made, copied):
    assert contents(copied) == contents(made)
