"""A model that is saved and loaded attends as before; where that is impossible, an error or a warning says so."""

import json
import os
import subprocess
import sys

import pytest
import torch

import omegamax as om
from omegamax.integrations import transformers as hf
from omegamax.integrations.descriptions import describe, normalizer_from

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="needs the extra hf: pip install omegamax[hf]")
transformers.logging.set_verbosity_error()
from small_models import DECODERS, MODELS, OTHERS, PAIRS, TALL, batch, built, real  # noqa: E402

pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]


@pytest.fixture(autouse=True)
def registered():
    hf.register()
    yield
    for name in [name for name in hf._REGISTERED if "mine" in name]:
        _forget(name)


def _forget(name):
    """Removes a name, as in a process that never registered it."""
    for kept in (name, f"omegamax.{name}"):
        hf._REGISTERED.pop(kept, None)
        hf._NORMALIZERS.pop(kept, None)
        transformers.AttentionInterface._global_mapping.pop(kept, None)
        transformers.masking_utils.AttentionMaskInterface._global_mapping.pop(kept, None)


def words(model, kind):
    inputs = batch(kind)
    with torch.no_grad():
        return real(kind, model(**inputs).logits, inputs)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.thinned(4)
def test_a_model_comes_back_with_its_attention(kind, tmp_path):
    model = built(kind, "sparsemax")
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert again.config._attn_implementation == "sparsemax"
    assert torch.equal(words(again, kind), words(model, kind))
    softmax = type(model).from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert softmax.config._attn_implementation == "eager"
    assert not torch.allclose(words(softmax, kind), words(model, kind), atol=1e-3)


@pytest.mark.parametrize("kind", [*DECODERS, *PAIRS])
def test_generate_after_loading(kind, tmp_path):
    model = built(kind, "sparsemax")
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert again.config._attn_implementation == "sparsemax"  # four words may be the same under softmax
    inputs = {key: value for key, value in batch(kind).items() if not key.startswith("decoder")}
    found, expected = (each.generate(**inputs, max_new_tokens=4, do_sample=False) for each in (again, model))
    assert torch.equal(found, expected)
    assert not hasattr(again.generation_config, "omegamax")


def test_auto_classes_and_pictures(tmp_path):
    built("bert", "entmax15").save_pretrained(tmp_path / "a")
    assert transformers.AutoModel.from_pretrained(tmp_path / "a").config._attn_implementation == "entmax15"
    config = transformers.AutoConfig.from_pretrained(tmp_path / "a")
    assert transformers.AutoModel.from_config(config).config._attn_implementation == "entmax15"
    assert "vit" in OTHERS
    built("vit", "sparsemax").save_pretrained(tmp_path / "b")
    assert transformers.AutoModel.from_pretrained(tmp_path / "b").config._attn_implementation == "sparsemax"


def test_what_is_set_on_a_live_model_is_what_is_saved(tmp_path):
    model = built("bert", "eager")
    for step, name in enumerate(("fusedmax", "sdpa", "sparsemax", "eager")):
        model.set_attn_implementation(name)
        model.save_pretrained(tmp_path / str(step))
        written = json.loads((tmp_path / str(step) / "config.json").read_text())
        ours = name in ("fusedmax", "sparsemax")
        assert written.get("attn_implementation") == (f"omegamax.{name}" if ours else None)
        assert ("omegamax" in written) == ours
        again = transformers.AutoModel.from_pretrained(tmp_path / str(step))
        assert again.config._attn_implementation == (name if ours else "sdpa")


def test_saving_what_was_loaded(tmp_path):
    built("bert", "sparsemax").save_pretrained(tmp_path / "a")
    transformers.AutoModel.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    assert transformers.AutoModel.from_pretrained(tmp_path / "b").config._attn_implementation == "sparsemax"


def _pair(attention):
    encoder = transformers.BertConfig(**TALL)
    decoder = transformers.BertConfig(**TALL, is_decoder=True, add_cross_attention=True)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return transformers.EncoderDecoderModel._from_config(config, attn_implementation=attention).eval()


@pytest.mark.parametrize(
    "choice",
    [
        "sparsemax",
        {"": "sparsemax", "encoder": "sparsemax", "decoder": "eager"},
        {"": "eager", "encoder": "fusedmax", "decoder": "sparsemax"},
        {"": "sdpa", "encoder": "eager", "decoder": "entmax15"},
    ],
    ids=str,
)
@pytest.mark.thinned(2)
def test_configurations_inside_configurations(choice, tmp_path):
    model = _pair(choice)
    model.save_pretrained(tmp_path)
    again = transformers.EncoderDecoderModel.from_pretrained(tmp_path).eval()
    ours = set(hf._NORMALIZERS)
    for inside in ("encoder", "decoder"):
        name = choice if isinstance(choice, str) else choice[inside]
        for config in (getattr(again.config, inside), getattr(again, inside).config):
            assert config._attn_implementation == (name if name in ours else "sdpa")
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]]), "decoder_input_ids": torch.tensor([[1, 9, 4]])}
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, model(**inputs).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "normalizer",
    [
        om.Fused(strength=0.3),
        om.Fused(strength=torch.tensor(0.3)),
        om.Scaled(om.Tsallis(1.3), 0.5),
        om.SparseMAP(om.Matching()),
        om.Sinkhorn(0.5),
    ],
    ids=lambda normalizer: type(normalizer).__name__,
)
def test_parameters_are_kept(normalizer, tmp_path):
    hf.register("mine", normalizer)
    model = built("bert", "mine")
    model.save_pretrained(tmp_path)
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    expected = model(**inputs).logits
    _forget("mine")
    again = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    assert describe(hf._NORMALIZERS["mine"]) == describe(normalizer) is not None
    assert torch.equal(again(**inputs).logits, expected)


