"""Descriptions of pictures: losses that fall, batches, metrics by hand, where words look, files, formulas, a run."""

import json
import math

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("sacrebleu")
pytest.importorskip("sklearn")

from omegamax.attention.estimators import Marginalize, MovingAverage, OthersMean, SoftStart, SometimesSoft
from omegamax.data.digit_scenes import PlacedDigit, Scene, render_scene
from omegamax.operators import GridTV, Scaled
from omegamax.recipes import load
from omegamax.recipes.caption import Caption, CaptionExample, covered_cells, make_grid_normalizer
from omegamax.recipes.settings import CAPTION_READINGS, CaptionSettings
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings, from_dict, to_dict

SMALL = {"pictures": 24, "features": 8, "embedding_size": 8, "hidden_size": 12, "max_length": 14}
AS_PUBLISHED = {"soft_start": 0, "samples": 1, "reward": "caption"}
VARIANTS = [
    *({"reading": reading} for reading in CAPTION_READINGS),
    {"reading": "reinforce", "soft_start": 0},
    {"reading": "reinforce", **AS_PUBLISHED},
    {"reading": "soft", "attention": "grid-tv", "strength": 0.02, "max_columns": 1},
    {"reading": "exact", "attention": "sparsemax"},
]


def caption(**options):
    return Caption.prepare(CaptionSettings(**{**SMALL, "dropout": 0.0, **options}))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = caption(**options)
    model, batch, losses = task.model(), task.collate(task.examples("train")[:6]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(8):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[-1] < 0.8 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("options", [{"reading": "reinforce"}, {"reading": "none", "beam": 3}], ids=str)
def test_a_picture_does_not_depend_on_its_batch(options):
    torch.manual_seed(0)
    task = caption(**options)
    model, examples = task.model().eval(), task.examples("train")[:4]
    alone = [task.loss(model, task.collate([example])) for example in examples]
    together = task.loss(model, task.collate(examples))
    torch.testing.assert_close(together.total, sum(each.total for each in alone), rtol=1e-4, atol=1e-4)
    assert together.n_items == sum(each.n_items for each in alone)
    assert task.predict(model, examples) == [task.predict(model, [example])[0] for example in examples]


def example():
    rows = ((PlacedDigit(7, 7, 1, 4), PlacedDigit(8, 8, 2, 20)), (PlacedDigit(3, 3, 14, 9),))
    return CaptionExample("a seven left of an eight above a three", Scene(rows, 0))


def test_the_places_of_words():
    task = caption()
    words = ["a", "seven", "left", "of", "an", "eight", "above", "a", "three", "</s>", "one"]
    places = dict(enumerate(task.true_places(example(), words)))
    assert {place: box for place, box in places.items() if box} == {1: (1, 4, 8, 8), 5: (2, 20, 8, 8), 8: (14, 9, 8, 8)}
    covered = covered_cells((1, 4, 8, 8), (8, 8))
    by_hand = np.zeros((8, 8))
    by_hand[:3, 1:3] = [[0.75, 0.75], [1, 1], [0.25, 0.25]]
    np.testing.assert_allclose(covered, by_hand)


def test_scores_by_hand():
    task = caption()
    targets = ["a one left of a two", "a one above a two", "an eight", "a four"]
    said = ["a one left of a two", "a two above a one", "a eight", "a four above a one"]
    more = {"loss": 3.0, "words": 6, "on_object": 1.0, "even": 0.25, "hits": 1, "digit_words": 2}
    scores = task.score([CaptionExample(target) for target in targets], [f"{a}\t{json.dumps(more)}" for a in said])
    assert next(iter(scores)) == task.metric == "bleu"
    assert scores["exact_match"] == 0.25 and scores["edit_distance"] == (0 + 2 + 1 + 3) / 4
    assert scores["word_error_rate"] == 6 / (6 + 5 + 2 + 2)
    assert scores["perplexity"] == pytest.approx(math.exp(0.5))
    assert (scores["digits"], scores["digits_any_order"], scores["layout"]) == (0.5, 0.75, 0.75)
    assert (scores["attention_on_object"], scores["even_attention"], scores["pointing"]) == (0.5, 0.125, 0.5)


@torch.no_grad()
def test_assessments_agree_with_the_model():
    torch.manual_seed(0)
    task = caption(attention="sparsemax")
    model, examples = task.model().eval(), [example(), *task.examples("dev")[:2]]
    (text, _, more), *_ = [line.partition("\t") for line in task.assess(model, examples)]
    assert text == task.predict(model, examples[:1])[0]
    batch = task.collate(examples[:1])
    more, weights = json.loads(more), model.attend(*batch)[0]
    assert more["loss"] == pytest.approx(task.loss(model, batch).total.item(), rel=1e-5) and more["words"] == 10
    pixels = weights.repeat_interleave(4, 1).repeat_interleave(4, 2) / 16
    by_hand = [pixels[1, 1:9, 4:12].sum(), pixels[5, 2:10, 20:28].sum(), pixels[8, 14:22, 9:17].sum()]
    assert more["on_object"] == pytest.approx(float(sum(by_hand)), abs=1e-5)
    assert more["digit_words"] == 3 and more["even"] == pytest.approx(3 * 64 / 32**2)


@torch.no_grad()
def test_maps_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    task = caption(reading="exact", attention="sparsemax")
    np.save(tmp_path / "a.npy", render_scene(example().scene))
    model, given = task.model().eval(), task.read(["an eight above a one\n", f"{tmp_path / 'a.npy'}\n"])
    assert given[1].target == "" and task.length(given[1]) == 32**2
    maps, lines = task.attend(model, given), task.predict(model, given)
    for found, line in zip(maps, lines):
        assert found.columns[9] == "1,1" and found.weights.shape == (len(found.rows), 64)
        assert [word for word in found.rows if word != "</s>"] == line.split()
    for figure in task.draw(model, given):
        figure.draw_without_rendering()
    without = caption(reading="none")
    assert without.attend(without.model().eval(), given) == [] == without.draw(without.model().eval(), given)


def test_settings_make_normalizers_and_estimators():
    assert isinstance(make_grid_normalizer(CaptionSettings(attention="grid-tv")), GridTV)
    scaled = make_grid_normalizer(CaptionSettings(attention="grid-tv", strength=0.3, gamma=2.0))
    assert isinstance(scaled, Scaled) and scaled.inner.strength == 0.3 and scaled.gamma == 2
    assert isinstance(caption(reading="exact").model().estimator, Marginalize)
    model = caption(reading="reinforce", reward_scale=0.3, soft_share=0.2, soft_start=70, samples=3).model()
    assert isinstance(model.estimator, SoftStart) and int(model.estimator.items_left) == 70
    assert model.n_samples == 3 and model.rewards_rest
    estimator = model.estimator.estimator
    assert isinstance(estimator, SometimesSoft) and estimator.probability == 0.2
    assert estimator.estimator.reward_scale == 0.3 and isinstance(estimator.estimator.baseline, OthersMean)
    assert CaptionSettings(reading="none").variant == "none" and CaptionSettings().variant == "soft-softmax"


def test_reinforce_as_published_is_what_older_checkpoints_mean():
    values = to_dict(CaptionSettings(reading="reinforce"))
    settings = from_dict(CaptionSettings, {name: value for name, value in values.items() if name not in AS_PUBLISHED})
    assert settings == CaptionSettings(reading="reinforce", **AS_PUBLISHED)
    model = Caption.prepare(settings).model()
    assert isinstance(model.estimator, SometimesSoft)
    assert isinstance(model.estimator.estimator.baseline, MovingAverage)
    assert model.n_samples == 1 and not model.rewards_rest


def test_wrong_settings_and_lines(tmp_path):
    with pytest.raises(ValueError, match="reading must be one of soft, reinforce, exact, none"):
        CaptionSettings(reading="other")
    with pytest.raises(ValueError, match="reward must be one of rest, caption, got 'word'"):
        CaptionSettings(reward="word")
    with pytest.raises(ValueError, match="attention must be one of"):
        caption(attention="softmin")
    with pytest.raises(ValueError, match="write --reading exact --attention sparsemax"):
        caption(attention="hard")
    with pytest.raises(ValueError, match=r"attention grid-tv takes no alpha, got 1\.5; leave it out"):
        caption(attention="grid-tv", alpha=1.5)
    with pytest.raises(ValueError, match="expected a file with a picture"):
        caption().read(["a ten"])
    np.save(tmp_path / "a.npy", np.zeros((8, 8)))
    with pytest.raises(ValueError, match=r"expected 32 × 32 pixels, white digits on black, got \(8, 8\)"):
        caption().read([str(tmp_path / "a.npy")])


def test_a_run_and_its_predictions(tmp_path):
    task = caption(reading="reinforce", dropout=0.1, soft_start=8)
    settings = TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    assert int(found.model.estimator.items_left) == 0  # after one batch of 8; the checkpoint knows
    np.save(tmp_path / "a.npy", render_scene(example().scene))
    (given,) = found.task.read([f"{tmp_path / 'a.npy'}\n"])
    with torch.no_grad():
        (line,) = found.task.predict(found.model, [given])
        assert found.task.assess(found.model, [given])[0].startswith(f"{line}\t")
        assert [line] == found.task.predict(found.model, [example()])
    assert found.task.examples("test")[0] == task.examples("test")[0]


@pytest.fixture
def formulas(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    random = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for split, count in (("train", 6), ("dev", 2), ("test", 2)):
        lines = ["image\tformula"]
        for number in range(count):
            name, formula = f"{split}{number}.png", r"x^{2}\alpha" + "+y" * number
            page = 255 - random.integers(0, 256, (14, 20 + 10 * number), np.uint8)
            image.imsave(tmp_path / "images" / name, page, cmap="gray", vmin=0, vmax=255)
            lines.append(f"{name}\t{formula}\\label{{a}}")
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_formulas(formulas):
    torch.manual_seed(0)
    task = caption(data=str(formulas), attention="sparsemax", max_length=12)
    examples = task.examples("train")
    assert [each.target for each in examples[:2]] == [r"x ^ { 2 } \alpha", r"x ^ { 2 } \alpha + y"]
    assert len(examples) == 4 and max(len(each.target.split()) for each in examples) == 12  # two are too long
    batch = task.collate(examples)
    assert batch.sizes.tolist() == [[7, 10 + 5 * number] for number in range(4)] and batch.pictures.shape == (4, 7, 25)
    model = task.model()
    task.loss(model, batch).total.backward()
    model.eval()
    with torch.no_grad():
        scores = task.score(examples, task.assess(model, examples))
        (given,) = task.read([f"{formulas / 'images' / 'train1.png'}\n"])
        np.testing.assert_allclose(task.collate([given]).pictures, task.collate(examples[1:2]).pictures)
        assert task.predict(model, [given]) == task.predict(model, examples[1:2])
        assert task.attend(model, [given])[0].weights.shape[1] == 2 * 4
        task.draw(model, [given])[0].draw_without_rendering()
    assert {"bleu", "edit_distance", "exact_match", "zeros"} <= set(scores)
    assert not {"digits", "attention_on_object"} & set(scores)
    again = Caption.restore(task.settings, task.assets())
    assert [again.fingerprint(each) for each in again.examples("dev")] == [
        task.fingerprint(each) for each in task.examples("dev")
    ]
