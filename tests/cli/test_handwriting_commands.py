"""`omegamax` on handwriting: training, evaluation, strokes, pictures, and texts that are wrong."""

import io
import json

import pytest

pytest.importorskip("HersheyFonts")

from omegamax import cli

SMALL = ["--quick", "--writings", "24", "--hidden-size", "8", "--letter-size", "8", "--reader-size", "8"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "handwriting"
    assert cli.main(["train", "handwriting", *SMALL, "--epochs", "1", "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_evaluation(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    found = json.loads(out)
    wanted = {"nll", "attention_on_letter", "character_error", "character_error_unbiased", "reader_error", "ended"}
    assert code == 0 and wanted <= set(found)
    assert 0 < found["even_attention"] < 1


@pytest.mark.slow
def test_strokes_and_pictures(command, trained, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    lines = []
    for more in ([], ["--output-format", "svg"], ["--seed", "1"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"bad cab\n"), encoding="utf-8"))
        code, out, _ = command("predict", trained, *more)
        assert code == 0
        lines.append(out.strip())
    assert json.loads(lines[0])["strokes"] != json.loads(lines[2])["strokes"] and lines[1].startswith("<svg ")
    for name in ("written.svg", "written.png"):
        code, _, _ = command("attend", trained, "bad cab", "--out", tmp_path / name)
        assert code == 0 and (tmp_path / name).stat().st_size > 1000
    code, _, err = command("attend", trained, "bad zoo")
    assert code != 0 and "text must be of the letters" in err and "--letters" in err
