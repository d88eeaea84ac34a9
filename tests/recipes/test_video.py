"""Descriptions of clips: losses that fall, padding, metrics by hand, where words look, files, a whole run."""

import json
import math

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("sacrebleu")
pytest.importorskip("sklearn")

from omegamax.data.moving_digits import Clip, DigitEvent, render_clip
from omegamax.recipes import load
from omegamax.recipes.settings import VIDEO_MODELS, VideoSettings
from omegamax.recipes.video import Video, VideoExample
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {"clips": 24, "frame_size": 8, "embedding_size": 8, "hidden_size": 12, "max_events": 2, "max_length": 14}
VARIANTS = [
    *({"model": model} for model in VIDEO_MODELS),
    {"model": "both", "attention": "sparsemax"},
    {"model": "attention", "attention": "fusedmax", "positions": "no"},
]


def video(**options):
    return Video.prepare(VideoSettings(**{**SMALL, "dropout": 0.0, **options}))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = video(**options)
    model, batch, losses = task.model(), task.collate(task.examples("train")[:8]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(12):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[-1] < 0.8 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("options", [{"model": "both"}, {"model": "conv3d", "beam": 3}], ids=str)
def test_a_clip_does_not_depend_on_its_batch(options):
    torch.manual_seed(0)
    task = video(**options)
    model, examples = task.model().eval(), task.examples("train")[:5]
    alone = [task.loss(model, task.collate([example])) for example in examples]
    together = task.loss(model, task.collate(examples))
    torch.testing.assert_close(together.total, sum(each.total for each in alone), rtol=1e-4, atol=1e-4)
    assert together.n_items == sum(each.n_items for each in alone)
    assert task.predict(model, examples) == [task.predict(model, [example])[0] for example in examples]


def example():
    events = (DigitEvent(3, "moves left", 0, 1, 4, 0, 8), DigitEvent(8, "falls", 1, 7, 5, 0, 0))
    return VideoExample(Clip(events, 14, 0), "a three moves left, then an eight falls")


def test_the_frames_that_words_are_about():
    words = ["a", "three", "moves", "left", "￭,", "then", "an", "eight", "falls", "￭,", "then", "six"]
    true = video().true_frames(example(), words)
    first, second = list(range(1, 5)), list(range(7, 12))
    wanted = [[], first, first, first, [], [], [], second, second, [], [], []]
    assert [row.nonzero().flatten().tolist() for row in true] == wanted


def test_scores_by_hand():
    task = video()
    targets = ["a three moves left, then an eight falls", "a one stays", "a two rises", "a six falls"]
    said = ["an eight moves left, then a three falls", "a one stays", "two", "a five falls, then a one stays"]
    examples = [example()._replace(target=target) for target in targets]
    more = {"loss": 3.0, "words": 6, "on_event": 1.5, "content_words": 3, "even": 1.0}
    scores = task.score(examples, [f"{text}\t{json.dumps(more)}" for text in said])
    assert next(iter(scores)) == task.metric == "bleu"
    assert scores["exact_match"] == 0.25 and scores["perplexity"] == pytest.approx(math.exp(0.5))
    assert (scores["digits"], scores["digits_any_order"]) == (0.25, 0.5)
    assert (scores["motions"], scores["motions_any_order"]) == (0.5, 0.5)
    assert scores["attention_on_event"] == 0.5 and scores["even_attention"] == pytest.approx(1 / 3)


@torch.no_grad()
def test_assessments_agree_with_the_model():
    torch.manual_seed(0)
    task = video(model="attention", attention="sparsemax")
    model, examples = task.model().eval(), [example(), *task.examples("dev")[:2]]
    (text, _, more), *_ = [line.partition("\t") for line in task.assess(model, examples)]
    assert text == task.predict(model, examples[:1])[0]
    batch = task.collate(examples[:1])
    more, weights = json.loads(more), model.attend(*batch)[0]
    assert more["loss"] == pytest.approx(task.loss(model, batch).total.item(), rel=1e-5) and more["words"] == 10
    by_hand = weights[1:4, 1:5].sum() + weights[7:9, 7:12].sum()  # three moves left; eight falls
    assert more["on_event"] == pytest.approx(by_hand.item(), abs=1e-5)
    assert more["content_words"] == 5 and more["even"] == pytest.approx((3 * 4 + 2 * 5) / 14)


@torch.no_grad()
def test_maps_and_pictures():
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    task = video(model="both", attention="sparsemax")
    model, (given,) = task.model().eval(), task.read(["an eight falls\n"])
    (found,), (line,) = task.attend(model, [given]), task.predict(model, [given])
    assert len(found.columns) == given.clip.n_frames and found.weights.shape == (len(found.rows), len(found.columns))
    assert found.rows[0] == line.split()[0]
    (figure,) = task.draw(model, [given])
    figure.draw_without_rendering()
    without = video(model="conv3d")
    assert without.attend(without.model().eval(), [given]) == [] == without.draw(without.model().eval(), [given])


def test_wrong_settings_and_lines():
    with pytest.raises(ValueError, match="model must be one of attention, conv3d, both, neither"):
        VideoSettings(model="other")
    with pytest.raises(ValueError, match="attention must be one of"):
        video(attention="softmin")
    with pytest.raises(ValueError, match="expected a file of frames"):
        video().read(["a ten falls"])
    assert VideoSettings(model="conv3d").variant == "conv3d" and VideoSettings().variant == "both-softmax"


def test_a_run_and_its_predictions(tmp_path):
    task = video(dropout=0.1)
    settings = TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    np.save(tmp_path / "a.npy", render_clip(example().clip))
    (given,) = found.task.read([f"{tmp_path / 'a.npy'}\n"])
    with torch.no_grad():
        (line,) = found.task.predict(found.model, [given])
        assert found.task.assess(found.model, [given])[0].startswith(f"{line}\t")
    assert found.task.length(given) == 14 and found.task.examples("test")[0] == task.examples("test")[0]
