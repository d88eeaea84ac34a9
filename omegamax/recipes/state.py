"""How far a run has come: the plain numbers of a checkpoint, beside its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from omegamax.recipes.schedule import Plateau
from omegamax.recipes.settings import TrainingSettings


@dataclass
class TrainingState:
    """Where the loop stands between two steps. Every field is a JSON value."""

    epoch: int = 0  # epochs finished and evaluated
    position: int = 0  # batches of the present epoch already used
    step: int = 0  # updates since the beginning
    best_value: float | None = None  # the watched metric at its highest; None if it was not a number
    best_epoch: int = 0  # 0 before the first evaluation
    best_step: int = 0
    best_metrics: dict = field(default_factory=dict)
    n_stale: int = 0  # epochs since the metric was last better
    plateau_factor: float = 1.0
    plateau_n_stale: int = 0
    window_loss: float = 0.0  # sums since the last line of metrics.jsonl that told of steps
    window_items: int = 0
    epoch_loss: float = 0.0  # sums since the epoch began
    epoch_items: int = 0
    n_lines: int = 0  # of metrics.jsonl
    seconds: float = 0.0  # spent so far, interruptions not counted

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
        inside = self.epoch >= 0 and 0 <= self.position <= n_batches
        if not inside or self.step != self.epoch * n_batches + self.position:
            raise ValueError(
                f"its position (epoch {self.epoch}, batch {self.position}, step {self.step}) does not fit "
                f"{n_batches} batches per epoch"
            )
