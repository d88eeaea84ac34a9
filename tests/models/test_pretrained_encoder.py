"""A tiny Hugging Face model, made here: first word-pieces, long sentences, checkpoints without the directory."""

import json

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

import tokenizers

from omegamax.models import PretrainedEncoder
from omegamax.recipes.word_inputs import PieceInputs

LETTERS = "abcdefghijklmnopqrstuvwxyz."


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=18,
    )
    BertModel(config).save_pretrained(path)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def test_a_word_has_the_state_of_its_first_piece(directory):
    inputs = PieceInputs.from_directory(str(directory))
    encoder = inputs.encoder().eval()
    batch = inputs.batch([("ab", "c"), ("a",)])
    states = encoder(batch)
    assert states.shape == (2, 2, 8) and batch.pieces[0].tolist() == [2, 4, 32, 6, 3]
    hidden = encoder.model(input_ids=batch.pieces[:1]).last_hidden_state[0]
    torch.testing.assert_close(states[0], hidden[[1, 3]])


def test_long_sentences_are_read_in_windows(directory):
    inputs = PieceInputs.from_directory(str(directory))
    assert inputs.pieces.max_pieces == 16
    words = ["abc", "de", "f"] * 9
    (found,) = inputs.pieces.encode([words])
    assert len(found.first) == len(words) and max(map(len, found.windows)) <= 16 and len(found.windows) > 1
    first = [found.windows[window][place] for window, place in found.first]
    assert first == [4, 7, 9] * 9  # a, d, f
    assert inputs.encoder()(inputs.batch([words, ["a"]])).shape == (2, 27, 8)


def test_words_without_pieces_and_sentences_without_words(directory):
    inputs = PieceInputs.from_directory(str(directory))
    (found,) = inputs.pieces.encode([["a", " ", "b", " "]])
    assert [found.windows[w][p] for w, p in found.first] == [4, 2, 5, 2]
    assert inputs.encoder()(inputs.batch([[], ["a", "b"]])).shape == (2, 2, 8)


def test_a_checkpoint_needs_no_directory(directory):
    inputs = PieceInputs.from_directory(str(directory))
    encoder = inputs.encoder().eval()
    again = PieceInputs.restore(json.loads(json.dumps(inputs.assets())))
    copy = again.encoder()
    copy.load_state_dict(encoder.state_dict())
    batch = again.batch([("ab", "c")])
    torch.testing.assert_close(copy.eval()(batch), encoder(batch))
    with torch.device("meta"):
        assert next(inputs.encoder().parameters()).device.type == "meta"


def test_every_parameter_takes_part(directory):
    inputs = PieceInputs.from_directory(str(directory))
    encoder = inputs.encoder()
    encoder(inputs.batch([("ab", "c")])).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_other_directories_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected the directory of a Hugging Face model with config.json"):
        PieceInputs.from_directory(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="expected model_type and hidden_size"):
        PieceInputs.from_directory(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
    with pytest.raises(ValueError, match=r"expected tokenizer.json beside the model"):
        PieceInputs.from_directory(str(tmp_path))
    with pytest.raises(ValueError, match="no Hugging Face model can be read there"):
        PretrainedEncoder.from_directory(tmp_path)
