"""How far a run has come: the plain numbers of a checkpoint, beside its tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegamax.data.printable import quoted
from omegamax.training.schedule import Plateau
from omegamax.training.settings import TrainingSettings

_FINITE = sys.float_info.max


def count() -> Any:
    """A field that counts something, from 0; a file may not make it larger than any run comes to."""
    return field(default=0, metadata={"least": 0, "most": 10**15})


def amount(default: float | None, least: float | None = 0.0) -> Any:
    """A field with a finite number."""
    return field(default=default, metadata={"least": -_FINITE if least is None else least, "most": _FINITE})


@dataclass
class TrainingState:
    """Where the loop stands between two steps. Every field is a JSON value."""

    epoch: int = count()  # epochs finished and evaluated
    position: int = count()  # batches of the present epoch already used
    step: int = count()  # updates since the beginning
    best_value: float | None = amount(
        None, least=None
    )  # the watched metric at its highest; None if it was not a number
    best_epoch: int = count()  # 0 before the first evaluation
    best_step: int = count()
    best_metrics: dict = field(default_factory=dict)
    n_stale: int = count()  # epochs since the metric was last better
    plateau_factor: float = amount(1.0)
    plateau_n_stale: int = count()
    window_loss: float = amount(0.0, least=None)  # sums since the last line of metrics.jsonl that told of steps
    window_items: int = count()
    epoch_loss: float = amount(0.0, least=None)  # sums since the epoch began
    epoch_items: int = count()
    n_lines: int = count()  # of metrics.jsonl
    threads: int = count()  # chosen by a trial when the run began; 0 if there was none
    seconds: float = amount(0.0)  # spent so far, interruptions not counted

    @property
    def plateau(self) -> Plateau:
        """What the schedule needs to know."""
        return Plateau(self.plateau_factor, self.plateau_n_stale)

    def count(self, loss: float, n_items: int) -> None:
        """One more step."""
        self.position += 1
        self.step += 1
        self.window_loss += loss
        self.window_items += n_items
        self.epoch_loss += loss
        self.epoch_items += n_items

    def finish_epoch(self, value: float, metrics: Mapping[str, float | None], wait: int) -> bool:
        """One more epoch, evaluated; returns whether it is the best so far. What is no number is never better."""
        self.epoch += 1
        self.position, self.epoch_loss, self.epoch_items = 0, 0.0, 0
        known = self.best_value if self.best_value is not None else -math.inf
        better = self.best_epoch == 0 or value > known
        if better:
            self.best_value = value if math.isfinite(value) else None
            self.best_epoch, self.best_step, self.best_metrics = self.epoch, self.step, dict(metrics)
        self.n_stale = 0 if better else self.n_stale + 1
        plateau = self.plateau.after_epoch(better, wait)
        self.plateau_factor, self.plateau_n_stale = plateau.factor, plateau.n_stale
        return better

    def stopped_early(self, settings: TrainingSettings) -> bool:
        """Whether patience has run out."""
        return 0 < settings.patience <= self.n_stale

    def finished(self, settings: TrainingSettings) -> bool:
        """Whether nothing is left to do."""
        return self.epoch >= settings.epochs or self.stopped_early(settings)

    def check(self, n_batches: int) -> None:
        """Raises ValueError where the numbers contradict each other or the data."""
        for name, value in self.best_metrics.items():
            if value is not None and not (type(value) in (int, float) and abs(value) <= _FINITE):
                raise ValueError(f"its metric {quoted(name)} must be a finite number, got {quoted(value)}")
        inside = self.epoch >= 0 and 0 <= self.position <= n_batches
        if not inside or self.step != self.epoch * n_batches + self.position:
            raise ValueError(
                f"its position (epoch {self.epoch}, batch {self.position}, step {self.step}) does not fit "
                f"{n_batches} batches per epoch"
            )
