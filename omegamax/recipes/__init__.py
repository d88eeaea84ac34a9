"""One task per file. Needs the extra `nlp`.

    from omegamax.recipes import load, predict

`TASKS` is the table of recipes. `load` reads a trained model; `Tagger.load` and `Parser.load` read a tagger or parser.
`export_model` writes a model as a folder to give away, which `load` reads too. `train`, `predict` and `evaluate` are
those of `omegamax.training`. All but the table are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omegamax.recipes.tasks import TASKS as TASKS
from omegamax.recipes.tasks import TaskEntry as TaskEntry
from omegamax.recipes.tasks import load as load

if TYPE_CHECKING:
    from omegamax.recipes.model_folder import export_model as export_model
    from omegamax.recipes.trained_parser import Parser as Parser
    from omegamax.recipes.trained_tagger import Tagger as Tagger
    from omegamax.training import evaluate as evaluate
    from omegamax.training import predict as predict
    from omegamax.training import train as train

_NAMES = {  # names by the module that has them
    "export_model": "omegamax.recipes.model_folder",
    "Parser": "omegamax.recipes.trained_parser",
    "Tagger": "omegamax.recipes.trained_tagger",
}

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Loads a function of `omegamax.training`, or the class of a trained model."""
        if name in ("train", "predict", "evaluate"):
            return getattr(import_module("omegamax.training"), name)
        if name in _NAMES:
            return getattr(import_module(_NAMES[name]), name)
        raise AttributeError(f"module 'omegamax.recipes' has no attribute {name!r}")
