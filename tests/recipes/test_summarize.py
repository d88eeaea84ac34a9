"""Summaries: ROUGE against the package's numbers and by hand, references, cut sources, a run on JSON lines."""

import itertools
import json

import pytest
import torch

pytest.importorskip("sacrebleu")
pytest.importorskip("safetensors")

from omegamax.data.small_reports import generate_reports
from omegamax.recipes import load
from omegamax.recipes.rouge import mean_rouge, rouge_l, rouge_n, rouge_words
from omegamax.recipes.settings import SummarizeSettings
from omegamax.recipes.summarize import Summarize
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

# By rouge-score 0.1.2, RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False).score(reference, summary)
PUBLISHED = [
    ("The cat's 2 hats, sat!", "A cat sat; the hats (2)", (5 / 6, 5 / 6), (0.0, 0.0), (1 / 3, 1 / 3)),
    (
        "we propose a new method for sparse attention",
        "We propose sparse attention, a new method.",
        (0.875, 1.0),
        (0.5714285714285714, 0.6666666666666666),
        (0.625, 0.7142857142857143),
    ),
    ("naïve x_y", "x y naive", (0.5, 2 / 3), (1 / 3, 0.5), (0.5, 2 / 3)),
]
SMALL = {"level": "word", "embedding_size": 8, "hidden_size": 16, "dropout": 0.0, "max_length": 20}


@pytest.mark.parametrize(("summary", "reference", "one", "two", "long"), PUBLISHED)
def test_rouge_is_that_of_the_package(summary, reference, one, two, long):
    for found, expected in zip((rouge_n(summary, reference, 1), rouge_n(summary, reference, 2)), (one, two)):
        assert (found.precision, found.recall) == pytest.approx(expected)
    assert rouge_l(summary, reference)[:2] == pytest.approx(long)


def test_the_longest_common_subsequence_is_that_of_enumeration():
    texts = [" ".join(words) for n in range(4) for words in itertools.product("ab", repeat=n)]
    for a, b in itertools.product(texts, repeat=2):
        words, others = a.split(), b.split()
        parts = {p for n in range(len(words) + 1) for p in itertools.combinations(words, n)}
        common = parts & {p for n in range(len(others) + 1) for p in itertools.combinations(others, n)}
        longest = max(map(len, common))
        assert rouge_l(a, b).recall == pytest.approx(longest / max(1, len(others)))


def test_the_best_reference_counts_and_only_75_bytes_of_a_summary():
    scores = mean_rouge(["the cat", "x"], [["a dog", "the cat"], ["y"]])
    assert scores["rouge1"] == scores["rouge2"] == scores["rouge_l"] == 50
    long = "w " * 40
    scores = mean_rouge([long + "late"], [["late", "early"]])
    assert scores["rouge1"] > 0 and scores["rouge1_recall_75"] == 0
    scores = mean_rouge(["late " + long + "é"], [["late"]])
    assert scores["rouge1_recall_75"] == 100 and set(rouge_words("Ä b")) == {"b"}


def test_generated_reports_are_summarized_by_their_own_words():
    reports = list(generate_reports(300, "train"))
    assert reports == list(generate_reports(300, "train")) and len(dict(reports)) > 290
    for source, target in reports:
        after = source.split("note that ")[1].split(" .")[0].split()
        assert target.split() == [word for word in after if word in target.split()] and len(target.split()) >= 5


def test_json_lines_with_references_and_long_sources(tmp_path):
    rows = [
        {"source": [f"Fact {n}.", "word " * 30], "target": [f"fact {n}", f"that {n}"], "title": f"title {n}"}
        for n in range(80)
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = Summarize.prepare(SummarizeSettings(data=str(path), max_source=9, **SMALL))
    assert all(len(example.source) == 9 for example in task.examples("train"))
    example = task.examples("test")[0]
    assert example.more and task.score([example], [example.more[0]])["rouge_l"] == 100
    assert next(iter(task.score([example], [""]))) == "rouge_l" and "stemming: no" in task.signatures([])["rouge"]
    settings = TrainingSettings(epochs=1, batch_size=40, threads=1, device="cpu")
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    loaded = load(tmp_path / "run")
    with torch.no_grad():
        assert len(loaded.task.predict(loaded.model, loaded.task.read(["Fact 3. " + "word " * 50]))) == 1
    titles = Summarize.prepare(SummarizeSettings(data=str(path), source="source.0", target="title", **SMALL))
    assert titles.examples("dev")[0].target.startswith("title") and not titles.examples("dev")[0].more


def test_a_pointer_learns_and_is_searched():
    settings = SummarizeSettings(examples=60, copy="pointer", coverage_loss=0.1, attention="sparsemax", **SMALL)
    task = Summarize.prepare(settings)
    model, batch = task.model(), task.collate(task.examples("train")[:20])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]
    with torch.no_grad():
        assert len(task.predict(model.eval(), task.examples("dev")[:3])) == 3


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"copy": "pointer", "model": "transformer", "n_heads": 2}, "copy pointer needs model lstm, got transformer"),
        ({"copy": "pointer", "vocabulary": "separate"}, "copy pointer needs vocabulary joint, got separate"),
        ({"copy": "pointer", "output": "sparsemax"}, "copy pointer needs output softmax, got sparsemax"),
        ({"copy": "pointer", "attention": "none"}, "copy pointer copies by attention, got attention none"),
        ({"coverage_loss": 1.0}, "coverage_loss needs --copy pointer, got 1.0"),
    ],
)
def test_what_a_pointer_cannot_have_is_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        Summarize.prepare(SummarizeSettings(examples=60, **SMALL, **options))
