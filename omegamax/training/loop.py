"""The training loop of every recipe.

    train(task, settings, RunDirectory("runs/dates"))

Each epoch goes through the training data once, in batches of like length, and ends with an evaluation on the
development data. Whatever happens to the process, the run directory holds a complete checkpoint, from which the same
call with `existing="resume"` continues to the same result, to the bit.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.data.batches import epoch_batches, n_batches
from omegamax.errors import CheckpointError, DivergedError, need
from omegamax.training import checkpoints as checkpoint
from omegamax.training import random_state
from omegamax.training.checkpoints import Card
from omegamax.training.interruption import Interrupted, Interruption
from omegamax.training.loading import task_name
from omegamax.training.model_size import check_memory
from omegamax.training.optimization import Update, update
from omegamax.training.optimizer import optimizer_tensors
from omegamax.training.prediction import evaluate
from omegamax.training.processes import Crew, bare, joined, whole_state
from omegamax.training.progress import Progress, Silent, shown_on
from omegamax.training.resources import threads_for_training, using_threads
from omegamax.training.runs import RunDirectory, RunFiles
from omegamax.training.schedule import learning_rate
from omegamax.training.settings import TrainingSettings, plain
from omegamax.training.speed import Speed
from omegamax.training.start import EVALUATION, fresh, resumed
from omegamax.training.task import Task, data_digest
from omegamax.training.training_state import TrainingState


class Trained(NamedTuple):
    """How a run ended. The best model is read with `load(run.path)`."""

    outcome: str  # "finished", "stopped early" or "interrupted"
    epochs: int
    steps: int
    best_epoch: int  # 0 if none was evaluated
    metrics: Mapping[str, float | None]  # on the development data, after the best epoch
    seconds: float
    threads: int  # with which it computed


def train(
    task: Task,
    settings: TrainingSettings,
    run: RunDirectory,
    *,
    progress: Progress | None = None,
    crew: Crew | None = None,
) -> Trained:
    """Trains a task's model in a run directory, alone or as one of the processes that torchrun started."""
    need("safetensors.torch")
    if crew is None:
        with joined(settings.device) as crew:
            return train(task, settings, run, progress=progress, crew=crew)
    if crew.size == 1 and crew.device.type == "cpu":  # several may share what one cannot hold
        check_memory(task)
    if not crew.first:
        progress = Silent()
    elif progress is None:
        progress = shown_on()
    config: dict[str, Any] = {"task": task_name(type(task)), "metric": task.metric}
    config |= {"settings": checkpoint.normal(plain(task.settings)), "training": plain(settings)}
    opened: list[RunFiles] = []
    crew.alone(lambda: opened.append(run.open(config)))
    files = opened[0] if crew.first else None
    try:
        with using_threads(settings.threads), Interruption(insistent=crew.size == 1) as interruption:
            return _Training(task, settings, crew, files, progress, interruption, config).go()
    finally:
        progress.close()
        if files is not None:
            files.close()


