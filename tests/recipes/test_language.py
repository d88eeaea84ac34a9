"""The language model: blocks, losses, metrics against plain arithmetic, continuations, attention, runs."""

import json
import math

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")

from omegamax import operator_table
from omegamax.data.stories import generate_stories
from omegamax.data.vocabulary import END, PADDING, START, UNKNOWN
from omegamax.recipes import load
from omegamax.recipes.continuation import continue_texts
from omegamax.recipes.language import Blocks, Language
from omegamax.recipes.settings import LanguageSettings
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

ATTENTIONS = [facts.function for facts in operator_table.for_attention()]
SMALL = {"size": 16, "hidden_size": 32, "block_length": 24, "stories": 12, "max_length": 8}


def language(**options):
    return Language.prepare(LanguageSettings(**{**SMALL, **options}))


def learn(task, model, n_steps, n_blocks=8, learning_rate=1e-2):
    examples, losses = task.examples("train"), []
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for step in range(n_steps):
        places = [(step * n_blocks + place) % len(examples) for place in range(n_blocks)]
        total, n_items = task.loss(model, task.collate([examples[at] for at in places]))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    return losses


def test_blocks_cover_the_text_once():
    tokens = np.arange(23)
    blocks = Blocks(tokens, 5)
    assert len(blocks) == 5 and [len(block.tokens) for block in blocks] == [6, 6, 6, 6, 3]
    following = [token for block in blocks for token in block.tokens[1:]]
    assert following == list(range(1, 23))
    assert [block.number for block in blocks[1:4]] == [1, 2, 3] and blocks[-1].number == 4
    assert len(Blocks(tokens[:1], 5)) == 0 and len(Blocks(tokens[:6], 5)) == 1
    with pytest.raises(IndexError):
        blocks[5]


@pytest.mark.parametrize("level", ["char", "word", "subword"])
def test_the_blocks_hold_the_text(level):
    if level == "subword":
        pytest.importorskip("tokenizers")
    task = language(level=level, stories=200)  # so that every word is known
    whole = [END, *(int(token) for block in task.examples("dev") for token in block.tokens[1:])]
    lines, line = [], []
    for token in whole[1:]:
        if token == END:
            lines.append(task.tokens.decode(line))
            line = []
        else:
            line.append(token)
    assert lines == [story.text for story in generate_stories(50, "dev")] and not line


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.thinned(9)
def test_the_loss_falls(attention):
    task = language(attention=attention)
    losses = learn(task, task.model(), 25)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["softmax", "sparsemax"])
def test_it_learns_and_never_beats_the_entropy(attention):
    """Single words are far from it: the entropy of the process is about a quarter of theirs."""
    torch.manual_seed(0)
    task = language(attention=attention, level="word", stories=600, block_length=64, size=32, hidden_size=64)
    model = task.model()
    learn(task, model, 120)
    model.eval()
    dev = task.examples("dev")
    loss = evaluate(task, model, dev)["loss"]
    nats = sum(story.nats for story in generate_stories(50, "dev"))
    n_tokens = sum(len(block.tokens) - 1 for block in dev)
    counts = np.bincount(np.concatenate([block.tokens[1:] for block in dev]))
    shares = counts[counts > 0] / counts.sum()
    of_single_words = -(shares * np.log(shares)).sum()
    assert 0.97 * nats / n_tokens < loss < 0.6 * of_single_words


def test_metrics_are_those_of_the_probabilities():
    task = language(attention="sparsemax", stories=20)
    model, examples = task.model().eval(), task.examples("test")[:40]
    with torch.no_grad():
        metrics = evaluate(task, model, examples, batch_size=5)
        nats = n_right = n_tokens = n_zeros = n_weights = 0
        for number, block in enumerate(examples):
            tokens = torch.from_numpy(block.tokens.astype(np.int64))
            logits, weights = model(tokens[None, :-1], need_weights=True)
            probabilities = logits[0].double().softmax(-1)
            nats -= sum(math.log(row[token]) for row, token in zip(probabilities, tokens[1:]))
            n_right += int((logits[0].argmax(-1) == tokens[1:]).sum())
            n_tokens += len(tokens) - 1
            if number % 16 == 0:
                for each in weights:
                    seen = torch.ones(each.shape[-2:]).tril().bool()
                    n_zeros += int((each[0, :, seen] == 0).sum())
                    n_weights += each.shape[1] * int(seen.sum())
    assert metrics["loss"] == pytest.approx(nats / n_tokens, rel=1e-5) == -metrics["log_likelihood"]
    assert metrics["perplexity"] == pytest.approx(math.exp(nats / n_tokens), rel=1e-4)
    assert metrics["bits_per_character"] == pytest.approx(nats / n_tokens / math.log(2), rel=1e-5)
    assert metrics["accuracy"] == n_right / n_tokens
    assert metrics["zeros"] == n_zeros / n_weights and 0 < metrics["zeros"] < 1


