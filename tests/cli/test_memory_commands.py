"""`omegamax` on a memory: training with --task beside the name of the recipe, evaluation, predictions, pictures."""

import io
import json

import pytest

from omegamax import cli

SMALL = ["--quick", "--sequences", "64", "--hidden-size", "8", "--n-slots", "6", "--epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "memory"
    words = ["train", "memory", "--task", "sort", "--model", "dnc", "--attention", "sparsemax", *SMALL]
    assert cli.main([*words, "--out", str(out)]) == 0
    return out


def test_evaluation_by_length(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    assert code == 0 and {"bit_accuracy_3", "sequence_accuracy_6", "cost_6"} <= set(json.loads(out))


def test_a_resumed_run_keeps_its_task(command, trained):
    code, _, _ = command("train", "memory", "--resume", "--epochs", 1, "--out", trained)
    assert code == 0 and json.loads((trained / "config.json").read_text())["settings"]["task"] == "sort"


def test_answers_and_pictures(command, trained, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"-0.5:0110 0.25:1011\n"), encoding="utf-8"))
    code, out, _ = command("predict", trained)
    assert code == 0 and [len(vector) for vector in out.split()] == [4, 4]
    code, out, _ = command("attend", trained, "0.5:0110 0.25:1011")
    assert code == 0 and "write 0110" in out and "read |" in out
    code, _, _ = command("attend", trained, "0.5:0110 0.25:1011", "--out", tmp_path / "tape.png")
    assert code == 0 and (tmp_path / "tape.png").stat().st_size > 1000
    code, _, err = command("attend", trained, "0110")
    assert code != 0 and "expected a priority from -1 to 1" in err
