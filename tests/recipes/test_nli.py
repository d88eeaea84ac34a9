"""Natural language inference: losses that fall, metrics against plain arithmetic, attention, files, encoders, runs."""

import json
import math

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax import operator_table
from omegamax.data.sentence_pairs import SentencePair
from omegamax.recipes import load
from omegamax.recipes.nli import Entailment
from omegamax.recipes.settings import NLISettings
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

ATTENTIONS = [facts.function for facts in operator_table.for_attention()]
SMALL = {"pairs": 60, "hidden_size": 12, "word_size": 10, "min_count": 1, "dropout": 0.0}
VARIANTS = [
    *({"model": "lstm", "attention": attention} for attention in [*ATTENTIONS, "none"]),
    *({"model": model, "attention": attention} for model in ("decomposable", "esim") for attention in ATTENTIONS),
    *(
        {"model": model, "alignment": alignment, "null": null, "direction": direction}
        for model in ("decomposable", "esim")
        for alignment in ("matching", "sequence")
        for null in ("no", "yes")
        for direction in ("both", "hypothesis")
    ),
    {"model": "esim", "attention": "sparsemax", "null": "yes", "characters": "cnn", "character_size": 6, "n_layers": 1},
]


def name(options):
    return "-".join(map(str, options.values()))


def entailment(**options):
    return Entailment.prepare(NLISettings(**{**SMALL, **options}))


def learn(task, model, n_steps, examples, learning_rate=2e-2):
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=learning_rate), []
    for _ in range(n_steps):
        total, n_items = task.loss(model, task.collate(examples))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    return losses


@pytest.mark.parametrize("options", VARIANTS, ids=name)
@pytest.mark.thinned(6)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = entailment(**options)
    losses = learn(task, task.model(), 15, task.examples("train")[:12])
    assert losses[0] == pytest.approx(math.log(3), abs=0.4)
    assert losses[-1] < 0.8 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize(
    "options",
    [
        {"model": "lstm", "attention": "sparsemax"},
        {"model": "esim", "attention": "fusedmax", "null": "yes"},
        {"alignment": "matching"},
    ],
    ids=name,
)
def test_metrics_are_those_of_the_probabilities(options):
    task = entailment(**options)
    model, dev = task.model().eval(), [*task.examples("dev")[:7], *task.examples("dev")[30:37]]
    metrics = evaluate(task, model, dev, batch_size=5)
    nats = n_right = n_zeros = n_weights = n_rows = n_positive = 0
    right = {label: [] for label in task.labels}
    for pair in dev:
        logits, alignment = model(task.collate([pair]))
        number = task.labels.index(pair.target)
        nats -= float(logits[0].double().log_softmax(-1)[number])
        right[pair.target].append(int(logits[0].argmax()) == number)
        n_right += right[pair.target][-1]
        for side in alignment:
            if side is not None:
                n_zeros += int((side.weights == 0).sum())
                n_weights += side.weights.numel()
                n_rows += side.weights.shape[1]
                n_positive += int((side.weights > 0).sum())
    assert metrics["accuracy"] == n_right / len(dev)
    assert metrics["loss"] == pytest.approx(nats / len(dev), rel=1e-5)
    for label in task.labels:
        assert metrics[f"accuracy_{label}"] == sum(right[label]) / len(right[label])
    assert metrics["zeros"] == pytest.approx(n_zeros / n_weights) and 0 <= metrics["zeros"] < 1
    assert metrics["support"] == pytest.approx(n_positive / n_rows)


def test_macro_f1_by_hand():
    task = entailment()
    pairs = [SentencePair(("a",), ("b",), label) for label in ("entailment", "entailment", "neutral", "contradiction")]
    lines = [f'{label}\t{{"loss": 1.0}}' for label in ("entailment", "neutral", "neutral", "entailment")]
    scores = task.score(pairs, lines)
    assert scores["accuracy"] == 0.5 and scores["accuracy_entailment"] == 0.5 and scores["accuracy_neutral"] == 1.0
    assert scores["macro_f1"] == pytest.approx((0.5 + 2 / 3 + 0) / 3)
    assert "zeros" not in scores


@torch.no_grad()
def test_softmax_has_no_exact_zeros():
    task = entailment(model="lstm")
    metrics = evaluate(task, task.model().eval(), task.examples("dev")[:3])
    premises = [len(pair.premise) for pair in task.examples("dev")[:3]]
    assert metrics["zeros"] == 0.0 and metrics["support"] == pytest.approx(sum(premises) / 3)


@torch.no_grad()
def test_a_prediction_is_a_label_and_all_probabilities():
    task = entailment(attention="sparsemax")
    model = task.model().eval()
    lines = ["A small dog runs .\tAn animal moves .", "Nobody sleeps\tunknownword"]
    pairs = task.read(lines)
    assert pairs[1] == SentencePair(("Nobody", "sleeps"), ("unknownword",), "")
    for pair, line in zip(pairs, task.predict(model, pairs)):
        label, *numbers = line.split("\t")
        expected = model(task.collate([pair])).logits[0].softmax(-1)
        assert label == task.labels[int(expected.argmax())]
        assert [float(number) for number in numbers] == pytest.approx(expected.tolist(), abs=1e-4)
    assert task.labels == ["entailment", "neutral", "contradiction"]
    for line, message in (
        ("one", "line 1: expected a premise, a tab"),
        ("a\t ", "line 1: the hypothesis has no words"),
    ):
        with pytest.raises(ValueError, match=message):
            task.read([line])


