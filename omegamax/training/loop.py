"""The training loop of every recipe.

    train(task, settings, RunDirectory("runs/dates"))

Each epoch uses every training example once, in batches of like length, and ends with an evaluation on the development
data. Whatever happens to the process, the run directory holds a complete checkpoint, from which the same
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
from omegamax.errors import CheckpointError, DivergedError
from omegamax.extras import import_for_training
from omegamax.training import checkpoints, random_state
from omegamax.training.checkpoints import Card
from omegamax.training.optimization import StepResult, learning_rate, optimizer_tensors, set_rate, take_step
from omegamax.training.prediction import evaluate
from omegamax.training.processes import (
    Interrupted,
    Processes,
    StopSignals,
    full_state_dict,
    join_processes,
    unwrap_model,
)
from omegamax.training.progress import Progress, Silent, Speed, progress_on
from omegamax.training.resources import check_memory, threads_for_training, using_threads
from omegamax.training.runs import RunDirectory, RunFiles
from omegamax.training.settings import TrainingSettings, to_dict, values_before
from omegamax.training.task import Task, data_digest, task_name
from omegamax.training.training_state import EVALUATION, TrainingState, resume_training, start_training


class TrainingResult(NamedTuple):
    """How a run ended. `omegamax.recipes.load(run.path)` reads its best model."""

    outcome: str  # "finished", "stopped early" or "interrupted"
    epochs: int
    steps: int
    best_epoch: int  # 0 if none was evaluated
    metrics: Mapping[str, float | None]  # on the development data, after the best epoch
    seconds: float
    threads: int  # with which it was computed


def train(
    task: Task,
    settings: TrainingSettings,
    run: RunDirectory,
    *,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> TrainingResult:
    """Trains a task's model in a run directory, in one process or in all processes that torchrun started."""
    import_for_training("safetensors.torch")
    if processes is None:
        with join_processes(settings.device) as processes:
            return train(task, settings, run, progress=progress, processes=processes)
    if processes.size == 1 and processes.device.type == "cpu":  # several may share what one cannot hold
        check_memory(task)
    if not processes.is_rank_zero:
        progress = Silent()
    elif progress is None:
        progress = progress_on()
    config: dict[str, Any] = {"task": task_name(type(task)), "metric": task.metric}
    config |= {"settings": checkpoints.as_json(to_dict(task.settings)), "training": to_dict(settings)}
    opened: list[RunFiles] = []
    added = {"settings": values_before(type(task.settings)), "training": values_before(TrainingSettings)}
    processes.on_rank_zero(lambda: opened.append(run.open(config, added=added)))
    files = opened[0] if processes.is_rank_zero else None
    try:
        with using_threads(settings.threads), StopSignals(repeat_stops_at_once=processes.size == 1) as signals:
            training = _Training(task, settings, processes, files, progress, signals, config)
            with using_threads(training.threads):
                return training.run()
    finally:
        progress.close()
        if files is not None:
            files.close()


