"""`omegamax` on pictures: training, evaluation, descriptions, drawings, and lines that are wrong."""

import io
import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from omegamax import cli
from omegamax.data.digit_scenes import render_scene, scene_of_sentence

SMALL = ["--quick", "--pictures", "48", "--features", "8", "--hidden-size", "8", "--epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "caption"
    options = ["--reading", "exact", "--attention", "sparsemax"]
    assert cli.main(["train", "caption", *options, *SMALL, "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_evaluation(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    found = json.loads(out)
    wanted = {"bleu", "exact_match", "edit_distance", "perplexity", "digits", "attention_on_object", "zeros"}
    assert code == 0 and wanted <= set(found)
    assert found["even_attention"] == pytest.approx(1 / 16)


@pytest.mark.slow
def test_descriptions_and_pictures(command, trained, monkeypatch, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    picture = (255 * render_scene(scene_of_sentence("a three"))).astype(np.uint8)
    image.imsave(tmp_path / "three.png", picture, cmap="gray", vmin=0, vmax=255)
    given = f"{tmp_path / 'three.png'}\na three above a one\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    code, out, _ = command("predict", trained)
    assert code == 0 and len(out.splitlines()) == 2
    code, _, _ = command("attend", trained, "a three above a one", "--out", tmp_path / "words.png")
    assert code == 0 and (tmp_path / "words.png").stat().st_size > 1000
    code, _, err = command("attend", trained, "a three below a one")
    assert code != 0 and "expected a file with a picture (.png or .npy) or a sentence such as" in err
    code, _, err = command("attend", trained, tmp_path / "none.png")
    assert code != 0 and "none.png" in err
    code, _, err = command("train", "caption", "--attention", "hard", "--out", tmp_path / "no")
    assert code != 0 and "write --reading exact --attention sparsemax" in err
