"""Parsers that teach: help with examples, and complaints of one sentence."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable
from typing import Any, NoReturn

from omegamax.data.printable import visible


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves texts as they are, and makes room for the longest command: argparse forgets that they are indented."""

    def add_argument(self, action: argparse.Action) -> None:
        """Measures commands where they stand."""
        super().add_argument(action)
        for command in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(command)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, with what may have been meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": HelpFormatter, **kwargs})
        self.set_defaults(parser=self)  # the one that knows the options of what was asked for

    def error(self, message: str) -> NoReturn:
        """Exit code 2."""
        self.exit(2, f"{self.prog}: {visible(self._with_advice(message), most=500)}; see {self.prog} --help\n")

    def _with_advice(self, message: str) -> str:
        known = [flag for action in self._actions for flag in action.option_strings]
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown:
            close = difflib.get_close_matches(unknown[1], known, 1)
            return f"there is no option {unknown[1]}" + (f", did you mean {close[0]}?" if close else "")
        choice = re.match(
            r"argument (?P<what>[^:]+): invalid choice: (?P<got>'[^']*') \(choose from (?P<all>.*)\)", message
        )
        if choice:
            choices = [each.strip(" '") for each in choice["all"].split(",")]
            close = difflib.get_close_matches(choice["got"].strip("'"), choices, 1)
            advice = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(choices)}"
            return f"there is no {choice['what']} {choice['got']}, {advice}"
        return message


def add_command(commands: Any, name: str, module: Any) -> Parser:
    """The parser of a command, from its module's texts."""
    return commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION, epilog=module.EXAMPLES)


def at_least(least: int, most: int = 10**9) -> Callable[[str], int]:
    """The type of an option that is a count, from the least to the most."""

    def count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {visible(text)!r}")
        if number > most:
            raise argparse.ArgumentTypeError(f"must be a whole number of at most {most}, got {visible(text, most=30)}")
        return number

    return count


def positive(most: float) -> Callable[[str], float]:
    """The type of an option that is a positive number, up to the most."""

    def amount(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            raise argparse.ArgumentTypeError(
                f"must be a positive number of at most {most:g}, got {visible(text, most=30)!r}"
            )
        return number

    return amount
