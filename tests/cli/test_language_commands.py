"""`omegamax` on a language model: --quick, evaluation as JSON, continuations, curves."""

import io
import json

import pytest

from omegamax import cli
from omegamax.recipes import TASKS
from omegamax.training.settings import TrainingSettings

SMALL = ["--quick", "--stories", "60", "--size", "16", "--hidden-size", "16", "--epochs", "2", "--log-every", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "language"
    assert cli.main(["train", "language", "--attention", "sparsemax", *SMALL, "--out", str(out)]) == 0
    return out


def test_quick_settings_are_settings():
    for entry in TASKS.values():
        kind, names = entry.settings_class(), {*TrainingSettings.__dataclass_fields__}
        training = {name: value for name, value in entry.quick.items() if name in names}
        TrainingSettings(**{**entry.training, **training})
        kind(**{name: value for name, value in entry.quick.items() if name not in names})


def test_options_win_over_quick(trained):
    config = json.loads((trained / "config.json").read_text())
    assert config["settings"]["stories"] == 60 and config["settings"]["level"] == "word"
    assert config["training"]["epochs"] == 2 and config["training"]["batch_size"] == 16


def test_evaluation_is_one_json_object(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    metrics = json.loads(out)
    assert code == 0 and out.count("\n") == 1
    assert metrics.pop("tokens_per_second") > 0 and metrics.pop("examples_per_second") > 0
    assert metrics == json.loads((trained / "evaluation.json").read_text())["evaluation"]["test"]
    assert 0 < metrics["zeros"] < 1 < metrics["perplexity"]


def test_a_text_is_continued(command, trained, monkeypatch):
    def say(*options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ada keeps the\n\nwho has\n"), encoding="ascii"))
        code, out, _ = command("predict", trained, "--max-length", 5, *options)
        assert code == 0
        return out.splitlines()

    lines = say()
    assert len(lines) == 3 and lines[0].startswith("ada keeps the") and lines[2].startswith("who has")
    assert say("--temperature", 2) == say("--temperature", 2) != say("--temperature", 2, "--sampling-seed", 1)
    code, _, err = command("predict", trained, "--temperature", -1)
    assert code == 2 and "temperature must be 0 or more" in err
    code, _, err = command("predict", trained, "--beam", 3)
    assert code == 2 and "is a task without --beam" in err


def test_attention_is_printed(command, trained):
    code, out, _ = command("attend", trained, "ada keeps the")
    assert code == 0 and "keeps" in out and "·" in out


def test_loss_curves_are_drawn(command, trained, tmp_path):
    path = tmp_path / "curves.png"
    assert command("plot", "loss-curves", trained, "--out", path)[0] == 0 and path.stat().st_size > 1000
    code, _, err = command("plot", "loss-curves", tmp_path, "--out", tmp_path / "b.png")
    assert code == 2 and "is not a run" in err


@pytest.mark.slow
def test_normalizers_are_compared(command, tmp_path):
    code, out, _ = command("compare", "language", "--attention", "softmax,sparsemax", *SMALL, "--out", tmp_path / "c")
    assert code == 0 and "sparsemax" in out and "log_likelihood" in out
    assert "Attention" in (tmp_path / "c" / "index.html").read_text(encoding="utf-8")