def test_evaluation_in_parts_is_the_same(monkeypatch):
    task = language(attention="entmax15")
    model, dev = task.model().eval(), task.examples("dev")[:10]
    whole = evaluate(task, model, dev)
    monkeypatch.setattr("omegamax.recipes.language._LOGITS", 1)
    monkeypatch.setattr("omegamax.recipes.language._QUERIES", 5)
    assert evaluate(task, model, dev) == pytest.approx(whole)


def test_softmax_has_no_exact_zeros():
    task = language()
    assert evaluate(task, task.model().eval(), task.examples("dev")[:3])["zeros"] == 0.0


def test_padding_changes_nothing():
    task = language(attention="sparsemax")
    model = task.model()
    (first, last) = task.examples("dev")[0], task.examples("dev")[-1]
    assert len(last.tokens) < len(first.tokens)
    batch = task.collate([first, last])
    assert (batch.following[1, len(last.tokens) - 1 :] == PADDING).all()
    parts = [task.loss(model, task.collate([each])) for each in (first, last)]
    together = task.loss(model, batch)
    assert together.n_items == len(first.tokens) + len(last.tokens) - 2
    torch.testing.assert_close(together.total, parts[0].total + parts[1].total)


def by_hand(model, text, n_tokens):
    """The most likely continuation without a cache: the whole text again for each token."""
    text, start = list(text), len(text)
    while len(text) - start < n_tokens:
        logits = model(torch.tensor([text])).logits[0, -1]
        logits[[PADDING, UNKNOWN, START]] = -torch.inf
        if int(logits.argmax()) == END:
            break
        text.append(int(logits.argmax()))
    return text[start:]


@torch.no_grad()
@pytest.mark.slow
def test_the_cache_writes_what_the_whole_model_would():
    torch.manual_seed(1)
    task = language(attention="sparsemax")
    model = task.model()
    with torch.enable_grad():
        learn(task, model, 60)
    model.eval()
    prompts = ["ada", "bo keeps the", "bo keeps two", "", "who has the kite? "]
    texts = [example.tokens.tolist() for example in task.read(prompts)]
    written = continue_texts(model, texts, max_length=30)
    assert written == [by_hand(model, text, 30) for text in texts]
    assert task.predict(model, task.read(prompts)) == [
        prompt + task.tokens.decode(more[:8]) for prompt, more in zip(prompts, written)
    ]


@torch.no_grad()
def test_an_end_stops_one_text_and_not_the_others():
    task = language()
    model = task.model().eval()
    texts = [example.tokens.tolist() for example in task.read(["ada", "bob", "eve", "lea"])]
    drawn = continue_texts(model, texts, max_length=60, temperature=1.0)
    lengths = [len(more) for more in drawn]
    assert len(set(lengths)) > 1 and max(lengths) <= 60 and all(END not in more for more in drawn)
    for place, text in enumerate(texts):  # its neighbours do not matter
        assert continue_texts(model, [text], max_length=60, temperature=1.0) == [drawn[place]]
    assert continue_texts(model, texts, max_length=60, temperature=1.0, seed=1) != drawn
    assert continue_texts(model, texts, max_length=9, temperature=1e-9) == continue_texts(model, texts, max_length=9)


