"""Settings as options: each field of a settings dataclass is a flag and a key of a TOML file.

The value of a setting is taken from the first of these that has it: the command line, the TOML file, the run that is
resumed, the values of --quick, the defaults of the task (`TASKS`), the defaults of the dataclass.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from omegamax.cli.errors import CommandError
from omegamax.data.files import read_user_file
from omegamax.data.printable import printable, short_repr
from omegamax.errors import os_error_text
from omegamax.recipes.settings import AttentionSettings
from omegamax.recipes.tasks import TASKS, TaskEntry
from omegamax.training.settings import TrainingSettings, as_float

Settings = TypeVar("Settings")
_MAX_CONFIG = 1 << 20  # bytes of a TOML file


def add_settings(
    parser: argparse.ArgumentParser, kind: type, title: str, *, own: Mapping[str, Any], names: Collection[str]
) -> None:
    """Adds a flag for each of the named fields; a flag that is not given is absent from the parsed options."""
    group, hints = parser.add_argument_group(title), get_type_hints(kind)
    for each in dataclasses.fields(kind):
        if each.name not in names:
            continue
        add_flag(group, each, hints[each.name], own.get(each.name, each.default))


def add_flag(
    group: Any, each: Any, hint: Any, default: Any, *, choices: Sequence[str] | None = None, help: str | None = None
) -> None:
    """Adds the flag of one field; one that is true or false takes no value. `help` replaces the help of the field."""
    about = {"default": argparse.SUPPRESS, "help": (help or flag_help(each, default)).replace("%", "%%")}
    if _type(hint) is bool:
        group.add_argument(flag(each.name), action="store_true", **about)
        return
    choices = choices or each.metadata["choices"]
    metavar = each.metadata["metavar"] or (None if choices else _metavar(hint))
    group.add_argument(flag(each.name), type=_type(hint), choices=choices, metavar=metavar, **about)


def flag_help(each: Any, default: Any) -> str:
    """Returns the help of a field, with its default."""
    return each.metadata["help"] + ("" if default in (None, "", False) else f" (default: {default})")


def add_task_settings(parser: argparse.ArgumentParser, entry: TaskEntry, *, without: Collection[str] = ()) -> None:
    """Adds all options of training a task."""
    kind = entry.settings_class()
    attention = {each.name for each in dataclasses.fields(AttentionSettings)} - set(without)
    own = {each.name for each in dataclasses.fields(kind)} - attention - set(without)
    training = {each.name for each in dataclasses.fields(TrainingSettings)}
    add_settings(parser, kind, "attention", own={}, names=attention)
    add_settings(parser, kind, "the task", own={}, names=own)
    add_settings(parser, TrainingSettings, "training", own=entry.training, names=training)
    if entry.quick:
        shown = ", ".join(f"{flag(name)} {value}" for name, value in entry.quick.items())
        parser.add_argument("--quick", action="store_true", help=f"a run of less than a minute, to try it: {shown}")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="a TOML file with any of these options, overruled by those given here",
    )


def chosen_settings(
    task: str, options: argparse.Namespace, stored: Mapping[str, Any] | None = None
) -> tuple[Any, TrainingSettings]:
    """Returns the settings of the task and of training, from the flags, the file and the run that is resumed."""
    entry = TASKS[task]
    kind = entry.settings_class()
    known = {**get_type_hints(TrainingSettings), **get_type_hints(kind)}
    from_file = read_config(options.config, known) if options.config else {}
    given = {name: getattr(options, name) for name in known if hasattr(options, name)}
    quick = entry.quick if getattr(options, "quick", False) else {}
    values = {**quick, **(stored or {}), **from_file, **given}
    return _make(kind, values), _make(TrainingSettings, {**entry.training, **values})


def read_config(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a TOML file of option = value; learning-rate and learning_rate mean the same."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(read_user_file(path, _MAX_CONFIG).decode())
    except RecursionError as error:
        raise CommandError(f"{path} is not a table of options but lists within lists; write option = value") from error
    except ValueError as error:  # of TOML, of UTF-8, or a number with thousands of digits
        raise CommandError(f"{path} is not TOML ({error}); write lines such as learning-rate = 0.001") from error
    except OSError as error:
        raise CommandError(f"cannot read {path} ({os_error_text(error)})") from error
    values = {name.replace("-", "_"): value for name, value in content.items()}
    for name, value in values.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            advice = f"did you mean {close[0].replace('_', '-')}?" if close else "see --help for the options"
            raise CommandError(
                f"{path}: there is no option {printable(name.replace('_', '-'), max_length=80)}; {advice}"
            )
        if isinstance(value, (dict, list)):
            raise CommandError(
                f"{path}: {name.replace('_', '-')} must be one value, got {short_repr(value)}; write option = value"
            )
        try:
            values[name] = _check_type(name, value, known[name])
        except CommandError as error:
            raise CommandError(f"{path}: {error}") from None
    return values


def flag(name: str) -> str:
    """Returns the option of a field."""
    return f"--{name.replace('_', '-')}"


def _make(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    hints, names = get_type_hints(kind), {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    fitting = {name: _check_type(name, value, hints[name]) for name, value in values.items() if name in names}
    try:
        return kind(**fitting)
    except ValueError as error:
        raise CommandError(str(error).partition(": ")[2] or str(error)) from error


def _check_type(name: str, value: Any, hint: Any) -> Any:
    """Returns a value in the type of its field, or raises CommandError: 1 can be a float, "1" cannot."""
    wanted = _type(hint)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return as_float(value, hint)
        except ValueError as error:
            raise CommandError(f"{name.replace('_', '-')}: {error}; correct it") from error
    if value is None and type(None) in get_args(hint):
        return None
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise CommandError(
            f"{name.replace('_', '-')} must be of type {wanted.__name__}, got {short_repr(value)}; correct it"
        )
    return value


def _type(hint: Any) -> type:
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return kinds[0]


def _metavar(hint: Any) -> str:
    return {int: "N", float: "X"}.get(_type(hint), "NAME")
