"""The command `omegamax export`, which writes a trained model as a folder to give away."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.cli.parser import at_least
from omegamax.data.files import read_user_file
from omegamax.data.printable import printable
from omegamax.errors import os_error_text

_MAX_SCORES = 1 << 24  # bytes

HELP = "write a trained model as a folder to give away"
DESCRIPTION = """\
Writes the model of a run in the layout of Hugging Face: config.json,
model.safetensors, assets.json (vocabularies), tokenizer files, and README.md,
a model card with data, command, seeds, scores and licence. The folder takes
the place of RUN in evaluate, predict, score and attend. Reading it runs no
code."""
EXAMPLES = """\
examples:
  omegamax export runs/en-de models/en-de --licence cc-by-2.0 \\
      --data-name "Tatoeba en-de, CC BY 2.0"
  omegamax evaluate runs/en-de --beam 5 --json > test.json
  omegamax export runs/en-de models/en-de --scores test.json --onnx --overwrite
  omegamax predict models/en-de < en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, the folder, and what the model card says."""
    parser.add_argument("run_directory", metavar="RUN", type=Path, help="the --out of a training run, or a checkpoint")
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder to write")
    parser.add_argument(
        "--checkpoint",
        choices=("best", "latest"),
        default="best",
        help="which of the run's checkpoints (default: best)",
    )
    parser.add_argument(
        "--average",
        metavar="N",
        type=at_least(1, 10_000),
        default=1,
        help="average the parameters of the N latest checkpoints, of a run with --keep N (default: 1, none)",
    )
    parser.add_argument("--name", metavar="TEXT", help="title of the model card (default: the name of the folder)")
    parser.add_argument("--licence", metavar="NAME", help="licence of the model, such as cc-by-2.0")
    parser.add_argument(
        "--data-name", metavar="TEXT", help="what it was trained on, in words (default: the name of the file)"
    )
    parser.add_argument(
        "--scores",
        metavar="FILE",
        type=Path,
        help="scores of the test data for the model card, as evaluate --json prints them (default: those of training)",
    )
    parser.add_argument(
        "--onnx",
        action="store_true",
        help="also write the encoder and a step of the decoder as ONNX graphs, checked with ONNX Runtime; not for "
        "fusedmax and other operators that ONNX does not have",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is in DIR")


def run(options: argparse.Namespace) -> None:
    """Writes the folder and says where it is."""
    scores = None if options.scores is None else {"test": _read_scores(options.scores)}
    from omegamax.recipes.model_folder import export_model

    out = export_model(
        options.run_directory,
        options.directory,
        which=options.checkpoint,
        average=options.average,
        name=options.name,
        licence=options.licence,
        data=options.data_name,
        scores=scores,
        onnx=options.onnx,
        overwrite=options.overwrite,
    )
    print(f"the model is in {printable(out)}: {', '.join(sorted(each.name for each in out.iterdir()))}")


def _read_scores(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_user_file(path, _MAX_SCORES))
    except OSError as error:
        raise CommandError(f"cannot read {path} ({os_error_text(error)}); check --scores") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not JSON; write it with omegamax evaluate --json") from error
    if not isinstance(content, dict):
        raise CommandError(f"{path} must be a JSON object of metrics; write it with omegamax evaluate --json")
    return {name: value for name, value in content.items() if isinstance(value, (int, float))}
