"""`omegamax` on images: training, evaluation, answers, pictures, and lines that are wrong."""

import io
import json

import pytest

pytest.importorskip("sklearn")

from omegamax import cli

SMALL = ["--quick", "--images", "48", "--feature-size", "8", "--hidden-size", "8", "--epochs", "1", "--positions", "3"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "glimpse"
    assert cli.main(["train", "glimpse", "--model", "sparse", *SMALL, "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_evaluation(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    found = json.loads(out)
    assert code == 0 and {"accuracy", "first_look_accuracy", "on_object", "distance"} <= set(found)
    assert found["numbers_read"] == 6 * 3 * 12 * 12


@pytest.mark.slow
def test_answers_and_pictures(command, trained, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"test 3\ndev 0\n"), encoding="utf-8"))
    code, out, _ = command("predict", trained)
    assert code == 0 and len(out.splitlines()) == 2 and all(line.isdigit() for line in out.splitlines())
    code, out, _ = command("attend", trained, "test 3")
    assert code == 0 and "look 6" in out
    code, _, _ = command("attend", trained, "test 3", "--out", tmp_path / "path.png")
    assert code == 0 and (tmp_path / "path.png").stat().st_size > 1000
    code, _, err = command("attend", trained, "image.png")
    assert code != 0 and "expected the path of an image (.npy)" in err