class _Training:
    """A run in memory. `files` is None on every process but the first."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        crew: Crew,
        files: RunFiles | None,
        progress: Progress,
        interruption: Interruption,
        config: Mapping[str, Any],
    ) -> None:
        self.task, self.settings, self.crew, self.files = task, settings, crew, files
        self.progress, self.interruption, self.config = progress, interruption, config
        self.examples, self.dev = task.examples("train"), task.examples("dev")
        if not len(self.examples):
            raise ValueError(f"{config['task']}: the training split must have examples, got none; check the data")
        self.lengths = [task.length(example) for example in self.examples]
        self.n_batches = n_batches(len(self.lengths), settings.batch_size)
        self.data = data_digest(task, self.examples, self.dev)
        self.assets = checkpoint.normal(task.assets())
        self.state = TrainingState()
        self.saved: tuple[int, int] | None = None  # epoch and step of the last checkpoint
        self._prepare()

    def _prepare(self) -> None:
        """A fresh model, or the one of the latest checkpoint."""
        found = self.crew.alone(lambda: self.files.latest() if self.files else None)
        if found is None:
            self.model, self.optimizer = fresh(self.task, self.settings, self.crew)
        else:
            card, _ = checkpoint.read_card(found)
            if card.data != self.data or card.assets != self.assets:
                raise CheckpointError(f"{found} was trained on other data than there is now; bring that back to resume")
            self.model, self.optimizer, self.state = resumed(
                self.task, self.settings, self.crew, found, n_batches=self.n_batches
            )
            self.saved = (self.state.epoch, self.state.step)
            if self.state.finished(self.settings):
                self.progress.say(f"finished already, after {self.state.epoch} epochs")
            else:
                self.progress.say(f"resuming after step {self.state.step}, in epoch {self.state.epoch + 1}")
            if card.versions != checkpoint.versions():
                self.progress.say(f"the checkpoint was written by {card.versions}, which may round differently")
        self.model.train()
        self.predictor = self._predictor()
        n_lines = self.crew.alone(lambda: self.files.begin(self.state) if self.files else 0)
        if n_lines != self.state.n_lines:
            self.progress.say("metrics.jsonl has lost lines that were there when the checkpoint was written")
            self.state.n_lines = n_lines  # so that lines after the next checkpoint are known as such
        self._choose_threads()
        self.before, self.began = self.state.seconds, time.monotonic()
        self.window_speed, self.epoch_speed = Speed(), Speed()

    def _choose_threads(self) -> None:
        """Leaves `state.threads` as the number to compute with: forced, the one of the run so far, or by a trial."""
        state, everything = self.state, torch.get_num_threads()
        wanted = self.settings.threads == 0 and self.crew.size == 1 and self.crew.device.type == "cpu"
        if not wanted:
            state.threads = 0
        elif not 0 < state.threads <= everything and not state.finished(self.settings):
            state.threads, said = threads_for_training(
                self.task, bare(self.model), self.examples, self.lengths, self.settings.batch_size
            )
            if said:
                self.progress.say(said)
        self.threads = state.threads if 0 < state.threads <= everything else everything

    def _predictor(self) -> torch.nn.Module:
        """The model that is evaluated: a whole copy where each process trains a shard."""
        if not self._sharded():
            return bare(self.model)
        with random_state.apart(0):
            return self.task.model().to(self.crew.device)

    def go(self) -> Trained:
        """From where the state stands to the end."""
        with using_threads(self.threads):
            return self._go()

    def _go(self) -> Trained:
        n_steps = self.settings.epochs * self.n_batches
        self.progress.start(step=self.state.step, n_steps=n_steps, epochs=self.settings.epochs)
        outcome = "finished"
        while not self.state.finished(self.settings):
            try:
                self._epoch(n_steps)
            except Interrupted:
                outcome = "interrupted"
                break
        self._save()
        state = self.state
        if outcome == "finished" and state.stopped_early(self.settings):
            outcome = "stopped early"
            self.progress.say(f"stopped after {state.n_stale} epochs without a better {self.task.metric}")
        if outcome == "interrupted":
            self.progress.say(f"interrupted and saved after step {state.step}; continue with --resume")
        return Trained(
            outcome, state.epoch, state.step, state.best_epoch, dict(state.best_metrics), state.seconds, self.threads
        )

    def _epoch(self, n_steps: int) -> None:
        state, settings = self.state, self.settings
        order = epoch_batches(self.lengths, batch_size=settings.batch_size, seed=settings.seed, epoch=state.epoch)
        for batch in order[state.position :]:
            rate = learning_rate(settings, step=state.step, n_steps=n_steps, plateau=state.plateau)
            done = self._step(batch, rate)
            state.count(done.loss, done.n_items)
            for speed in (self.window_speed, self.epoch_speed):
                speed.count(done.n_items)
            self.progress.step(epoch=state.epoch + 1, loss=done.loss / max(done.n_items, 1))
            if state.step % settings.log_every == 0:
                self._log_steps(done, rate)
            if done.stop:
                raise Interrupted
            if state.step % settings.save_every == 0 and state.position < self.n_batches:
                self._save()
        self._finish_epoch()

    def _step(self, batch: list[int], rate: float) -> Update:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        stop = self.interruption.requested
        try:
            return update(
                self.task,
                self.model,
                self.optimizer,
                self.examples,
                batch,
                settings=self.settings,
                crew=self.crew,
                stop=stop,
            )
        except DivergedError as error:
            raise DivergedError(
                f"{error} in step {self.state.step + 1} (epoch {self.state.epoch + 1}), so training stops and writes "
                "nothing more; try a smaller --learning-rate, a --warmup, or a smaller --clip"
            ) from error

    def _finish_epoch(self) -> None:
        """Evaluates, logs, and saves; nothing of it has happened until the checkpoint is written."""
        state = self.state
        loss = state.epoch_loss / max(state.epoch_items, 1)
        rate = self.epoch_speed.rate()  # of training alone
        metrics = self._evaluate()
        watched = metrics[self.task.metric] if len(self.dev) else -loss
        shown = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        better = state.finish_epoch(watched, shown, self.settings.plateau)
        record = {"event": "epoch", "epoch": state.epoch, "step": state.step, "loss": loss, "metrics": shown}
        record |= {"best": better, "seconds": self._seconds(), "items_per_second": rate, "threads": self.threads}
        self.epoch_speed.restart()
        self.window_speed.restart()
        self._log(record)
        self.progress.epoch(record)
        self._save()

    def _evaluate(self) -> dict[str, float]:
        if not len(self.dev):
            return {}
        if self._sharded():
            self.predictor.load_state_dict(whole_state(self.model))

        size, tick = self.settings.batch_size, self.progress.evaluated
        # One process stops at once. Several would have to agree; they do after the next step.
        prompt = self.interruption.prompt() if self.crew.size == 1 else contextlib.nullcontext()
        with random_state.apart(self.settings.seed, EVALUATION, self.state.epoch, self.crew.rank), prompt:
            metrics = evaluate(self.task, self.predictor, self.dev, batch_size=size, crew=self.crew, tick=tick)
        if self.task.metric not in metrics:
            who = type(self.task).__name__
            raise ValueError(
                f"{who}.score must return {self.task.metric!r}, which is its metric, got {sorted(metrics)}"
            )
        return metrics

    def _log_steps(self, done: Update, rate: float) -> None:
        state = self.state
        loss = state.window_loss / max(state.window_items, 1)
        state.window_loss, state.window_items = 0.0, 0
        record = {"event": "step", "epoch": state.epoch + 1, "step": state.step, "loss": loss, "learning_rate": rate}
        record |= {"gradient_norm": done.gradient_norm, "seconds": self._seconds()}
        self._log(record | {"items_per_second": self.window_speed.rate(), "threads": self.threads})
        self.window_speed.restart()

    def _seconds(self) -> float:
        self.state.seconds = self.before + time.monotonic() - self.began
        return round(self.state.seconds, 3)

    def _log(self, record: dict[str, Any]) -> None:
        self.state.n_lines += 1
        self.crew.alone(lambda: self.files.log(record) if self.files else None)

    def _save(self) -> None:
        state = self.state
        if self.saved == (state.epoch, state.step):
            return
        state.seconds = self.before + time.monotonic() - self.began
        model = whole_state(self.model)
        training = optimizer_tensors(bare(self.model), self.optimizer)
        for rank, generators in enumerate(self.crew.gather(random_state.capture())):
            training |= {f"random.{rank}.{name}": tensor for name, tensor in generators.items()}
        self.crew.alone(lambda: self._write(model, training))
        self.saved = (state.epoch, state.step)

    def _write(self, model: Mapping[str, Tensor], training: Mapping[str, Tensor]) -> None:
        assert self.files is not None
        card = Card(
            run=self.files.run,
            task=self.config["task"],
            settings=self.config["settings"],
            training=self.config["training"],
            assets=self.assets,
            data=self.data,
            state=plain(self.state),
            n_processes=self.crew.size,
        )
        self.files.save(self.state, card, model, training)

    def _sharded(self) -> bool:
        return self.crew.size > 1 and self.settings.sharding == "fsdp"
