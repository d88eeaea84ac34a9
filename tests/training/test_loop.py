"""The loop: it learns, evaluates, stops early, and comes to the same end however often it is interrupted."""

import itertools
import json
import math
import os
import signal

import pytest
import torch
from run_contents import Crash, CrashAfter, contents, metrics
from toy_task import Sums, SumsSettings

from omegamax.errors import CheckpointError, DivergedError
from omegamax.recipes import load
from omegamax.training import random_state
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate, predict
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory, list_checkpoints
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import Loss

QUICK = TrainingSettings(epochs=3, batch_size=10, save_every=4, log_every=5, learning_rate=0.01)  # 6 batches an epoch
TASK = Sums.prepare(SumsSettings())


def run(path, settings=QUICK, existing="refuse", task=TASK, progress=None):
    return train(task, settings, RunDirectory(path, existing=existing), progress=progress or Silent())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    run(path)
    return path


def test_it_learns(tmp_path):
    task = Sums.prepare(SumsSettings(n_examples=200, noise=0.0))
    settings = TrainingSettings(epochs=14, batch_size=16, learning_rate=0.03, save_every=1000)
    trained = run(tmp_path / "run", settings, task=task)
    assert trained.outcome == "finished"
    assert (trained.epochs, trained.steps) == (14, 14 * 13)
    assert trained.metrics["accuracy"] > 0.95
    loaded = load(tmp_path / "run", task=Sums)
    assert loaded.card.state["best_epoch"] == trained.best_epoch
    assert evaluate(loaded.task, loaded.model, task.examples("dev")) == trained.metrics
    assert predict(loaded.task, loaded.model, task.read(["ab", "", "edcba"])[::2]) == ["0 1", "4 2 0 3 1"]


@pytest.mark.parametrize("after", [1, 3, 4, 5, 6, 7, 10, 12, 17])
@pytest.mark.thinned(8)
def test_a_crash_and_a_resumption_change_nothing(whole, tmp_path, after):
    path = tmp_path / "run"
    with pytest.raises(Crash):
        run(path, progress=CrashAfter(after))
    random_state.seed_all(after)  # whatever another process did before
    run(path, existing="resume")
    assert contents(path) == contents(whole)


def test_many_crashes_change_nothing(whole, tmp_path):
    path = tmp_path / "run"
    for after in itertools.chain([2, 5, 1, 6], itertools.repeat(7)):
        try:
            run(path, existing="resume", progress=CrashAfter(after))
            break
        except Crash:
            pass
    assert contents(path) == contents(whole)


class CrashWhileEvaluating(Silent):
    def evaluated(self, n_done, n_all):
        raise Crash


class SignalAfter(Silent):
    """Sends the signal of Ctrl-C after some steps."""

    def __init__(self, after, number=signal.SIGINT):
        self.after, self.number, self.said = after, number, []

    def step(self, *, epoch, loss):
        self.after -= 1
        if self.after == 0:
            os.kill(os.getpid(), self.number)

    def message(self, text):
        self.said.append(text)


class SignalWhileEvaluating(SignalAfter):
    def evaluated(self, n_done, n_all):
        os.kill(os.getpid(), self.number)


def test_a_crash_in_an_evaluation_changes_nothing(whole, tmp_path):
    with pytest.raises(Crash):
        run(tmp_path / "run", progress=CrashWhileEvaluating())
    run(tmp_path / "run", existing="resume")
    assert contents(tmp_path / "run") == contents(whole)


@pytest.mark.parametrize(
    "press",
    [SignalAfter(1), SignalAfter(3), SignalAfter(5), SignalAfter(8, signal.SIGTERM), SignalWhileEvaluating(0)],
    ids=["first", "middle", "last", "second", "evaluation"],
)
@pytest.mark.thinned(2)
def test_an_interruption_saves_and_says_how_to_go_on(whole, tmp_path, press):
    before = signal.getsignal(signal.SIGINT)
    trained = run(tmp_path / "run", progress=press)
    assert signal.getsignal(signal.SIGINT) is before
    assert trained.outcome == "interrupted"
    assert f"saved after step {trained.steps}; continue with --resume" in press.said[-1]
    (latest,) = list_checkpoints(tmp_path / "run")[-1:]
    assert latest.name.endswith(f"{trained.steps:09d}")
    run(tmp_path / "run", existing="resume")
    assert contents(tmp_path / "run") == contents(whole)


def test_a_second_interrupt_stops_at_once(tmp_path):
    class Impatient(Silent):
        def step(self, *, epoch, loss):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", progress=Impatient())


