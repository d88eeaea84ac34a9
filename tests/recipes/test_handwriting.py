"""Writing by hand: losses that fall, padding, metrics by hand, where the pen looks, strokes, pictures, a whole run."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("HersheyFonts")

from omegamax.recipes import load
from omegamax.recipes.handwriting import Handwriting
from omegamax.recipes.settings import HANDWRITING_MODELS, HandwritingPrediction, HandwritingSettings
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {"writings": 12, "hidden_size": 12, "letter_size": 6, "reader_size": 6, "n_components": 3, "letters": "abcd "}
VARIANTS = [*({"model": model} for model in HANDWRITING_MODELS), {"model": "content", "attention": "sparsemax"}]


def handwriting(**options):
    return Handwriting.prepare(HandwritingSettings(**{**SMALL, "max_length": 4, **options}))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = handwriting(**options)
    model, batch, losses = task.model(), task.collate(task.examples("train")[:8]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(10):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[-1] < 0.8 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("model", HANDWRITING_MODELS)
def test_a_writing_does_not_depend_on_its_batch(model):
    torch.manual_seed(0)
    task = handwriting(model=model)
    network, examples = task.model().eval(), task.examples("train")[:4]
    alone = [task.loss(network, task.collate([example])) for example in examples]
    together = task.loss(network, task.collate(examples))
    torch.testing.assert_close(together.total, sum(each.total for each in alone), rtol=1e-4, atol=1e-3)
    assert together.n_items == sum(each.n_items for each in alone)
    written = task.write(network, examples, bias=0.0)
    for example, one in zip(examples, written):
        (other,) = task.write(network, [example], bias=0.0)
        np.testing.assert_allclose(one.points, other.points, atol=1e-4)
        assert (one.read, one.ended) == (other.read, other.ended)


def test_the_reader_learns_from_other_writers():
    task = handwriting()
    train_hands, lesson_hands = ({each[part].writer for each in task.examples("train")} for part in (1, 2))
    test_hands = {each.writing.writer for each in task.examples("test")}
    assert not train_hands & lesson_hands and not test_hands & (train_hands | lesson_hands)
    assert all(each.lesson == each.writing for each in task.examples("dev"))


@torch.no_grad()
@pytest.mark.parametrize("model", ["window", "content"])
def test_assessments_agree_with_the_model(model):
    torch.manual_seed(0)
    task = handwriting(model=model, writings=4)
    network, examples = task.model().eval(), task.examples("dev")[:3]
    batch = task.collate(examples[:1])
    (_, _, more), *_ = [line.partition("\t") for line in task.assess(network, examples)]
    more, example = json.loads(more), examples[0]
    density, scores = network.writer(batch.letters, batch.n_letters, batch.points)
    assert more["likelihood"] == pytest.approx(float(density.log_prob(batch.points).sum()), rel=1e-4)
    assert more["points"] == len(example.writing.points) and more["even"] == more["points"] / len(example.text)
    weights = scores[0].exp() / scores[0].exp().sum(-1, keepdim=True) if model == "window" else scores[0]
    by_hand = sum(float(weights[point, letter]) for point, letter in enumerate(example.writing.letters))
    assert more["on_letter"] == pytest.approx(by_hand, rel=1e-4) and ("counts" in more) == (model == "content")


def test_scores_by_hand():
    task = handwriting()
    examples = task.read(["abc", "d"])
    more = [
        {"likelihood": 3.0, "points": 6, "on_letter": 3.0, "even": 2.0, "found": 4, "ended": True},
        {"likelihood": 1.0, "points": 2, "on_letter": 1.0, "even": 2.0, "found": 2, "ended": False},
    ]
    for each, one, other in zip(more, ("abc", "a"), ("ac", "")):
        each |= {"written": one, "written_unbiased": other}
    lines = [f"{read}\t{json.dumps(each)}" for read, each in zip(("abcd", "d"), more)]
    scores = task.score(examples, lines)
    assert next(iter(scores)) == task.metric == "log_likelihood"
    assert scores["log_likelihood"] == 0.5 == -scores["nll"]
    assert scores["reader_error"] == 0.25 and scores["character_error"] == 0.25 and scores["exact_match"] == 0.5
    assert scores["character_error_unbiased"] == 0.5 and scores["ended"] == 0.5
    assert (scores["attention_on_letter"], scores["even_attention"], scores["letter_found"]) == (0.5, 0.5, 0.75)


@torch.no_grad()
def test_lines_maps_and_pictures():
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    task = handwriting()
    model, given = task.model().eval(), task.read(["abba cd\n"])
    (line,), (found,) = task.predict(model, given), task.attend(model, given)
    record = json.loads(line)
    assert record["text"] == "abba cd" and sum(map(len, record["strokes"])) == len(found.rows)
    assert found.columns == list("abba cd") and found.always_positive
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.rows)))
    (figure,) = task.draw(model, given)
    figure.draw_without_rendering()
    task.prediction = HandwritingPrediction(output_format="svg", bias=0.0, seed=3)
    assert ElementTree.fromstring(task.predict(model, given)[0]).get("aria-label") == "abba cd"
    without = handwriting(model="none")
    assert without.attend(without.model().eval(), given) == [] == without.draw(without.model().eval(), given)


def test_wrong_settings_and_texts():
    with pytest.raises(ValueError, match="model must be one of window, content, none"):
        HandwritingSettings(model="other")
    with pytest.raises(ValueError, match="max_length must be at least min_length"):
        HandwritingSettings(min_length=5, max_length=4)
    with pytest.raises(ValueError, match="attention must be one of"):
        handwriting(attention="softmin")
    with pytest.raises(ValueError, match="letters must be different"):
        handwriting(letters="aa")
    with pytest.raises(ValueError, match="text must be of the letters"):
        handwriting().read(["xyz"])
    with pytest.raises(ValueError, match="bias must be from 0 to 100"):
        HandwritingPrediction(bias=-1.0)
    assert [HandwritingSettings(**options).variant for options in VARIANTS] == [
        "window",
        "content-softmax",
        "none",
        "content-sparsemax",
    ]


def test_a_run_and_its_predictions(tmp_path):
    task = handwriting()
    settings = TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    with torch.no_grad():
        (line,) = found.task.predict(found.model, found.task.read(["abc"]))
    assert json.loads(line)["text"] == "abc" and found.task.rate == task.rate
    texts = [[each.text for each in other.examples("test")] for other in (task, found.task)]
    assert texts[0] == texts[1]
