"""`omegamax explore` with models: what goes into the page, what the server is given, and wrong options."""

import json
import re

import pytest
import torch

from omegamax.cli import main
from omegamax.errors import DataError
from omegamax.model_views.encoding import AttentionLayers
from omegamax.model_views.sources import ModelAttention, Source


class Letters(Source):
    """A model whose every letter attends to itself."""

    def __init__(self, path, *, which="best"):
        self.name, self.normalizer = str(path).rpartition("/")[2], which

    def attend(self, lines):
        if "bad" in lines:
            raise DataError("letters: expected good letters, got bad ones; write others")
        return [ModelAttention(line, [self._layers(line)]) for line in lines]

    def attend_to_examples(self):
        return self.attend(["of the test data"])

    def _layers(self, line):
        return AttentionLayers("", line, line, torch.eye(len(line))[None, None], True)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two directories, which are loaded as models of letters."""
    monkeypatch.setattr("omegamax.model_views.sources.RunSource", Letters)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "one"), str(tmp_path / "two")


def data_of(page):
    found = re.search(r'<script type="application/json" id="omegamax-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def explore(*arguments):
    return main(["explore", *arguments, "--no-open"])


def test_runs_come_first_and_inputs_after_them(runs, tmp_path, capsys):
    out, file = tmp_path / "page.html", tmp_path / "more.txt"
    file.write_text("</script><b>\n", encoding="utf-8")
    assert explore(*runs, "ab", "one more", "--file", str(file), "--checkpoint", "latest", "--out", str(out)) == 0
    assert capsys.readouterr().out == f"{out}\n"
    page = out.read_text(encoding="utf-8")
    data = data_of(page)
    assert data["view"] == "attention" and "serve" not in data["attention"]
    assert [each["text"] for each in data["attention"]["inputs"]] == ["ab", "one more", "</script><b>"]
    models = data["attention"]["inputs"][0]["models"]
    assert [(model["name"], model["normalizer"]) for model in models] == [("one", "latest"), ("two", "latest")]
    assert "</script><b>" not in page
    assert explore(runs[0], "ab", "--out", str(out)) == 2  # it exists
    assert "exists; say --overwrite" in capsys.readouterr().err


def test_without_an_input_test_examples_are_shown(runs, tmp_path):
    out = tmp_path / "page.html"
    assert explore(runs[0], "--out", str(out)) == 0
    (only,) = data_of(out.read_text(encoding="utf-8"))["attention"]["inputs"]
    assert only["text"] == "of the test data"


def test_the_server_gets_the_page_and_the_models(runs, monkeypatch, capsys):
    serving = pytest.importorskip("omegamax.model_views.serving", reason="needs the extra explore")
    given = {}

    def serve(page, predict, *, listening, on_start):
        given.update(page=page, predict=predict, address=listening.getsockname())
        on_start("http://127.0.0.1:1/token/")

    monkeypatch.setattr(serving, "serve", serve)
    assert explore(*runs, "--serve") == 0
    assert given["address"][0] == "127.0.0.1"
    assert data_of(given["page"])["attention"] == {"inputs": [], "serve": {"max_characters": 20_000}}
    answer = given["predict"]("ab\n \nc")
    assert [each["text"] for each in answer["inputs"]] == ["ab", "c"]
    assert [len(each["models"]) for each in answer["inputs"]] == [2, 2]
    with pytest.raises(DataError, match="expected good letters"):
        given["predict"]("bad")
    assert "http://127.0.0.1:1/token/\nOnly this computer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve"], "--serve needs a model"),
        (["--port", "80"], "--port needs a model"),
        (["--file", "x.txt"], "--file needs a model"),
        (["RUN", "--attention", "softmax"], "name its folder with --model"),
        (["RUN", "--port", "80"], "say --serve too"),
        (["RUN", "--serve", "--out", "page.html"], "leave --out or --serve out"),
        (["nowhere", "ab"], "nowhere is not a directory"),
        (["--model", "nowhere", "ab"], "got one without config.json"),
        (["RUN", "bad"], "expected good letters, got bad ones"),
    ],
)
def test_mistakes_are_one_sentence(arguments, words, runs, capsys, monkeypatch, tmp_path):
    if arguments[0] == "nowhere":
        monkeypatch.undo()
        pytest.importorskip("safetensors", reason="needs the extra nlp: pip install omegamax[nlp]")
    monkeypatch.chdir(tmp_path)
    assert explore(*(runs[0] if each == "RUN" else each for each in arguments)) == 2
    message = capsys.readouterr().err
    assert message.startswith("omegamax explore: ") and message.count("\n") == 1 and words in message
