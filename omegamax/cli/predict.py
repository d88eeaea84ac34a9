"""The command `omegamax predict`, which writes the outputs of a trained model for lines of input."""

from __future__ import annotations

import argparse
from functools import partial

from omegamax.cli.evaluate import add_run, load_run
from omegamax.cli.lines import add_lines, answer_input, answer_lines
from omegamax.cli.output import check_absent
from omegamax.cli.parser import at_least
from omegamax.cli.prediction_options import add_prediction_options, chosen_prediction
from omegamax.recipes.settings import MAX_BEAM, MAX_LENGTH

HELP = "write the outputs of a trained model for your own input"
DESCRIPTION = """\
Reads one input per line and writes one output per line, in the same order.
Standard input may be endless: some lines at a time are read, answered and
forgotten. A line that cannot be read is reported and gets an empty line. A
tagger also reads files in columns, with --input-format, and writes them; a
parser reads and writes CoNLL-U: both read their whole input first."""
EXAMPLES = """\
examples:
  echo "3 March 2017" | omegamax predict runs/dates-fusedmax
  printf 'fr\\tvendredi 3 mars 2017\\n' | omegamax predict runs/dates-fusedmax
                                                  locale, tab, text
  omegamax predict runs/en-de --input en.txt --out de.txt --beam 5
  omegamax predict runs/en-de --beam 5 --n-best 3 < en.txt
                                                  JSON, with scores
  echo "ada keeps the" | omegamax predict runs/language --temperature 0.8
  echo "Ada met Bo in Paris." | omegamax predict runs/tagger-l2 --ranked
  omegamax predict runs/tagger-crf --input test.conll --input-format conll \\
      --output-format conll --out tagged.conll
  omegamax predict runs/parser-crf --input new.conllu --out parsed.conllu
  echo "she saw him ." | omegamax predict runs/parser-sparsemap --trees
  torchrun --nproc-per-node=2 -m omegamax predict runs/en-de --input en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, the input and the output."""
    add_run(parser)
    add_lines(parser, "one input per line", "one output per line")
    parser.add_argument(
        "--n-best",
        metavar="N",
        type=at_least(0, MAX_BEAM),
        help="the N best translations as JSON, with scores and whether the search is proved complete (default: as "
        "trained)",
    )
    parser.add_argument(
        "--max-length",
        metavar="N",
        type=at_least(1, MAX_LENGTH),
        help="tokens of an output at most (default: as trained)",
    )
    parser.add_argument(
        "--temperature",
        metavar="X",
        type=float,
        help="draw the tokens of a continuation; smaller is safer, 0 takes the most likely (default: as trained)",
    )
    parser.add_argument("--sampling-seed", metavar="N", type=int, help="seed of the draws (default: as trained)")
    add_prediction_options(parser)


def run(options: argparse.Namespace) -> int:
    """Predicts on all processes, and writes on rank 0."""
    if options.out is not None:
        check_absent([options.out], overwrite=options.overwrite)
    from omegamax.recipes.tasks import read_examples
    from omegamax.training.processes import join_processes

    with join_processes(options.device) as processes:
        sampling = {"temperature": options.temperature, "sampling_seed": options.sampling_seed}
        changes = {"max_length": options.max_length, "n_best": options.n_best, **sampling}
        found = load_run(options, processes.device, **changes)
        found.task.prediction = chosen_prediction(options, found.task)
        answer = answer_lines if found.task.reads_single_lines else answer_input
        return answer(options, found, processes, partial(read_examples, found.task), found.task.predict)