def test_resuming_a_finished_run_does_nothing(whole):
    before = contents(whole)
    names = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name != "lock"}
    trained = run(whole, existing="resume")
    assert trained.outcome == "finished"
    assert contents(whole) == before
    assert {path: path.stat().st_mtime_ns for path in names} == names


def test_resuming_nothing_begins(whole, tmp_path):
    run(tmp_path / "run", existing="resume")
    assert contents(tmp_path / "run") == contents(whole)


def test_more_epochs_continue_a_constant_schedule(tmp_path):
    short = TrainingSettings(epochs=2, batch_size=10, schedule="constant")
    long = TrainingSettings(epochs=4, batch_size=10, schedule="constant")
    run(tmp_path / "one", long)
    run(tmp_path / "two", short)
    run(tmp_path / "two", long, existing="resume")
    first, second = contents(tmp_path / "one"), contents(tmp_path / "two")
    for name in first.keys() & second.keys() - {"metrics", "files"}:
        second[name]["card"]["training"]["epochs"] = 4  # the best checkpoint is from before
    assert second == first


def test_metrics_tell_of_steps_and_epochs(whole):
    lines = metrics(whole)
    assert [(line["event"], line["step"]) for line in lines] == [
        ("step", 5),
        ("epoch", 6),
        ("step", 10),
        ("epoch", 12),
        ("step", 15),
        ("epoch", 18),
    ]
    assert lines[0].keys() == {"event", "epoch", "step", "loss", "learning_rate", "gradient_norm"}
    assert lines[1].keys() == {"event", "epoch", "step", "loss", "metrics", "best"}
    assert lines[1]["best"]


def test_the_loss_of_an_epoch_is_the_mean_over_its_steps(tmp_path):
    run(tmp_path / "run", TrainingSettings(epochs=3, batch_size=10, log_every=6))  # a line of steps for each epoch
    lines = metrics(tmp_path / "run")
    assert [line["loss"] for line in lines[::2]] == [line["loss"] for line in lines[1::2]]


def test_two_runs_with_one_seed_are_the_same_and_with_two_are_not(whole, tmp_path):
    run(tmp_path / "same")
    assert contents(tmp_path / "same") == contents(whole)
    run(tmp_path / "other", TrainingSettings(**{**vars(QUICK), "seed": 1}))
    assert metrics(tmp_path / "other") != metrics(whole)


class Scripted(Sums):
    """A task whose metric is given for every epoch beforehand."""

    script: tuple[float, ...] = ()

    def score(self, examples, predictions):
        self.n_evaluations = getattr(self, "n_evaluations", 0) + 1
        return {"accuracy": self.script[self.n_evaluations - 1]}


def scripted(path, *script, **settings):
    task = Scripted.prepare(SumsSettings(n_examples=12))
    task.script = script
    chosen = TrainingSettings(**{"epochs": len(script), "batch_size": 6, **settings})
    return train(task, chosen, RunDirectory(path), progress=Silent())


def test_early_stopping_keeps_the_best(tmp_path):
    trained = scripted(tmp_path / "run", 0.1, 0.5, 0.5, 0.4, 0.9, patience=2)
    assert (trained.outcome, trained.epochs, trained.best_epoch) == ("stopped early", 4, 2)
    assert [path.name[:11] for path in list_checkpoints(tmp_path / "run")] == ["epoch-00002", "epoch-00004"]
    assert load(tmp_path / "run", task=Sums).card.state["epoch"] == 2
    assert load(tmp_path / "run", task=Sums, which="latest").card.state["epoch"] == 4


def test_more_patience_continues_what_stopped_early(tmp_path):
    scripted(tmp_path / "run", 0.5, 0.4, 0.4, 0.9, patience=2)
    task = Scripted.prepare(SumsSettings(n_examples=12))
    task.script = (0.9,)
    settings = TrainingSettings(epochs=4, batch_size=6, patience=3)
    trained = train(task, settings, RunDirectory(tmp_path / "run", existing="resume"), progress=Silent())
    assert (trained.outcome, trained.epochs, trained.best_epoch) == ("finished", 4, 4)


def test_a_metric_that_is_no_number_is_never_better(tmp_path):
    trained = scripted(tmp_path / "run", math.nan, 0.2, math.nan)
    assert trained.best_epoch == 2
    assert [line["metrics"]["accuracy"] for line in metrics(tmp_path / "run")] == [None, 0.2, None]


