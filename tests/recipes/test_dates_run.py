"""The dates through the training loop: a run directory, a checkpoint, and the same predictions from it."""

import pytest
import torch

pytest.importorskip("babel")
pytest.importorskip("sacrebleu")
pytest.importorskip("safetensors")

from omegamax.recipes import load
from omegamax.recipes.dates import Dates
from omegamax.recipes.seq2seq import SequenceToSequence
from omegamax.recipes.settings import DatesSettings, Seq2SeqSettings
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {"embedding_size": 8, "hidden_size": 16}


def run(task, path, **options):
    settings = TrainingSettings(**{"epochs": 1, "batch_size": 50, "threads": 1, "device": "cpu", **options})
    return train(task, settings, RunDirectory(path), progress=Silent())


@pytest.mark.parametrize("attention", ["fusedmax", "hard", "none"])
@pytest.mark.thinned(3)
def test_a_run_can_be_loaded_and_asked(tmp_path, attention):
    task = Dates.prepare(DatesSettings(attention=attention, examples=100, locales="fr,ja", max_length=12, **SMALL))
    trained = run(task, tmp_path / "run")
    assert trained.outcome == "finished" and trained.steps == 2
    assert {"exact_match", "bleu", "edit_distance", "edit_rate"} <= set(trained.metrics)
    loaded = load(tmp_path / "run")
    assert loaded.task.assets() == task.assets() and loaded.task.settings == task.settings
    examples = loaded.task.read(["fr\tvendredi 3 mars 2017", "ja\t2017年3月3日"])
    with torch.no_grad():
        assert len(loaded.task.predict(loaded.model, examples)) == 2
        maps = loaded.task.attend(loaded.model, examples)
    assert len(maps) == (0 if attention == "none" else 2)


def test_bfloat16(tmp_path):
    task = Dates.prepare(DatesSettings(attention="sparsemax", examples=100, locales="fr", max_length=12, **SMALL))
    assert run(task, tmp_path / "run", precision="bfloat16").outcome == "finished"


def test_words_of_a_table(tmp_path):
    (tmp_path / "t.tsv").write_text("".join(f"one {n} two\tthree {n}\n" for n in range(80)))
    task = SequenceToSequence.prepare(Seq2SeqSettings(data=str(tmp_path / "t.tsv"), max_length=9, beam=3, **SMALL))
    assert run(task, tmp_path / "run").outcome == "finished"
    loaded = load(tmp_path / "run")
    with torch.no_grad():
        assert len(loaded.task.predict(loaded.model, loaded.task.examples("test"))) == len(task.examples("test"))


def test_generated_dates_that_are_too_long_are_left_out():
    short = Dates.prepare(DatesSettings(examples=200, max_length=12)).examples("train")
    assert 0 < len(short) < 200 and max(len(pair.source) for pair in short) <= 12
    with pytest.raises(ValueError, match="the generated data: no training example has at most 3 tokens"):
        Dates.prepare(DatesSettings(examples=200, max_length=3))
