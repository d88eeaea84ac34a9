"""Options of `omegamax predict` that only some tasks have: how input is read and how output is written.

A task names a dataclass of them in its row of `TASKS`. Several tasks may share an option, which is then one flag.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, get_type_hints

from omegamax.cli.errors import CommandError, as_command_errors
from omegamax.cli.settings_options import add_flag, flag, flag_help
from omegamax.recipes.tasks import TASKS


def add_prediction_options(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each option of any task; a flag that is not given is absent from the parsed options."""
    owners: dict[str, list[str]] = {}
    for name, entry in TASKS.items():
        for each in dataclasses.fields(entry.prediction_class() or _NoOptions):
            owners.setdefault(each.name, []).append(name)
    groups: dict[tuple[str, ...], Any] = {}
    for option, tasks in owners.items():
        if tuple(tasks) not in groups:
            groups[tuple(tasks)] = parser.add_argument_group(f"for {' and '.join(tasks)}")
        kind = TASKS[tasks[0]].prediction_class()
        assert kind is not None
        (field,) = (each for each in dataclasses.fields(kind) if each.name == option)
        choices = dict.fromkeys(choice for task in tasks for choice in _choices(task, option))
        add_flag(
            groups[tuple(tasks)],
            field,
            get_type_hints(kind)[option],
            field.default,
            choices=list(choices),
            help="; ".join(f"of a {task}: {flag_help(each, each.default)}" for task, each in _fields(tasks, option)),
        )


def chosen_prediction(options: argparse.Namespace, task: Any) -> Any:
    """Returns the options that were given as an object of the task's own class; None if the task has none."""
    known = {
        each.name for entry in TASKS.values() for each in dataclasses.fields(entry.prediction_class() or _NoOptions)
    }
    given = {name: getattr(options, name) for name in known if hasattr(options, name)}
    kind = task.prediction_type
    own = {each.name for each in dataclasses.fields(kind)} if kind is not None else set()
    for name in sorted(given):
        if name not in own:
            raise CommandError(f"{options.run_directory} is a task without {flag(name)}; leave it out")
    if kind is None:
        return None
    with as_command_errors(ValueError):
        return kind(**given)


def _fields(tasks: list[str], option: str) -> list[tuple[str, Any]]:
    """Returns the option of each task, since each has its own help."""
    kinds = {task: TASKS[task].prediction_class() or _NoOptions for task in tasks}
    return [(task, each) for task, kind in kinds.items() for each in dataclasses.fields(kind) if each.name == option]


def _choices(task: str, option: str) -> tuple[str, ...]:
    kind = TASKS[task].prediction_class()
    assert kind is not None
    (field,) = (each for each in dataclasses.fields(kind) if each.name == option)
    return tuple(field.metadata["choices"] or ())


@dataclasses.dataclass(frozen=True)
class _NoOptions:
    """The options of a task that has none."""
