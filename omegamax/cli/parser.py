"""Command-line parsers whose help has examples and whose errors are one sentence with advice."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable
from typing import Any, NoReturn

from omegamax.data.printable import printable


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Prints texts as they are, and leaves room for the longest command, whose indentation argparse does not count."""

    def add_argument(self, action: argparse.Action) -> None:
        """Measures commands with their indentation."""
        super().add_argument(action)
        for command in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(command)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one sentence, with a guess at what was meant.

    `fill` adds the arguments when the parser is first used: there are hundreds of options, and `omegamax --help`
    prints none of them.
    """

    def __init__(self, *args: Any, fill: Callable[[Parser], None] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": HelpFormatter, **kwargs})
        self._fill = fill
        self.set_defaults(parser=self)  # so that an error of `main` names the options of this command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Adds the arguments, then parses."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Prints the message with advice and exits with code 2."""
        self.exit(2, f"{self.prog}: {printable(self._with_advice(message), max_length=500)}; see {self.prog} --help\n")

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


def add_command(commands: Any, name: str, module: Any) -> None:
    """Adds the parser of a command, with its module's texts and arguments."""
    texts = {"help": module.HELP, "description": module.DESCRIPTION, "epilog": module.EXAMPLES}
    commands.add_parser(name, fill=module.add_arguments, **texts)


def at_least(least: int, most: int = 10**9) -> Callable[[str], int]:
    """Returns the type of an option that is a whole number from `least` to `most`."""

    def count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {printable(text)!r}")
        if number > most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number of at most {most}, got {printable(text, max_length=30)}"
            )
        return number

    return count


def positive(most: float) -> Callable[[str], float]:
    """Returns the type of an option that is a positive number of at most `most`."""

    def amount(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            raise argparse.ArgumentTypeError(
                f"must be a positive number of at most {most:g}, got {printable(text, max_length=30)!r}"
            )
        return number

    return amount