def test_another_attention_under_the_same_name_is_refused(tmp_path):
    hf.register("fusedmax", om.Fused(strength=0.3))
    built("bert", "fusedmax").save_pretrained(tmp_path)
    hf.register()  # strength 0.1
    with pytest.raises(ValueError, match=r"register\('fusedmax', om\.Fused\(strength=0\.3\)\) before loading"):
        transformers.AutoModel.from_pretrained(tmp_path)
    chosen = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="fusedmax")
    assert chosen.config._attn_implementation == "fusedmax"
    hf.register("fusedmax", om.Fused(strength=0.3))
    assert transformers.AutoModel.from_pretrained(tmp_path).config._attn_implementation == "fusedmax"


def test_what_cannot_be_written_down_must_be_registered_again(tmp_path):
    hf.register("mine", om.Entmax(alpha=om.Above(1.0, start=1.5)))
    built("bert", "mine").save_pretrained(tmp_path)
    assert transformers.AutoModel.from_pretrained(tmp_path).config._attn_implementation == "mine"
    _forget("mine")
    with pytest.raises(ValueError, match=r"call register\('mine', the Entmax of training\) before loading"):
        transformers.AutoModel.from_pretrained(tmp_path)
    hf.register("mine", om.SquaredNorm())
    with pytest.raises(ValueError, match=r"the Entmax of training, got om\.SquaredNorm"):
        transformers.AutoModel.from_pretrained(tmp_path)


def test_normalizers_of_modules_are_missed_aloud(tmp_path):
    model = built("bert", "entmax")
    for name in hf.check(model):
        model.get_submodule(name).normalizer = om.Entmax(alpha=om.Above(1.0, start=1.2))
    model.save_pretrained(tmp_path)
    assert not hasattr(model.config, "omegamax_modules")
    with pytest.warns(UserWarning, match=r"2 modules of the saved model had a normalizer of their own"):
        again = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    from safetensors.torch import load_file

    for name in hf.check(again):
        again.get_submodule(name).normalizer = om.Entmax(alpha=om.Above(1.0, start=1.9))
    again.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    torch.testing.assert_close(words(again, "bert"), words(model, "bert"))


@pytest.mark.parametrize(
    "note",
    [
        {"kind": "Structure"},
        {"kind": "Fused", "strength": -1},
        {"kind": "Fused", "force": 1},
        {"kind": "Differentiable", "fn": "os.system"},
        {"kind": "SparseMAP", "structure": {"kind": "Matching"}, "max_iter": 10**9},
        {"kind": "Matching"},
        {"kind": ["Fused"]},
        {"kind": "Tensor", "values": "x", "type": "float32"},
        [[[[[[[[[[]]]]]]]]]],
        "Fused",
        3,
    ],
    ids=str,
)
def test_a_strangers_file_builds_nothing_else(note, tmp_path):
    with pytest.raises(ValueError, match="normalizer_from: description must be"):
        normalizer_from(note)
    built("bert", "sparsemax").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config |= {"attn_implementation": "omegamax.mine", "omegamax": {"normalizer": note}}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="cannot make it"):
        transformers.AutoModel.from_pretrained(tmp_path)


def test_a_strangers_text_does_not_reach_the_terminal(tmp_path):
    built("bert", "sparsemax").save_pretrained(tmp_path)
    path, evil = tmp_path / "config.json", "\x1b[2J\u202e\n"
    for note in ({"kind": evil}, {"kind": "Fused", evil: 1}, {"kind": "Fused", "strength": evil}, None):
        config = json.loads(path.read_text())
        config |= {"attn_implementation": f"omegamax.mine{evil}", "omegamax": {"normalizer": note, "class": evil}}
        path.write_text(json.dumps(config))
        with pytest.raises(ValueError) as caught:
            transformers.AutoModel.from_pretrained(tmp_path)
        assert str(caught.value).isprintable()


def test_parameters_inside_configurations(tmp_path):
    hf.register("mine", om.Fused(strength=0.3))
    _pair({"": "eager", "encoder": "eager", "decoder": "mine"}).save_pretrained(tmp_path)
    _forget("mine")
    again = transformers.EncoderDecoderModel.from_pretrained(tmp_path)
    assert again.decoder.config._attn_implementation == "mine" and hf._NORMALIZERS["mine"].strength == 0.3


ALONE = """
import sys, transformers
try:
    transformers.AutoModel.from_pretrained(sys.argv[1])
except ValueError as error:
    print(error)
assert not any(name.startswith("omegamax") for name in sys.modules)
"""
WITH = """
import sys, transformers
from omegamax.integrations import transformers as hf
hf.register()
print(transformers.AutoModel.from_pretrained(sys.argv[1]).config._attn_implementation)
"""


@pytest.mark.slow
def test_a_process_without_omegamax_cannot_miss_it(tmp_path):
    hf.register("mine", om.Fused(strength=0.3))
    built("bert", "mine").save_pretrained(tmp_path)

    def run(program):
        return subprocess.run(
            [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=300, check=True
        ).stdout

    assert 'attn_implementation="omegamax.mine"` is not supported' in run(ALONE)
    assert run(WITH).strip() == "mine"
