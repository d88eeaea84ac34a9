"""The command `omegamax score`, which prints how likely a trained model finds given outputs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.cli.evaluate import add_run, load_run
from omegamax.cli.lines import add_lines, answer_lines
from omegamax.cli.output import check_absent

HELP = "print the log-probabilities of given pairs of input and output"
DESCRIPTION = """\
Reads a source, a tab and a target in each line, and prints the natural
logarithm of the target's probability given the source, a tab, and the number
of tokens that it has, with the end of the text."""
EXAMPLES = """\
examples:
  omegamax score runs/en-de --input pairs.tsv
  printf 'Where is he?\\tWo ist er?\\n' | omegamax score runs/en-de
  printf 'fr\\t3 mars 2017\\t2017-03-03\\n' | omegamax score runs/dates-fusedmax"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, the input and the output."""
    add_run(parser)
    add_lines(parser, "a source, a tab and a target per line", "a log-probability and a count per line")


def run(options: argparse.Namespace) -> int:
    """Computes on all processes, and writes on rank 0."""
    if options.out is not None:
        check_absent([options.out], overwrite=options.overwrite)
    from omegamax.recipes.tasks import read_scored_examples
    from omegamax.training.processes import join_processes

    with join_processes(options.device) as processes:
        found = load_run(options, processes.device)
        if not hasattr(found.task, "log_likelihood"):
            raise CommandError(f"{options.run_directory} is a task without pairs of source and target; use evaluate")

        def read(lines: Sequence[str]) -> list[Any]:
            return read_scored_examples(found.task, lines)

        def write(model: Any, examples: Sequence[Any]) -> list[str]:
            return [f"{value:.6f}\t{n_tokens}" for value, n_tokens in found.task.log_likelihood(model, examples)]

        return answer_lines(options, found, processes, read, write)
