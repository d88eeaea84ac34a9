"""The learning rate over time: a closed form of the step, so that nothing needs to be saved but the plateau's count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from omegamax.training.settings import TrainingSettings


@dataclass(frozen=True)
class Plateau:
    """Halves the rate after some epochs in a row without a better metric, then waits as long again."""

    factor: float = 1.0
    n_stale: int = 0  # epochs since the metric was last better, or the rate last halved

    def after_epoch(self, better: bool, wait: int) -> Plateau:
        """What holds after one more epoch."""
        if better:
            return replace(self, n_stale=0)
        if self.n_stale + 1 < wait:
            return replace(self, n_stale=self.n_stale + 1)
        return Plateau(self.factor / 2, 0)


def learning_rate(settings: TrainingSettings, *, step: int, n_steps: int, plateau: Plateau) -> float:
    """The rate of update number `step` of `n_steps`, counted from 0.

    It rises linearly over the first `warmup` steps, whose last has the full rate r. After that, with t from 0 to 1 over
    the steps that remain: r (constant), r (1 + cos πt)/2 (cosine), r (1 - t) (linear), r/2^k (plateau).
    """
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    time = (step - settings.warmup) / max(n_steps - settings.warmup, 1)
    if settings.schedule == "cosine":
        return settings.learning_rate * (1 + math.cos(math.pi * time)) / 2
    if settings.schedule == "linear":
        return settings.learning_rate * (1 - time)
    if settings.schedule == "plateau":
        return settings.learning_rate * plateau.factor
    return settings.learning_rate
