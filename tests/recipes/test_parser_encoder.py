"""A parser over a tiny Hugging Face model, and over pretrained vectors; checkpoints need neither file."""

import shutil

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax.recipes import Parser
from omegamax.recipes.parser import ParserTask
from omegamax.recipes.settings import ParserSettings
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {"hidden_size": 8, "n_layers": 1, "character_size": 4, "arc_size": 8, "label_size": 4, "sentences": 16}


@pytest.fixture
def encoder(tmp_path):
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL."
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=32, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path / "encoder")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(tmp_path / "encoder" / "tokenizer.json"))
    return tmp_path / "encoder"


@pytest.mark.parametrize("n_layers", [0, 1])
def test_an_encoder_is_trained_and_then_no_longer_needed(encoder, tmp_path, n_layers):
    settings = ParserSettings(encoder=str(encoder), **{**SMALL, "n_layers": n_layers})
    task = ParserTask.prepare(settings)
    slow = [name for name, _ in task.model().named_parameters() if task.rate_factor(name) != 1]
    assert slow and all(".encoder." in name for name in slow)
    before = task.model().state_dict()[slow[0]].clone()
    run = tmp_path / "run"
    train(task, TrainingSettings(epochs=1, batch_size=8, threads=1), RunDirectory(run), progress=Silent())
    shutil.rmtree(encoder)
    parser = Parser.load(run)
    assert not torch.equal(parser.model.state_dict()[slow[0]], before)
    (parse,) = parser.predict(["she saw a man ."], probabilities=True)
    torch.testing.assert_close(parse.arcs[:, 1:].sum(0), torch.ones(5, dtype=parse.arcs.dtype))


def test_vectors_fill_the_table_of_words(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("saw 1 2 3\nthe 4 5 6\n")
    task = ParserTask.prepare(ParserSettings(vectors=str(file), **{**SMALL, "sentences": 60}))
    table = task.model().reader.features.words.weight
    numbers = task.inputs.words.words.numbers(["saw", "the"])
    assert table[numbers].tolist() == [[1, 2, 3], [4, 5, 6]]
