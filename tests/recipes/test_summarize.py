"""Summaries: ROUGE by hand, baselines, references, cut sources, a run on JSON lines."""

import builtins
import json

import pytest
import torch

pytest.importorskip("sacrebleu")
pytest.importorskip("rouge_score")
pytest.importorskip("safetensors")

from omegamax.data.small_reports import generate_reports
from omegamax.data.text_pairs import read_text_pairs
from omegamax.recipes import load
from omegamax.recipes.extractive_baselines import extractive_baselines
from omegamax.recipes.rouge import first_bytes, mean_rouge, rouge_scores
from omegamax.recipes.settings import SummarizeSettings
from omegamax.recipes.summarize import Summarize
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

# Counted by hand: F of ROUGE-1, -2 and -L.
BY_HAND = [
    ("The cat's 2 hats, sat!", "A cat sat; the hats (2)", 5 / 6, 0.0, 1 / 3),
    (
        # 8 words, all 7 of the reference, 4 of its pairs, and "we propose a new method"
        "we propose a new method for sparse attention",
        "We propose sparse attention, a new method.",
        2 * 7 / 15,
        2 * 4 / 13,
        2 * 5 / 15,
    ),
    ("naïve x_y", "x y naive", 2 * 2 / 7, 2 * 1 / 5, 2 * 2 / 7),  # "na", "ve", "x", "y"
]
SMALL = {"level": "word", "embedding_size": 8, "hidden_size": 16, "dropout": 0.0, "max_length": 20}


@pytest.mark.parametrize(("summary", "reference", "one", "two", "long"), BY_HAND)
def test_rouge_counts_words_pairs_and_common_subsequences(summary, reference, one, two, long):
    (scores,) = rouge_scores([summary], [[reference]])
    assert [scores["rouge1"], scores["rouge2"], scores["rouge_l"]] == pytest.approx([one, two, long])


def test_the_best_reference_counts_and_only_75_bytes_of_a_summary():
    scores = mean_rouge(["the cat", "x"], [["a dog", "the cat"], ["y"]])
    assert scores["rouge1"] == scores["rouge2"] == scores["rouge_l"] == 50
    long = "w " * 40
    scores = mean_rouge([long + "late"], [["late", "early"]])
    assert scores["rouge1"] > 0 and scores["rouge1_recall_75"] == 0
    scores = mean_rouge(["late " + long + "é"], [["late"]])
    assert scores["rouge1_recall_75"] == 100
    assert first_bytes("aé", 2) == "a" and first_bytes("aé", 3) == "aé" and first_bytes("", 75) == ""
    assert mean_rouge([], []) == {}
    assert set(mean_rouge([""], [["x"]]).values()) == {0.0}


def test_without_the_package_nothing_is_trained(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        if name.startswith("rouge_score"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match="ROUGE needs rouge-score; install it with"):
        Summarize.prepare(SummarizeSettings(examples=60, **SMALL))


def test_baselines_copy_one_sentence(tmp_path):
    rows = [
        {"source": ["a b", "c d e f", " "], "target": ["c d"]},
        {"source": ["g h"], "target": ["g h", "x"]},
    ]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = read_text_pairs(tmp_path, "source", "target")["test"]
    assert [pair.sentences for pair in pairs] == [("a b", "c d e f"), ("g h",)]
    found = extractive_baselines([pair.sentences for pair in pairs], [pair.targets for pair in pairs])
    assert {name: scores["rouge1"] for name, scores in found.items()} == pytest.approx(
        {"lead-1": 50.0, "random": 50 * (1 + 1 / 3), "oracle": 50 * (1 + 2 / 3)}
    )


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