@torch.no_grad()
@pytest.mark.slow
def test_draws_follow_the_probabilities():
    task = language()
    model = task.model().eval()
    text = task.read(["ada"])[0].tokens.tolist()
    logits = model(torch.tensor([text])).logits[0, -1]
    logits[[PADDING, UNKNOWN, START]] = -torch.inf
    expected = torch.softmax(logits / 0.5, -1)
    first = [continue_texts(model, [text], max_length=1, temperature=0.5, seed=seed)[0] for seed in range(300)]
    counts = torch.zeros(len(expected))
    for more in first:
        counts[more[0] if more else END] += 1
    assert (counts / 300 - expected).abs().max() < 0.08


@torch.no_grad()
def test_attention_has_a_row_for_each_token_to_come():
    task = language(attention="sparsemax", n_layers=3)
    model = task.model().eval()
    (read,) = task.attend(model, task.read(["ada k"]))
    assert read.columns == ["</s>", *"ada k"] and list(read.rows)[:-1] == [*"ada k"]
    assert read.weights.shape == (3 * 2, 6, 6)
    torch.testing.assert_close(read.weights.sum(-1), torch.ones(6, 6))
    assert (read.weights.triu(1) == 0).all()
    block = task.examples("test")[0]
    (shown,) = task.attend(model, [block])
    assert list(shown.rows)[:-1] == task.tokens.vocabulary.tokens(block.tokens[1:])


def test_other_texts_are_other_data():
    task = language()
    first, second = task.examples("train")[:2]
    assert task.fingerprint(first) == task.fingerprint(first._replace(number=9)) != task.fingerprint(second)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attention": "hard"}, "language: attention must be one of softmax, .*got 'hard'; change it with --attention"),
        ({"attention": "none"}, "language: attention must be one of"),
        ({"attention": "sparsmax"}, "did you mean"),
        ({"size": 15}, "n_heads must be a divisor of the size, 15, got 2"),
        ({"level": "line"}, "level must be one of char, word, subword"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"temperature": -1.0}, "temperature must be 0 or more"),
        ({"max_tokens": 4}, "max_size must exceed the 4 reserved tokens"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(options, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        language(**options)
    assert "\n" not in str(error.value)


def run(task, path, existing="refuse", **options):
    settings = TrainingSettings(**{"epochs": 2, "batch_size": 16, "threads": 1, "device": "cpu", **options})
    return train(task, settings, RunDirectory(path, existing), progress=Silent())


def losses_of(path):
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [(record["event"], record["step"], record["loss"], record.get("metrics")) for record in records]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.thinned(2)
def test_a_run_can_be_loaded_and_asked(tmp_path, precision):
    task = language(attention="entmax15", dropout=0.1, block_length=99)
    trained = run(task, tmp_path / "run", precision=precision)
    assert trained.outcome == "finished"
    assert {"loss", "perplexity", "bits_per_character", "accuracy", "zeros"} <= set(trained.metrics)
    loaded = load(tmp_path / "run")
    assert loaded.task.assets() == task.assets() and loaded.task.settings == task.settings
    with torch.no_grad():
        assert len(loaded.task.predict(loaded.model, loaded.task.read(["ada", "bo", ""]))) == 3
    assert evaluate(loaded.task, loaded.model, loaded.task.examples("dev"), batch_size=16) == pytest.approx(
        dict(trained.metrics)
    )


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on_to_the_same_bits(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = {"log_every": 2, "schedule": "constant", "epochs": 3}
    small = {"attention": "sparsemax", "dropout": 0.2, "level": "word", "stories": 80, "block_length": 60}
    run(language(**small), whole, **options)
    run(language(**small), cut, **{**options, "epochs": 1})
    run(language(**small), cut, existing="resume", **options)
    assert losses_of(whole) == losses_of(cut)
    for one, other in zip(load(whole).model.parameters(), load(cut).model.parameters()):
        assert torch.equal(one, other)


def test_one_side_of_a_table(tmp_path):
    rows = "".join(f"one {n} two {n % 9}\tein {n} zwei {n % 9}\n" for n in range(90))
    (tmp_path / "pairs.tsv").write_text(rows)
    task = language(data=str(tmp_path / "pairs.tsv"), column=2, attention="fusedmax", level="word")
    assert "zwei" in task.tokens.vocabulary and "two" not in task.tokens.vocabulary
    assert run(task, tmp_path / "run", epochs=1).outcome == "finished"
