"""The command `omegamax check-data`, which looks for mistakes in data before a model is trained on it."""

from __future__ import annotations

import argparse
import json
from functools import partial

from omegamax.cli.errors import as_command_errors
from omegamax.cli.parser import Parser
from omegamax.cli.settings_options import add_settings
from omegamax.cli.tables import aligned, number, terminal_width
from omegamax.data.printable import printable
from omegamax.recipes.tasks import TASKS, TaskEntry

HELP = "look for mistakes in data, before training on it"
DESCRIPTION = """\
Reads a data set as training would, counts what is in it, and says in one
sentence each what may be wrong."""
EXAMPLES = """\
examples:
  omegamax check-data tagger DIR                 train, dev and test in DIR
  omegamax check-data tagger a.conll,b.conll,c.conll
  omegamax check-data tagger DIR --tag-column 4 --json
  omegamax check-data parser treebank/           cycles, roots, relations"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each task whose data can be checked."""
    tasks = parser.add_subparsers(dest="task", metavar="task", required=True, parser_class=Parser)
    for name, entry in TASKS.items():
        if entry.check_data:
            tasks.add_parser(
                name,
                help=entry.summary,
                description=DESCRIPTION,
                epilog=f"example:\n  omegamax check-data {name} DIR --json",
                fill=partial(_add_options, entry),
            )


def _add_options(entry: TaskEntry, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="PATH", help="the data, as for --data of omegamax train")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_settings(parser, entry.settings_class(), "how it is read", own={}, names=entry.reading)


def run(options: argparse.Namespace) -> None:
    """Prints counts by split, and a sentence for each thing that may be wrong."""
    from omegamax.recipes.tasks import check_data

    entry = TASKS[options.task]
    given = {name: getattr(options, name) for name in entry.reading if hasattr(options, name)}
    with as_command_errors(ValueError):
        settings = entry.settings_class()(data=options.data, **given)
    report = check_data(options.task, settings)
    if options.json:
        print(json.dumps(report.to_json()))
        return
    names = list(dict.fromkeys(name for counts in report.counts.values() for name in counts))
    rows = [["", *report.counts]]
    rows += [[name, *(number(counts.get(name)) for counts in report.counts.values())] for name in names]
    print(printable_lines(aligned(rows, terminal_width())))
    for each in report.warnings:
        print(f"\n{printable(each)}.")
    if not report.warnings:
        print("\nNothing looks wrong.")


def printable_lines(text: str) -> str:
    """Makes every line of a text safe to print."""
    return "\n".join(map(printable, text.split("\n")))
