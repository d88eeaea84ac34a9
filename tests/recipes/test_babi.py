"""Questions about stories: losses that fall, metrics against plain arithmetic, raw text, cut stories, a whole run."""

import json
import math

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax import operator_table
from omegamax.data.babi import StoryQuestion
from omegamax.recipes import load
from omegamax.recipes.babi import NOTICED, StoryQuestions
from omegamax.recipes.settings import BabiSettings
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

ATTENTIONS = [facts.function for facts in operator_table.for_attention()]


def babi(**options):
    return StoryQuestions.prepare(BabiSettings(**{"questions": 80, "linear_start": 0, "size": 8, **options}))


@pytest.mark.parametrize("options", [*({"attention": name} for name in ATTENTIONS), {"linear_start": 2}], ids=str)
@pytest.mark.thinned(4)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = babi(**options)
    model, examples, losses = task.model(), task.examples("train")[:32], []
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(20):
        total, n_items = task.loss(model, task.collate(examples))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert losses[0] == pytest.approx(math.log(len(task.vocabulary)), rel=0.2)
    assert losses[-1] < 0.7 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("attention", ["softmax", "sparsemax"])
def test_metrics_are_those_of_the_model(attention):
    torch.manual_seed(1)
    task = babi(attention=attention)
    model, dev = task.model().eval(), task.examples("dev")[:25]
    metrics = evaluate(task, model, dev, batch_size=7)
    least = NOTICED if attention == "softmax" else 0.0
    n_right, nats, kinds = 0, 0.0, {1: [], 2: []}
    n_read, n_facts, n_both, first_hop = 0, 0, 0, 0
    for example in dev:
        batch = task.collate([example])
        scores, weights = model(batch.story, batch.question)
        scores = scores[0, 4:].double()  # without padding, unknown and the ends of texts
        answer = task.vocabulary.tokens([int(scores.argmax()) + 4])[0]
        kinds[example.task].append(answer == example.target)
        n_right += answer == example.target
        nats -= float(scores.log_softmax(-1)[int(batch.answer) - 4])
        read = {k for k in range(len(example.story)) if (weights[0, :, k] > least).any()}
        n_read, n_facts, n_both = (
            n_read + len(read),
            n_facts + len(example.facts),
            n_both + len(read & {*example.facts}),
        )
        first_hop += sum(float(weights[0, 0, k]) > least for k in example.facts)
    assert metrics["accuracy"] == n_right / len(dev)
    assert metrics["loss"] == pytest.approx(nats / len(dev), rel=1e-5)
    assert metrics["error_2"] == pytest.approx(100 * (1 - sum(kinds[2]) / len(kinds[2])))
    assert metrics["mean_error"] == pytest.approx((metrics["error_1"] + metrics["error_2"]) / 2)
    assert metrics["fact_precision"] == n_both / n_read and metrics["fact_recall"] == n_both / n_facts
    assert metrics["fact_recall_hop_1"] == first_hop / n_facts
    assert metrics["sentences_read"] == n_read / len(dev)


def test_raw_text_is_read_and_answered():
    task = babi()
    lines = [
        "1 Ada took the lamp.",
        "2 Ada went to the shed.",
        "3 Where is the lamp?",
        "",
        "Bo ran to the mill.",
        "Where is Bo?",
    ]
    examples = task.read(lines)
    assert [len(each.story) for each in examples] == [2, 1]
    whole = task.read(
        ["Ada took the lamp. Ada went to the shed. Where is the lamp?", "Bo ran to the mill. Where is Bo?"]
    )
    assert whole == examples
    with torch.no_grad():
        found = task.predict(task.model().eval(), examples)
    for line in found:
        answer, probability = line.split("\t")
        assert answer in task.vocabulary and not answer.startswith("<") and 0 < float(probability) <= 1
    with pytest.raises(ValueError, match="the input, line 1: expected a sentence before the first question"):
        task.read(["Where is Bo?"])


@torch.no_grad()
def test_long_stories_keep_their_last_sentences():
    task = babi(max_sentences=2)
    story = tuple(("bo", "went", "to", "the", place) for place in ("barn", "shed", "mill"))
    example = StoryQuestion(story, ("where", "is", "bo"), "mill", (0, 2))
    assert task.collate([example]).story.shape == (1, 2, 5)
    (found,) = task.attend(task.model().eval(), [example])
    assert list(found.columns) == ["bo went to the shed", "bo went to the mill"] and found.weights.shape == (3, 2)
    lines = [f"mill\t{json.dumps({'loss': 0.1, 'hops': [[0], [1], [1]]})}"]
    scores = task.score([example], lines)  # the fact that was cut off cannot be found and does not count
    assert scores["accuracy"] == 1.0 and scores["fact_recall"] == 1.0 and scores["fact_precision"] == 0.5


def test_wrong_settings():
    with pytest.raises(ValueError, match="tasks must be numbers of tasks"):
        BabiSettings(tasks="1,x")
    with pytest.raises(ValueError, match="generated stories are of the tasks 1 and 2, got 7"):
        babi(tasks="7")
    assert {each.task for each in babi(tasks="2").examples("train")} == {2}
    with pytest.raises(ValueError, match="time_noise must be a probability"):
        BabiSettings(time_noise=-0.5)


def test_a_run_resumes_its_linear_start(tmp_path):
    task = babi(linear_start=1, attention="sparsemax", time_noise=0.1)
    settings = TrainingSettings(epochs=2, batch_size=16, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run", which="latest")
    assert int(found.model.normalizer.rows_left) <= 0
    metrics = evaluate(found.task, found.model, found.task.examples("dev")[:10])
    assert 0 <= metrics["accuracy"] <= 1 and "fact_precision_hop_3" in metrics
    (figure,) = found.task.draw(found.model, found.task.examples("dev")[:1])
    assert figure.axes
