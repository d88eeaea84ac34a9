"""Looks at images: losses that fall, metrics by hand, names and files of images, pictures, a whole run."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("sklearn")

from omegamax.operators import GridTV, Shannon, SquaredNorm
from omegamax.recipes import load
from omegamax.recipes.glimpse import Glimpse
from omegamax.recipes.settings import GLIMPSE_MODELS, GlimpseSettings
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings, values_before

SMALL = {"images": 24, "side": 32, "glimpses": 3, "patch_size": 8, "scales": 2, "positions": 2}
SMALL |= {"feature_size": 16, "hidden_size": 16, "channels": 4}


def glimpse(**options):
    return Glimpse.prepare(GlimpseSettings(**{**SMALL, **options}))


@pytest.mark.parametrize("model", GLIMPSE_MODELS)
def test_the_loss_falls(model):
    torch.manual_seed(0)
    task = glimpse(model=model, clutter=1)
    network, batch, losses = task.model(), task.collate(task.examples("train")[:8]), []
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(15):
        total, n_items = task.loss(network, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert min(losses[-3:]) < 0.9 * losses[0]


def test_normalizers_of_the_models():
    assert isinstance(glimpse(model="soft").model().reader.attention.normalizer, Shannon)
    assert isinstance(glimpse(model="sparse").model().attention.normalizer, SquaredNorm)
    found = glimpse(model="grid-tv", strength=0.3).model().reader.attention.normalizer
    assert isinstance(found, GridTV) and found.strength == 0.3
    assert GlimpseSettings(model="soft", attention="fusedmax").variant == "soft-fusedmax"
    assert GlimpseSettings().variant == "retina"


@pytest.mark.parametrize(
    ("model", "slow"),
    [
        ("retina", {"location.0", "location.1"}),
        ("sparse", {"keys", "query.0", "query.1"}),
        ("draw", {"reader.draw.of_hidden"}),
        ("soft", set()),
    ],
)
def test_choices_of_places_learn_slowly(model, slow):
    task = glimpse(model=model)
    found = {name for name, _ in task.model().named_parameters() if task.rate_factor(name) < 1}
    assert {name.removesuffix(".weight").removesuffix(".bias") for name in found} == slow


@torch.no_grad()
def test_the_first_window_of_draw_is_the_whole_image():
    task = glimpse(model="draw")
    network, images = task.model(), task.collate(task.examples("dev")[:2]).images
    window = network.reader.draw.window(torch.zeros(2, 16), 32, 32)
    first, last = (window.x + sign * 3.5 * window.stride for sign in (-1, 1))  # of eight filters
    torch.testing.assert_close(torch.stack([first, last]), torch.tensor([[1.0, 1.0], [32.0, 32.0]]))
    inside = network.look(images).places.abs()
    assert (inside < 0.3).all()  # and later windows are near it


def test_settings_of_the_retina():
    model = glimpse(discount=0.4, deviation=0.1, samples=2, entropy_bonus=0.3).model()
    assert (model.discount, model.deviation, model.n_samples, model.entropy_bonus) == (0.4, 0.1, 2, 0.3)
    assert values_before(GlimpseSettings) == {"discount": 1.0, "deviation": 0.5}  # what older checkpoints mean
    for wrong in ({"discount": 1.1}, {"deviation": 0.01}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            GlimpseSettings(**wrong)


def test_scores_by_hand():
    task = glimpse()
    examples = task.examples("test")[:2]
    first, second = (each.scattered.label for each in examples)
    common = {"numbers": 10, "on_object": 0.5, "even": 0.25, "distance": 2.0}
    lines = [
        f"{first}\t{json.dumps({'answers': [first, first], 'loss': 1.0, **common})}",
        f"x\t{json.dumps({'answers': [second, (second + 1) % 10], 'loss': 3.0, **common, 'on_object': 0.3})}",
    ]
    scores = task.score(examples, lines)
    assert next(iter(scores)) == task.metric == "accuracy"
    assert (scores["accuracy"], scores["first_look_accuracy"], scores["loss"]) == (0.5, 1.0, 2.0)
    assert scores["on_object"] == pytest.approx(0.4) and scores["numbers_read"] == 10


@torch.no_grad()
@pytest.mark.parametrize("model", ["retina", "soft", "draw"])
def test_assessments_agree_with_the_looks(model):
    torch.manual_seed(0)
    task = glimpse(model=model)
    network, examples = task.model().eval(), task.examples("dev")[:3]
    looks, lines = network.look(task.collate(examples).images), task.assess(network, examples)
    assert [line.partition("\t")[0] for line in lines] == task.predict(network, examples)
    for item, (example, line) in enumerate(zip(examples, lines)):
        more = json.loads(line.partition("\t")[2])
        row, column = example.scattered.row, example.scattered.column
        shares = looks.shares[item]
        sharp = torch.nn.functional.interpolate(shares[None], (32, 32), mode="nearest")[0]
        sharp = sharp * shares[0].numel() / 32**2  # a cell's share, spread over its pixels
        by_hand = sharp[1:, row : row + 24, column : column + 24].sum((1, 2)).mean()
        assert more["on_object"] == pytest.approx(by_hand.item(), abs=1e-4)
        x, y = (((looks.places[item, -1] + 1) * 32 - 1) / 2).tolist()
        assert more["distance"] == pytest.approx(np.hypot(x - column - 11.5, y - row - 11.5), abs=1e-3)
        assert more["loss"] == pytest.approx(-looks.log_probs[item, -1, example.scattered.label].item(), abs=1e-5)
    (found, *_), shares = task.attend(network, examples), looks.shares[0]
    assert found.weights.shape == (3, len(found.columns)) and len(found.rows) == 3
    torch.testing.assert_close(found.weights.sum(-1), shares.sum((1, 2)))


@torch.no_grad()
@pytest.mark.parametrize("model", ["retina", "soft"])
def test_pictures(model):
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    task = glimpse(model=model)
    (figure,) = task.draw(task.model().eval(), task.read(["test 1"]))
    figure.draw_without_rendering()
    path = next(line for line in figure.axes[0].lines if line.get_gid() == "path")
    assert len(path.get_xdata()) == 3 and len(figure.axes) == 1 + 3


def test_wrong_settings_and_lines():
    with pytest.raises(ValueError, match="model must be one of retina, soft, sparse, grid-tv, draw"):
        GlimpseSettings(model="other")
    with pytest.raises(ValueError, match="attention must be left out with the model draw"):
        GlimpseSettings(model="draw", attention="sparsemax")
    with pytest.raises(ValueError, match="side must be at least 24"):
        glimpse(side=20).examples("train")
    for wrong in ("", "test", "other 3", "test -1", "image.png"):
        with pytest.raises(ValueError, match="expected the path of an image"):
            glimpse().read([wrong])
    with pytest.raises(ValueError, match="expected a folder with IDX files"):
        glimpse(data="no/such/folder")


def test_a_run_and_its_predictions(tmp_path):
    task = glimpse(clutter=2)
    settings = TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    named = found.task.read(["test 3\n"])
    assert named[0] == task.examples("test")[3]
    np.save(tmp_path / "a.npy", task.image(named[0]))
    np.save(tmp_path / "b.npy", np.zeros((48, 40), np.float32))
    files = found.task.read([f"{tmp_path / 'a.npy'}\n", str(tmp_path / "b.npy")])
    with torch.no_grad():
        assert found.task.predict(found.model, files[:1]) == found.task.predict(found.model, named)
        assert found.task.assess(found.model, files[1:])[0][0].isdigit()  # an image of another size, without a label
        with pytest.raises(ValueError, match="images of one batch must have one size"):
            found.task.predict(found.model, files)
