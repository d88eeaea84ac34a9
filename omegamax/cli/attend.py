"""`omegamax attend`."""

from __future__ import annotations

import argparse
import math
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.destination import check_pictures, save_picture
from omegamax.cli.evaluate import add_run, loaded
from omegamax.cli.refusal import Refused

HELP = "where a trained model looks, printed or drawn"
DESCRIPTION = """\
Shows the attention of a trained model on your own input: one row for each
output token, one column for each input token. Printed, a dot is a weight of
exactly zero; drawn, grey is."""
EXAMPLES = """\
examples:
  omegamax attend runs/dates-fusedmax "3 March 2017"
  omegamax attend runs/dates-fusedmax "$(printf 'fr\\t3 mars 2017')" --out a.png
  omegamax attend runs/dates-fusedmax "3 March" --form lines --out lines.pdf"""

# Of a weight of exactly zero, and of weights up to 1/4, 1/2, 3/4 and 1.
SHADES = "·░▒▓█"
_PLAIN_SHADES = ".-+*#"  # for terminals that have no others


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, inputs, and a picture to draw."""
    add_run(parser)
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="one input, written as a line for predict")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="draw it instead: .png, .pdf or .svg; several are numbered"
    )
    parser.add_argument("--form", choices=("map", "lines"), default="map", help="of the drawing (default: map)")
    parser.add_argument("--overwrite", action="store_true", help="replace existing pictures")


def run(options: argparse.Namespace) -> None:
    """Prints or draws one map for each input."""
    paths = _paths(options.out, len(options.inputs)) if options.out else []
    check_pictures(paths, overwrite=options.overwrite)
    import torch

    from omegamax.recipes.experiment import read_lines
    from omegamax.recipes.workers import joined

    with joined(options.device) as crew:
        found = loaded(options, crew.device)
        examples = read_lines(found.task, options.inputs)
        with torch.no_grad():
            maps = [each._replace(weights=each.weights.cpu()) for each in found.task.attend(found.model, examples)]
    if not crew.first:
        return
    if not maps:
        raise Refused(f"{options.run_directory} has no attention to show; it reads one fixed vector")
    name = getattr(found.task.settings, "attention", "")
    if not paths:
        shades = SHADES if _can_show(SHADES) else _PLAIN_SHADES
        for each, text in zip(maps, options.inputs):
            print(f"{text}\n{printed(each.rows, each.columns, each.weights, shades)}\n")
    for each, path in zip(maps, paths):
        save_picture(_draw(each, name, options.form), path)
        print(path)


def printed(rows: Sequence[str], columns: Sequence[str], weights: Any, shades: str = SHADES) -> str:
    """A map as text: a shade for each weight, the first for each exact zero; of several heads the mean."""
    if weights.dim() == 3:
        weights = weights.mean(0)
    beside = max(_places(row) for row in rows)
    widths = [max(1, _places(column)) for column in columns]
    named = (column + " " * (width - _places(column)) for column, width in zip(columns, widths))
    lines = [" " * beside + "  " + " ".join(named)]
    for row, line in zip(rows, weights.tolist()):
        cells = [shades[min(4, math.ceil(4 * w))] for w in line]
        shaded = " ".join((cell * width).ljust(width) for cell, width in zip(cells, widths))
        lines.append(f"{' ' * (beside - _places(row))}{row}  {shaded}".rstrip())
    return "\n".join(lines)


def _places(text: str) -> int:
    """Columns of a terminal: two for Chinese and its like, none for marks that stand on other letters."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _paths(out: Path, count: int) -> list[Path]:
    return (
        [out] if count == 1 or not out.stem else [out.with_stem(f"{out.stem}-{place}") for place in range(1, count + 1)]
    )


def _draw(each: Any, name: str, form: str) -> Any:
    from omegamax import plots

    if form == "lines":
        return plots.attention_lines(each.weights, each.rows, each.columns)
    if each.weights.dim() == 3:
        named = {f"head {head}": weights for head, weights in enumerate(each.weights, start=1)}
        return plots.attention_maps(named, each.rows, each.columns)
    clusters = plots.clusters_of(each.weights) if name == "oscarmax" else None
    return plots.attention_map(each.weights, each.rows, each.columns, title=name, clusters=clusters)
