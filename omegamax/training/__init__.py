"""The training loop of every recipe, and what it needs: tasks, runs, checkpoints, processes, predictions.

Names are loaded when they are first used, since PyTorch takes seconds to load and `omegamax --help` reads the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegamax.training.loop import TrainingResult as TrainingResult
    from omegamax.training.loop import train as train
    from omegamax.training.prediction import TrainedModel as TrainedModel
    from omegamax.training.prediction import evaluate as evaluate
    from omegamax.training.prediction import predict as predict
    from omegamax.training.processes import Processes as Processes
    from omegamax.training.processes import join_processes as join_processes
    from omegamax.training.progress import Progress as Progress
    from omegamax.training.progress import Silent as Silent
    from omegamax.training.runs import RunDirectory as RunDirectory
    from omegamax.training.settings import TrainingSettings as TrainingSettings
    from omegamax.training.task import AttentionMap as AttentionMap
    from omegamax.training.task import Loss as Loss
    from omegamax.training.task import Task as Task

_FILES = {
    "loop": ("train", "TrainingResult"),
    "prediction": ("TrainedModel", "evaluate", "predict"),
    "processes": ("Processes", "join_processes"),
    "progress": ("Progress", "Silent"),
    "runs": ("RunDirectory",),
    "settings": ("TrainingSettings",),
    "task": ("AttentionMap", "Loss", "Task"),
}
__all__ = [name for names in _FILES.values() for name in names]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Loads the file that has a public name."""
        from importlib import import_module

        for file, names in _FILES.items():
            if name in names:
                return getattr(import_module(f"omegamax.training.{file}"), name)
        raise AttributeError(f"module 'omegamax.training' has no attribute {name!r}")