@torch.no_grad()
def test_large_batches_are_divided(monkeypatch):
    task = entailment(attention="sparsemax")
    model, dev = task.model().eval(), task.examples("dev")[:9]
    whole = task.predict(model, dev), evaluate(task, model, dev), task.attend(model, dev)
    monkeypatch.setattr("omegamax.recipes.nli._CELLS", 250)
    assert task.predict(model, dev) == whole[0] and evaluate(task, model, dev) == pytest.approx(whole[1])
    for one, other in zip(task.attend(model, dev), whole[2], strict=True):
        torch.testing.assert_close(one.weights, other.weights)


@torch.no_grad()
def test_attention_names_words():
    pair = SentencePair(("a", "dog", "is", "running"), ("no", "dog"), "")
    task = entailment(model="lstm", attention="sparsemax")
    model = task.model().eval()
    (shown,) = task.attend(model, [pair])
    assert list(shown.columns) == list(pair.premise) and shown.rows[0] in task.labels and len(shown.rows) == 1
    torch.testing.assert_close(shown.weights, model(task.collate([pair])).alignment.hypothesis.weights[0])
    task = entailment(alignment="sequence", null="yes")
    model = task.model().eval()
    (shown,) = task.attend(model, [pair])
    assert list(shown.rows) == ["no", "dog"] and list(shown.columns) == ["NULL", *pair.premise]
    torch.testing.assert_close(shown.weights.sum(-1), torch.ones(2))
    assert not shown.always_positive
    assert (
        entailment(model="lstm", attention="none").attend(entailment(model="lstm", attention="none").model(), [pair])
        == []
    )
    assert entailment().attend(entailment().model(), [pair])[0].always_positive


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "hard"}, "or none with --model lstm, got 'hard'"),
        ({"attention": "none"}, "or none with --model lstm, got 'none'"),
        ({"model": "lstm", "alignment": "matching"}, "the model lstm looks at the premise once"),
        ({"model": "lstm", "null": "yes"}, "choose --model esim"),
        ({"alignment": "matching", "attention": "sparsemax"}, "--alignment matching is by SparseMAP"),
        ({"strength": 0.1}, "attention softmax takes no strength"),
        ({"max_length": 2}, "no training pair has at most 2 words"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        entailment(**options)


def write(path, rows):
    path.write_text("\n".join(["label\tpremise\thypothesis", *("\t".join(row) for row in rows)]))


def test_files_decide_about_the_labels(tmp_path):
    rows = [(label, "a man eats .", f"he sings {n} songs") for n in range(4) for label in ("yes", "no")]
    write(tmp_path / "train.tsv", [*rows, ("-", "who knows", "what"), ("no", "a " * 101, "b")])
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.tsv", rows)
    with pytest.warns(UserWarning, match="pairs without a label were left out: 1 of train"):
        task = entailment(data=str(tmp_path))
    assert task.labels == ["no", "yes"] and len(task.examples("train")) == 8  # without the one that is too long
    write(tmp_path / "test.tsv", [("maybe", "a", "b")])
    with (
        pytest.warns(UserWarning, match="1 of train"),
        pytest.raises(ValueError, match="test split: expected one of the labels no, yes, got 'maybe'"),
    ):
        entailment(data=str(tmp_path))
    write(tmp_path / "train.tsv", [("yes", "a", "b")])
    with pytest.raises(ValueError, match="2 to 1000 different labels in the training data, got 1"):
        entailment(data=str(tmp_path))


def test_word_vectors_are_read(tmp_path):
    (tmp_path / "v.txt").write_text("dog 1 2 3\nanimal 4 5 6\nzebra 7 8 9\n")
    task = entailment(vectors=str(tmp_path / "v.txt"))
    table = task.model().reader.features.words
    assert table.embedding_dim == 3
    numbers = task.inputs.words.words.numbers(["dog", "animal", "zebra"])
    assert table.weight[numbers[:2]].tolist() == [[1, 2, 3], [4, 5, 6]] and numbers[2] == 1  # zebra occurs nowhere


@pytest.mark.slow
def test_a_pretrained_encoder_is_trained_further(tmp_path):
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "no", "dog", "is", "running", "in", "park", "."]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    directory = tmp_path / "bert"
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    task = entailment(encoder=str(directory), encoder_rate=0.05, word_size=0, alignment="matching")
    model = task.model()
    losses = learn(task, model, 12, task.examples("train")[:6], learning_rate=1e-2)
    assert losses[-1] < losses[0]
    names = [name for name, _ in model.named_parameters()]
    assert any(task.rate_factor(each) == 0.05 for each in names) and any(task.rate_factor(each) == 1 for each in names)
    again = Entailment.restore(task.settings, json.loads(json.dumps(task.assets())))  # without the directory
    with torch.no_grad():
        other = again.model()
        other.load_state_dict(model.state_dict())
        pairs = task.examples("dev")[:4]
        assert again.predict(other.eval(), pairs) == task.predict(model.eval(), pairs)


def test_a_run_is_trained_and_loaded(tmp_path):
    task = entailment(model="decomposable", alignment="matching", null="yes")
    training = TrainingSettings(epochs=2, batch_size=16, learning_rate=5e-3, threads=1)
    result = train(task, training, RunDirectory(tmp_path / "run", "refuse"), progress=Silent())
    assert result.epochs == 2
    loaded = load(tmp_path / "run")
    pairs = task.examples("test")[:5]
    with torch.no_grad():
        lines = loaded.task.predict(loaded.model, pairs)
        assert len(lines) == 5 and all(line.split("\t")[0] in task.labels for line in lines)
        assert evaluate(loaded.task, loaded.model, task.examples("dev"))["accuracy"] == result.metrics["accuracy"]
    assert NLISettings(alignment="matching", null="yes").variant == "esim-matching-null"
    assert NLISettings(model="lstm", attention="fusedmax").variant == "lstm-fusedmax"
