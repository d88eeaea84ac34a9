"""Progress is shown as bars on a terminal, as lines elsewhere, or not at all; and as curves where TensorBoard is."""

import io
import re
import sys

import pytest
from toy_task import Sums, SumsSettings

from omegamax.extras import import_for_training
from omegamax.training import progress
from omegamax.training.loop import train
from omegamax.training.metrics_log import TensorBoardCurves
from omegamax.training.progress import Bars, Lines, Silent, duration, progress_on
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

TASK = Sums.prepare(SumsSettings(n_examples=20))
SETTINGS = TrainingSettings(epochs=2, batch_size=10, log_every=1)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_bars_and_a_file_gets_lines():
    assert isinstance(progress_on(Terminal()), Bars)
    assert isinstance(progress_on(io.StringIO()), Lines)


def test_lines_tell_each_epoch_and_some_steps(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run"), progress=Lines(stream, every=20))
    assert max(map(len, stream.getvalue().splitlines())) <= 80
    lines = stream.getvalue().replace("\n  ", " ").splitlines()  # a long remark takes two lines
    epochs = [line for line in lines if line.startswith("epoch")]
    assert re.fullmatch(r"epoch 1/2: loss [\d.]+, accuracy [\d.]+, exact [\d.]+ \(best\), .* s, .* left", epochs[0])
    assert re.fullmatch(r"epoch 2/2: loss [\d.]+, accuracy [\d.]+, exact [\d.]+( \(best\))?, .* s", epochs[1])
    assert any(re.fullmatch(r"step \d/4, epoch \d/2: loss [\d.]+(, .* left)?", line) for line in lines)


def test_bars_show_time_left_loss_and_metrics(tmp_path):
    stream = Terminal()
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run"), progress=Bars(stream))
    shown = stream.getvalue()
    assert "epoch 1/2: loss" in shown
    assert "evaluating" in shown
    assert "4/4" in shown or "3/4" in shown or "0/4" in shown


def test_a_resumed_bar_begins_where_the_run_stands():
    stream = Terminal()
    bars = Bars(stream)
    bars.start(step=30, n_steps=40, epochs=4)
    bars.step(epoch=4, loss=0.5)
    bars._bar.refresh()
    bars.close()
    assert re.search(r"epoch 4/4:\s+78%.*31/40.*loss=0\.5", stream.getvalue())


def test_remarks_reach_whoever_listens():
    for kind, stream in ((Lines, io.StringIO()), (Bars, Terminal())):
        kind(stream).message("a remark")
        assert "a remark\n" in stream.getvalue()


def test_silence(tmp_path, capfd):
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run"), progress=Silent())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (7200, "2 h 0 min")]
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("package", ["safetensors.torch", "tqdm"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf'training needs {package.partition(".")[0]}; .* "omegamax\[nlp\]".* "\.\[nlp\]"'
    ):
        import_for_training(package)
    act = Bars if package == "tqdm" else lambda _: train(TASK, SETTINGS, RunDirectory(tmp_path / "run"))
    with pytest.raises(ImportError, match="pip install"):
        act(Terminal())
    assert not (tmp_path / "run").exists()


def test_without_tensorboard_there_are_no_curves(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    curves = TensorBoardCurves(tmp_path / "tensorboard", step=0)
    curves.write({"event": "step", "step": 1, "loss": 2.0})
    curves.close()
    assert not (tmp_path / "tensorboard").exists()


class Writer:
    """Stands for TensorBoard's."""

    def __init__(self, directory, purge_step):
        self.purge_step, self.scalars, self.closed = purge_step, [], False
        Writer.last = self

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def close(self):
        self.closed = True


def test_with_tensorboard_every_number_is_a_curve(tmp_path, monkeypatch):
    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run"), progress=Silent())
    assert Writer.last.closed
    assert Writer.last.purge_step is None
    steps = {
        name: [step for other, _, step in Writer.last.scalars if other == name] for name, _, _ in Writer.last.scalars
    }
    assert steps["train/loss"] == steps["train/learning_rate"] == [1, 2, 3, 4]
    assert steps["dev/accuracy"] == steps["epoch/loss"] == [2, 4]
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run", existing="resume"), progress=Silent())
    assert Writer.last.purge_step == 5
    (tmp_path / "run" / "tensorboard").mkdir()  # Writer made none
    (tmp_path / "run" / "tensorboard" / "events").write_text("of the run before")
    train(TASK, SETTINGS, RunDirectory(tmp_path / "run", existing="overwrite"), progress=Silent())
    assert not (tmp_path / "run" / "tensorboard").exists()
