"""One task per file. Needs the extra `nlp`.

    from omegamax.recipes import load, predict

`TASKS` is the table of recipes. `load` reads a trained model, `Parser.load` a parser; `train`, `predict` and `evaluate` are those of
`omegamax.training`, loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omegamax.recipes.tasks import TASKS as TASKS
from omegamax.recipes.tasks import TaskEntry as TaskEntry
from omegamax.recipes.tasks import load as load

if TYPE_CHECKING:
    from omegamax.recipes.trained_parser import Parser as Parser
    from omegamax.training import evaluate as evaluate
    from omegamax.training import predict as predict
    from omegamax.training import train as train

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Loads the class of a trained parser, or a function of `omegamax.training`."""
        if name == "Parser":
            from omegamax.recipes.trained_parser import Parser

            return Parser
        if name not in ("train", "predict", "evaluate"):
            raise AttributeError(f"module 'omegamax.recipes' has no attribute {name!r}")
        from omegamax import training

        return getattr(training, name)
