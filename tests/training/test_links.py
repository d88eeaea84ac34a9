"""Links, pipes and devices in a run directory: refused in one sentence, and nothing is written elsewhere."""

import os
import shutil

import pytest
from toy_task import Sums, SumsSettings

from omegamax.data import files
from omegamax.errors import RunDirectoryError
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory, list_checkpoints, read_run_config
from omegamax.training.settings import TrainingSettings

SETTINGS = TrainingSettings(epochs=1, batch_size=10, schedule="constant")
TASK = Sums.prepare(SumsSettings(n_examples=20))


def run(path, existing="refuse", epochs=1):
    settings = TrainingSettings(**{**vars(SETTINGS), "epochs": epochs})
    return train(TASK, settings, RunDirectory(path, existing=existing), progress=Silent())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "run"
    run(path)
    return path


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def refused(path, existing):
    with pytest.raises(RunDirectoryError, match=r"must not be a link, got one.*; delete the link, or choose another"):
        run(path, existing, epochs=2)


def test_a_linked_lock_in_an_empty_directory(tmp_path, precious):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(precious)
    refused(tmp_path / "run", "refuse")
    assert precious.read_text() == "years of work\n"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]


@pytest.mark.parametrize("existing", ["resume", "overwrite"])
@pytest.mark.parametrize("name", ["lock", "config.json", "metrics.jsonl", "evaluation.json"])
def test_linked_files_of_a_run(copied, precious, tmp_path, name, existing):
    file = copied / name
    if file.exists():  # what it holds is right, but it lies elsewhere
        precious.write_bytes(file.read_bytes())
        file.unlink()
    before = precious.read_bytes()
    file.symlink_to(precious)
    refused(copied, existing)
    assert precious.read_bytes() == before


@pytest.mark.parametrize("existing", ["resume", "overwrite"])
@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_linked_directories_of_a_run(copied, tmp_path, name, existing):
    elsewhere = tmp_path / "elsewhere"
    if (copied / name).exists():
        shutil.move(copied / name, elsewhere)
    else:
        elsewhere.mkdir()
    (elsewhere / ".unfinished-notes").write_text("mine")
    (copied / name).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    refused(copied, existing)
    assert sorted(elsewhere.rglob("*")) == before


def test_a_linked_checkpoint_is_not_followed(copied, tmp_path):
    (only,) = list_checkpoints(copied)
    shutil.move(only, tmp_path / "elsewhere")
    only.symlink_to(tmp_path / "elsewhere")
    refused(copied, "overwrite")
    assert (tmp_path / "elsewhere" / "checkpoint.json").exists()


def test_a_dangling_link_makes_no_file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "new")
    refused(tmp_path / "run", "refuse")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "config.json"])
def test_a_pipe_is_refused_and_not_waited_for(copied, name):
    (copied / name).unlink()
    os.mkfifo(copied / name)
    with pytest.raises(RunDirectoryError, match="regular file"):
        run(copied, "resume", epochs=2)


def test_a_second_name_of_a_file_keeps_its_content(copied, precious, tmp_path):
    (copied / "lock").unlink()
    os.link(precious, copied / "lock")
    with pytest.raises(RunDirectoryError, match="must hold the number of a process"):
        run(copied, "resume", epochs=2)
    assert precious.read_text() == "years of work\n"
    (copied / "lock").unlink()
    before = (copied / "metrics.jsonl").read_bytes()
    os.link(copied / "metrics.jsonl", tmp_path / "backup")
    run(copied, "resume", epochs=2)
    assert (tmp_path / "backup").read_bytes() == before
    assert (copied / "metrics.jsonl").read_bytes().startswith(before)
    assert len((copied / "metrics.jsonl").read_bytes()) > len(before)


def test_a_link_that_appears_between_look_and_opening(tmp_path, precious, monkeypatch):
    (tmp_path / "lock").symlink_to(precious)
    monkeypatch.setattr(files, "refuse_link", lambda path: None)
    with pytest.raises(RunDirectoryError, match="must not be a link"):
        files.open_regular_file(tmp_path / "lock", os.O_RDWR | os.O_CREAT)


def test_sweeping_deletes_a_link_and_not_its_target(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".unfinished-1").symlink_to(tmp_path / "elsewhere")
    files.remove_unfinished(tmp_path / "run")
    assert not list((tmp_path / "run").iterdir()) and (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize(
    "change",
    [{"settings": []}, {"settings": None}, {"training": None}, {"training": "x"}, {"task": 3}, {"metric": None}],
)
def test_a_config_of_other_kinds_is_not_a_run(copied, change):
    import json

    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(RunDirectoryError, match=r"config\.json is not a run's"):
        read_run_config(copied)


def test_reading_stops_at_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert files.read_regular_file(tmp_path / "file", 11) == b"x" * 11
    with pytest.raises(OSError, match="larger than 10 bytes"):
        files.read_regular_file(tmp_path / "file", 10)
    with pytest.raises(OSError, match="pipe or a device"):
        files.read_regular_file("/dev/zero", 10)
    with pytest.raises(OSError, match="larger than 1 MiB"):
        files.read_user_file("/dev/zero", 1 << 20)