def test_plateau_halves_the_rate(tmp_path):
    scripted(tmp_path / "run", 0.5, 0.4, 0.4, 0.4, 0.4, schedule="plateau", plateau=2, learning_rate=0.1, log_every=1)
    rates = {line["epoch"]: line["learning_rate"] for line in metrics(tmp_path / "run") if line["event"] == "step"}
    assert rates == {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.05, 5: 0.05}


class Diverging(Sums):
    n_calls = 0

    def loss(self, model, batch):
        self.n_calls += 1
        loss = super().loss(model, batch)
        return Loss(loss.total * (math.nan if self.n_calls == 8 else 1), loss.n_items)


def test_a_loss_that_is_no_number_stops_and_leaves_the_checkpoints(tmp_path):
    task = Diverging.prepare(SumsSettings())
    with pytest.raises(DivergedError, match=r"the loss is nan in step 8 \(epoch 2\).*--learning-rate"):
        train(task, QUICK, RunDirectory(tmp_path / "run"), progress=Silent())
    assert [path.name for path in list_checkpoints(tmp_path / "run")] == ["epoch-00001-step-000000006"]
    loaded = load(tmp_path / "run", task=Sums)
    assert all(parameter.isfinite().all() for parameter in loaded.model.parameters())


def test_without_development_data_the_loss_is_watched(tmp_path):
    class Blind(Sums):
        def examples(self, split):
            return super().examples(split) if split == "train" else []

    trained = train(Blind.prepare(SumsSettings()), QUICK, RunDirectory(tmp_path / "run"), progress=Silent())
    losses = {line["epoch"]: line["loss"] for line in metrics(tmp_path / "run") if line["event"] == "epoch"}
    assert trained.best_epoch == min(losses, key=losses.get)


def test_without_training_data_it_refuses(tmp_path):
    class Empty(Sums):
        def examples(self, split):
            return []

    with pytest.raises(ValueError, match="training split must have examples"):
        train(Empty.prepare(SumsSettings()), QUICK, RunDirectory(tmp_path / "run"), progress=Silent())


def test_a_score_without_the_metric_is_refused(tmp_path):
    class Forgetful(Sums):
        def score(self, examples, predictions):
            return {"exact": 0.0}

    with pytest.raises(ValueError, match="must return 'accuracy'"):
        train(Forgetful.prepare(SumsSettings()), QUICK, RunDirectory(tmp_path / "run"), progress=Silent())


def test_other_data_is_not_resumed(tmp_path):
    class Grown(Sums):
        def examples(self, split):
            return super().examples(split) + self.read(["abc"])

    run(tmp_path / "run", TrainingSettings(epochs=1, batch_size=10, schedule="constant"))
    later = TrainingSettings(epochs=2, batch_size=10, schedule="constant")
    Grown.__module__, Grown.__qualname__ = Sums.__module__, Sums.__qualname__
    with pytest.raises(CheckpointError, match="other data"):
        run(tmp_path / "run", later, existing="resume", task=Grown.prepare(SumsSettings()))


def test_no_epochs_leave_an_untrained_model(tmp_path):
    trained = run(tmp_path / "run", TrainingSettings(epochs=0))
    assert (trained.steps, trained.best_epoch) == (0, 0)
    random_state.seed_all(0, 0)
    expected = TASK.model().state_dict()
    found = load(tmp_path / "run", task=Sums).model.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_evaluation_leaves_the_model_training_and_the_random_numbers_alone(tmp_path):
    model = TASK.model().train()
    before = random_state.capture()
    with random_state.isolated(3):
        predict(TASK, model, TASK.examples("dev"))
    assert model.training
    assert all(torch.equal(state, before[name]) for name, state in random_state.capture().items())


def test_predictions_do_not_depend_on_the_batch(tmp_path):
    model = TASK.model()
    examples = TASK.examples("train")
    one = predict(TASK, model, examples, batch_size=1)
    assert predict(TASK, model, examples, batch_size=64) == one
    assert predict(TASK, model, []) == []


def test_a_prediction_too_few_is_noticed():
    class Lazy(Sums):
        def predict(self, model, examples):
            return super().predict(model, examples)[1:]

    with pytest.raises(ValueError, match="a line for each of"):
        predict(Lazy.prepare(SumsSettings()), TASK.model(), TASK.examples("dev"))


def test_config_tells_the_settings(whole):
    config = json.loads((whole / "config.json").read_text())
    assert config["task"] == "toy_task:Sums"
    assert config["settings"] == vars(SumsSettings())
    assert config["training"] == vars(QUICK)
    assert config["versions"]["torch"] == torch.__version__
