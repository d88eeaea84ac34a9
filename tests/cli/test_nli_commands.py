"""`omegamax` on sentence pairs: training, evaluation as JSON, predictions, attention."""

import io
import json

import pytest

from omegamax import cli

SMALL = ["--quick", "--pairs", "60", "--hidden-size", "8", "--word-size", "8", "--epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "nli"
    assert cli.main(["train", "nli", "--attention", "sparsemax", "--null", "yes", *SMALL, "--out", str(out)]) == 0
    return out


def test_evaluation_is_one_json_object(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    metrics = json.loads(out)
    speeds = [metrics.pop(name) for name in list(metrics) if name.endswith("_per_second")]
    assert code == 0 and out.count("\n") == 1 and min(speeds) > 0
    assert metrics == json.loads((trained / "evaluation.json").read_text())["evaluation"]["test"]
    assert {"accuracy", "accuracy_neutral", "macro_f1", "loss", "zeros", "support"} <= set(metrics)


def test_pairs_are_labelled(command, trained, monkeypatch):
    text = b"A dog runs .\tAn animal moves .\nNobody sings .\tA man sings .\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    code, out, _ = command("predict", trained)
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and [len(row) for row in rows] == [4, 4]
    for label, *numbers in rows:
        assert label in ("entailment", "neutral", "contradiction")
        assert sum(map(float, numbers)) == pytest.approx(1, abs=1e-3)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no tab\n"), encoding="utf-8"))
    code, _, err = command("predict", trained)
    assert code != 0 and "line 1: expected a premise, a tab and a hypothesis" in err


def test_attention_is_printed_and_drawn(command, trained, tmp_path):
    pair = "A dog runs .\tAn animal moves ."
    code, out, _ = command("attend", trained, pair)
    assert code == 0 and "NULL A dog runs ." in out and "animal" in out
    pytest.importorskip("matplotlib")
    code, _, _ = command("attend", trained, pair, "--out", tmp_path / "a.png")
    assert code == 0 and (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.slow
def test_a_comparison_shows_labels(command, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "report"
    code, _, _ = command("compare", "nli", "--model", "lstm", "--attention", "sparsemax,none", *SMALL, "--out", out)
    page = (out / "index.html").read_text()
    assert code == 0 and "wanted: " in page and "&quot;loss&quot;" not in page


def test_settings_that_do_not_fit_are_said(command, tmp_path):
    code, _, err = command("train", "nli", "--model", "lstm", "--null", "yes", *SMALL, "--out", tmp_path / "a")
    assert code != 0 and "the model lstm looks at the premise once" in err
    code, _, err = command("train", "nli", "--data", tmp_path / "none.tsv", "--out", tmp_path / "b")
    assert code != 0 and "no such file" in err


def test_runs_are_drawn_beside_each_other(command, trained, tmp_path):
    pytest.importorskip("matplotlib")
    pair = "A dog runs .\tAn animal moves ."
    code, _, err = command("attend", trained, pair, "--beside", trained)
    assert code == 2 and "add --out FILE" in err
    code, out, _ = command("attend", trained, pair, "--beside", trained, "--out", tmp_path / "two.png")
    assert code == 0 and (tmp_path / "two.png").stat().st_size > 1000 and "two.png" in out
