"""`omegamax` on clips: training, evaluation, descriptions, pictures, and lines that are wrong."""

import io
import json

import pytest

pytest.importorskip("sklearn")

from omegamax import cli

SMALL = ["--quick", "--clips", "48", "--frame-size", "8", "--hidden-size", "8", "--epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "video"
    assert cli.main(["train", "video", "--attention", "sparsemax", *SMALL, "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_evaluation(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    found = json.loads(out)
    assert code == 0 and {"bleu", "exact_match", "perplexity", "digits", "attention_on_event", "zeros"} <= set(found)
    assert 0 < found["even_attention"] < 1


@pytest.mark.slow
def test_descriptions_and_pictures(command, trained, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a three falls\n"), encoding="utf-8"))
    code, out, _ = command("predict", trained)
    assert code == 0 and len(out.splitlines()) == 1
    code, _, _ = command("attend", trained, "a three falls", "--out", tmp_path / "frames.png")
    assert code == 0 and (tmp_path / "frames.png").stat().st_size > 1000
    code, _, err = command("attend", trained, "a ten falls")
    assert code != 0 and "expected a file of frames (.npy) or a sentence such as" in err
    code, _, err = command("attend", trained, tmp_path / "none.npy")
    assert code != 0 and "none.npy" in err
