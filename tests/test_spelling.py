"""The error for a mistyped name suggests the right one, at run time and by a type checker."""

import subprocess
import sys
from pathlib import Path

import pytest

import omegamax as om

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "room, typed, meant",
    [
        ("", "sparsmax", "sparsemax"),
        ("", "SparsMax", "Sparsemax"),
        ("", "tsalis", "Tsallis"),
        ("", "Chian", "Chain"),
        ("", "CrfLoss", "CRFLoss"),
        ("", "fenchel_yong_loss", "fenchel_young_loss"),
        ("", "integration", "integrations"),
        ("", "EncoderDecoder", "it is omegamax.models.EncoderDecoder"),
        ("", "FenchelYoungClassifier", "it is omegamax.estimators.FenchelYoungClassifier"),
        ("losses", "SparsmaxLoss", "SparsemaxLoss"),
        ("attention", "Atention", "Attention"),
        ("structures", "Matchings", "Matching"),
        ("operators", "SquareNorm", "SquaredNorm"),
        ("models", "EncoderDecode", "EncoderDecoder"),
        ("integrations", "covert", "convert"),
        ("plots", "attention_mapp", "attention_map"),
    ],
)
def test_the_right_name_is_suggested(room, typed, meant):
    if room == "plots":
        pytest.importorskip("matplotlib")
    if "estimators" in meant:
        pytest.importorskip("sklearn")
    module = getattr(om, room) if room else om
    with pytest.raises(AttributeError, match=f"has no attribute '{typed}'; (did you mean )?{meant}"):
        getattr(module, typed)


@pytest.mark.parametrize("module", [om, om.losses, om.attention])
def test_what_is_like_nothing_gets_no_suggestion(module):
    for name in ("zzzzzzzz", "__wrapped__", "_x"):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert str(caught.value) == f"module {module.__name__!r} has no attribute {name!r}"


USER = """
import torch
import omegamax as om

reveal_type(om.sparsemax(torch.zeros(3)))
reveal_type(om.Chain())
reveal_type(om.CRF(3).decode(torch.zeros(2, 3)))
reveal_type(om.models.RecurrentEncoder)
om.integrations.convert
om.plots.attention_map
om.sparsmax
om.Chian
om.losses.CRFLos
om.CRF("three")
"""


@pytest.mark.slow
def test_a_type_checker_sees_names_and_typing_errors(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "user.py"
    path.write_text(USER)
    cache = ROOT / ".mypy_cache"  # of `make check`, where it was run: half a minute less
    options = ["--no-error-summary", "--cache-dir", str(cache if cache.exists() else tmp_path / "cache")]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=600
    ).stdout
    said = {int(line.split(":")[1]): line for line in found.splitlines()}
    lines = USER.splitlines()

    def of(text):
        return said[lines.index(text) + 1]

    assert 'Revealed type is "torch._tensor.Tensor"' in of("reveal_type(om.sparsemax(torch.zeros(3)))")
    assert 'Revealed type is "omegamax.structures.chain.Chain"' in of("reveal_type(om.Chain())")
    assert 'Revealed type is "torch._tensor.Tensor"' in of("reveal_type(om.CRF(3).decode(torch.zeros(2, 3)))")
    assert "RecurrentEncoder" in of("reveal_type(om.models.RecurrentEncoder)")
    assert 'Module has no attribute "sparsmax"; maybe "sparsemax' in of("om.sparsmax")
    assert 'Module has no attribute "Chian"' in of("om.Chian")
    assert 'Module has no attribute "CRFLos"; maybe "CRFLoss"' in of("om.losses.CRFLos")
    assert "incompatible type" in of('om.CRF("three")')
    assert len(said) == 8, found