class _Training:
    """A run in memory. `files` is None on every process but rank 0."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        processes: Processes,
        files: RunFiles | None,
        progress: Progress,
        signals: StopSignals,
        config: Mapping[str, Any],
    ) -> None:
        self.task, self.settings, self.processes, self.files = task, settings, processes, files
        self.progress, self.signals, self.config = progress, signals, config
        self.examples, self.dev = task.examples("train"), task.examples("dev")
        if not len(self.examples):
            raise ValueError(f"{config['task']}: the training split must have examples, got none; check the data")
        self.lengths = task.batch_lengths(self.examples)
        self.n_batches = n_batches(len(self.lengths), settings.batch_size)
        self.data = data_digest(task, self.examples, self.dev)
        self.assets = checkpoints.as_json(task.assets())
        self.state = TrainingState()
        self.saved: tuple[int, int] | None = None  # epoch and step of the last checkpoint
        self._prepare()

    def _prepare(self) -> None:
        """Makes a new model, or reads the one of the latest checkpoint."""
        found = self.processes.on_rank_zero(lambda: self.files.latest_checkpoint() if self.files else None)
        if found is None:
            self.model, self.optimizer = start_training(self.task, self.settings, self.processes)
        else:
            card, _ = checkpoints.read_card(found)
            if card.data != self.data or card.assets != self.assets:
                raise CheckpointError(f"{found} was trained on other data than there is now; bring that back to resume")
            self.model, self.optimizer, self.state = resume_training(
                self.task, self.settings, self.processes, found, n_batches=self.n_batches
            )
            self.saved = (self.state.epoch, self.state.step)
            if self.state.is_finished(self.settings):
                self.progress.message(f"finished already, after {self.state.epoch} epochs")
            else:
                self.progress.message(f"resuming after step {self.state.step}, in epoch {self.state.epoch + 1}")
            if card.versions != checkpoints.versions():
                self.progress.message(f"the checkpoint was written by {card.versions}, which may round differently")
        self.model.train()
        self.evaluated_model = self._evaluated_model()
        n_lines = self.processes.on_rank_zero(lambda: self.files.open_logs(self.state) if self.files else 0)
        if n_lines != self.state.n_lines:
            self.progress.message("metrics.jsonl has lost lines that were there when the checkpoint was written")
            self.state.n_lines = n_lines  # so that lines after the next checkpoint are known as such
        self._choose_threads()
        self.seconds_before, self.began = self.state.seconds, time.monotonic()
        self.window_speed, self.epoch_speed = Speed(), Speed()

    def _choose_threads(self) -> None:
        """Sets `threads` to the number in the settings, the one that the run had before, or the faster in a trial."""
        state, all_threads = self.state, torch.get_num_threads()
        wanted = self.settings.threads == 0 and self.processes.size == 1 and self.processes.device.type == "cpu"
        if not wanted:
            state.threads = 0
        elif not 0 < state.threads <= all_threads and not state.is_finished(self.settings):
            state.threads, times = threads_for_training(
                self.task, unwrap_model(self.model), self.examples, self.lengths, self.settings.batch_size
            )
            if times:
                self.progress.message(times)
        self.threads = state.threads if 0 < state.threads <= all_threads else all_threads

    def _evaluated_model(self) -> torch.nn.Module:
        """Returns the model to evaluate: a whole copy if each process trains a shard."""
        if not self._sharded():
            return unwrap_model(self.model)
        with random_state.isolated(0):
            return self.task.model().to(self.processes.device)

    def run(self) -> TrainingResult:
        """Trains from the present state to the end."""
        n_steps = self.settings.epochs * self.n_batches
        self.progress.start(step=self.state.step, n_steps=n_steps, epochs=self.settings.epochs)
        outcome = "finished"
        while not self.state.is_finished(self.settings):
            try:
                self._epoch(n_steps)
            except Interrupted:
                outcome = "interrupted"
                break
        self._save()
        state = self.state
        if outcome == "finished" and state.stops_early(self.settings):
            outcome = "stopped early"
            self.progress.message(f"stopped after {state.n_stale} epochs without a better {self.task.metric}")
        if outcome == "interrupted":
            self.progress.message(f"interrupted and saved after step {state.step}; continue with --resume")
        return TrainingResult(
            outcome, state.epoch, state.step, state.best_epoch, dict(state.best_metrics), state.seconds, self.threads
        )

    def _epoch(self, n_steps: int) -> None:
        state, settings = self.state, self.settings
        order = epoch_batches(self.lengths, batch_size=settings.batch_size, seed=settings.seed, epoch=state.epoch)
        for batch in order[state.position :]:
            rate = learning_rate(settings, step=state.step, n_steps=n_steps, plateau_factor=state.plateau_factor)
            result = self._step(batch, rate)
            state.add_step(result.loss, result.n_items)
            self.window_speed.add(result.n_items)
            self.epoch_speed.add(result.n_items)
            self.progress.step(epoch=state.epoch + 1, loss=result.loss / max(result.n_items, 1))
            if state.step % settings.log_every == 0:
                self._log_steps(result, rate)
            if result.stop_requested:
                raise Interrupted
            if state.step % settings.save_every == 0 and state.position < self.n_batches:
                self._save()
        self._finish_epoch()

    def _step(self, batch: list[int], rate: float) -> StepResult:
        set_rate(self.optimizer, rate)
        try:
            return take_step(
                self.task,
                self.model,
                self.optimizer,
                self.examples,
                batch,
                settings=self.settings,
                processes=self.processes,
                stop_requested=self.signals.requested,
            )
        except DivergedError as error:
            raise DivergedError(
                f"{error} in step {self.state.step + 1} (epoch {self.state.epoch + 1}), so training stops and writes "
                "nothing more; try a smaller --learning-rate, a --warmup, or a smaller --clip"
            ) from error

    def _finish_epoch(self) -> None:
        """Evaluates, logs, and saves. If the process dies before it has saved, all of this is done again."""
        state = self.state
        loss = state.epoch_loss / max(state.epoch_items, 1)
        rate = self.epoch_speed.rate()  # of training alone
        metrics = self._evaluate()
        watched = metrics[self.task.metric] if len(self.dev) else -loss
        shown = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        better = state.add_epoch(watched, shown, self.settings.plateau)
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
            self.evaluated_model.load_state_dict(full_state_dict(self.model))

        # One process stops at once. Several would have to agree; they do after the next step.
        interruptible = self.signals.interruptible() if self.processes.size == 1 else contextlib.nullcontext()
        entropy = (self.settings.seed, EVALUATION, self.state.epoch, self.processes.rank)
        with random_state.isolated(*entropy), interruptible:
            metrics = evaluate(
                self.task,
                self.evaluated_model,
                self.dev,
                batch_size=self.settings.batch_size,
                processes=self.processes,
                on_batch=self.progress.evaluated,
            )
        if self.task.metric not in metrics:
            who = type(self.task).__name__
            raise ValueError(
                f"{who}.score must return {self.task.metric!r}, which is its metric, got {sorted(metrics)}"
            )
        return metrics

    def _log_steps(self, result: StepResult, rate: float) -> None:
        state = self.state
        loss = state.window_loss / max(state.window_items, 1)
        state.window_loss, state.window_items = 0.0, 0
        record = {"event": "step", "epoch": state.epoch + 1, "step": state.step, "loss": loss, "learning_rate": rate}
        record |= {"gradient_norm": result.gradient_norm, "seconds": self._seconds()}
        self._log(record | {"items_per_second": self.window_speed.rate(), "threads": self.threads})
        self.window_speed.restart()

    def _seconds(self) -> float:
        self.state.seconds = self.seconds_before + time.monotonic() - self.began
        return round(self.state.seconds, 3)

    def _log(self, record: dict[str, Any]) -> None:
        self.state.n_lines += 1
        self.processes.on_rank_zero(lambda: self.files.log(record) if self.files else None)

    def _save(self) -> None:
        state = self.state
        if self.saved == (state.epoch, state.step):
            return
        state.seconds = self.seconds_before + time.monotonic() - self.began
        model = full_state_dict(self.model)
        training = optimizer_tensors(unwrap_model(self.model), self.optimizer)
        for rank, generators in enumerate(self.processes.gather(random_state.capture())):
            training |= {f"random.{rank}.{name}": tensor for name, tensor in generators.items()}
        self.processes.on_rank_zero(lambda: self._write(model, training))
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
            state=to_dict(self.state),
            n_processes=self.processes.size,
        )
        self.files.save_checkpoint(self.state, card, model, training)

    def _sharded(self) -> bool:
        return self.processes.size > 1 and self.settings.sharding == "fsdp"
