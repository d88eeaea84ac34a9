"""Spoken strings: losses that fall, padding that changes nothing, alignments, error rates, files, a whole run."""

import wave

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")

from omegamax.recipes import load
from omegamax.recipes.settings import SPEECH_MODELS, SpeechSettings
from omegamax.recipes.speech import Speech, Utterance
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {
    "strings": 20,
    "hidden_size": 12,
    "n_layers": 1,
    "recordings": 8,
    "max_words": 2,
    "test_words": 2,
    "max_length": 8,
}
VARIANTS = [
    *({"model": model} for model in SPEECH_MODELS),
    {"model": "ctc", "attention": "sparsemax"},
    {"model": "location", "attention": "entmax15"},
    {"model": "monotonic", "attention": "sparsemax"},
    {"model": "location", "decoder": "lstm", "location_width": 5, "window": 0},
]


def speech(**options):
    return Speech.prepare(SpeechSettings(**{**SMALL, "dropout": 0.0, **options}))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = speech(**options)
    model, examples, losses = task.model(), task.examples("train")[:6], []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(8):
        total, n_items = task.loss(model, task.collate(examples))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert losses[-1] < 0.85 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS[:5], ids=str)
def test_a_string_does_not_depend_on_its_batch(options):
    torch.manual_seed(0)
    task = speech(**options)
    model, examples = task.model().eval(), task.examples("train")[:5]
    alone = [task.loss(model, task.collate([example])) for example in examples]
    together = task.loss(model, task.collate(examples))
    torch.testing.assert_close(together.total, sum(each.total for each in alone), rtol=1e-4, atol=1e-4)
    assert together.n_items == sum(each.n_items for each in alone)
    assert task.predict(model, examples) == [task.predict(model, [example])[0] for example in examples]


@torch.no_grad()
@pytest.mark.parametrize("options", [*VARIANTS[:2], VARIANTS[5]], ids=str)
def test_alignments_have_a_row_for_each_word(options):
    torch.manual_seed(1)
    task = speech(**options)
    examples = task.examples("dev")[:2]
    model = task.model().eval()
    for example, found, line in zip(examples, task.attend(model, examples), task.predict(model, examples)):
        frames = 1 + max(0, task.length(example) - 200) // 80
        assert len(found.columns) == -(-frames // 3) == found.weights.shape[1]
        assert len(found.rows) == found.weights.shape[0]
        if options["model"] == "ctc":
            assert list(found.rows) == (line.split() or ["nothing"])
            assert (found.weights.sum(0) <= 1 + 1e-5).all() and (found.weights >= 0).all()
        else:
            torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.rows)))


@torch.no_grad()
def test_the_window_begins_as_wide_as_a_word_and_moves_by_one():
    window = speech(model="gaussian", hidden_size=12)._attention(24)
    torch.nn.init.zeros_(window.of_query.weight)
    looks = window.window(torch.zeros(3, 12), 60)
    torch.testing.assert_close(looks.locations[:, 0], torch.tensor([1.0, 2.0, 3.0]) * 50 / 3)
    frames = torch.arange(1, 61)
    middle, weights = looks.locations[1, 0], looks.scores[1].softmax(-1)
    deviation = (weights * (frames - middle).square()).sum().sqrt()
    torch.testing.assert_close(deviation, torch.tensor(50 / 3 / 4), rtol=1e-3, atol=0)


@torch.no_grad()
def test_nothing_outside_of_the_window_is_read():
    torch.manual_seed(0)
    task = speech(model="location", window=6, location_width=5)
    model, batch = task.model().eval(), task.collate(task.examples("dev")[:4])
    model.attention.score.out.weight.mul_(30)  # far from even weights
    decoder, middles = model._begin(batch), [0] * 4
    for word in (0, 1, 2, 1):
        weights = decoder.step(torch.full((4,), word))[1]
        for row, middle, length in zip(weights, middles, decoder.frames.lengths.tolist()):
            read = row.nonzero().flatten()
            assert middle - 2 <= read.min() and read.max() <= middle + 6 and read.max() < length
            assert row.sum() == pytest.approx(1, abs=1e-5)
        middles = [int((row.cumsum(-1) < 0.5).sum()) for row in weights]


@torch.no_grad()
def test_a_decoder_of_the_last_word_forgets_what_it_wrote_before():
    torch.manual_seed(0)
    task = speech(model="location")
    model, batch = task.model().eval(), task.collate(task.examples("dev")[:3])
    one, other = model._begin(batch), model._begin(batch)
    for decoder, words in ((one, (0, 1)), (other, (2, 1, 0))):
        for word in words:
            decoder.step(torch.full((3,), word))
    other.read, other.place = one.read, one.place  # where attention is, and what was read there
    last = torch.full((3,), 3)
    torch.testing.assert_close(one.step(last)[0], other.step(last)[0], rtol=0, atol=0)


def test_splits_share_no_recording():
    task = speech()
    used = {split: {part for each in task.examples(split) for part in each.parts} for split in ("train", "dev", "test")}
    assert not used["train"] & used["dev"] and not used["train"] & used["test"] and not used["dev"] & used["test"]
    recordings = task._all()
    assert all(recordings[part].number < 5 for part in used["test"])
    for example in task.examples("test"):
        assert example.target.split() == [recordings[part].label for part in example.parts]
        assert len({recordings[part].speaker for part in example.parts}) == 1 and len(example.parts) == 2
        assert task.length(example) == len(task._sound(example))


def test_error_rates_by_hand():
    task = speech()
    examples = [Utterance((), (), target) for target in ("1 2 3", "4 5", "6")]
    scores = task.score(examples, ["1 3", "4 5", "7 6 8"])  # one deletion, none, two insertions
    assert scores["word_error"] == pytest.approx(100 * 3 / 6) and scores["accuracy"] == pytest.approx(0.5)
    assert scores["sentence_accuracy"] == pytest.approx(1 / 3)


def test_wrong_settings():
    with pytest.raises(ValueError, match="model must be one of ctc, content"):
        SpeechSettings(model="other")
    with pytest.raises(ValueError, match=r"location_width must be odd, .* got 4"):
        SpeechSettings(location_width=4)
    with pytest.raises(ValueError, match=r"speech: attention fusedmax is not for the model ctc: .*order of its row"):
        speech(model="ctc", attention="fusedmax")


def test_a_run_and_its_predictions(tmp_path):
    task = speech(dropout=0.1)
    settings = TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    with wave.open(str(tmp_path / "a.wav"), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes((3e4 * np.sin(np.arange(4000))).astype("<i2").tobytes())
    examples = found.task.read([f"{tmp_path / 'a.wav'}\n"])
    with torch.no_grad():
        (line,) = found.task.predict(found.model, examples)
    assert set(line.split()) <= set(found.task.labels)
    (tmp_path / "b.wav").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"b\.wav: expected an uncompressed WAV file"):
        found.task.read([str(tmp_path / "b.wav")])
