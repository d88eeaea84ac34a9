"""The command `omegamax attend`, which prints or draws the attention of a trained model."""

from __future__ import annotations

import argparse
import json
import math
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.cli.evaluate import add_run, choose_threads, load_run
from omegamax.cli.lines import read_input
from omegamax.cli.output import check_pictures, save_picture
from omegamax.data.printable import printable

HELP = "print or draw the attention of a trained model"
DESCRIPTION = """\
Shows the attention of a trained model on your own input: one row for each
output token, one column for each input token. Printed, a dot is a weight of
exactly zero; drawn, grey is. Of a tagger it shows how likely each tag of each
word is, and draws the lattice of tags."""
EXAMPLES = """\
examples:
  omegamax attend runs/dates-fusedmax "3 March 2017"
  omegamax attend runs/dates-fusedmax "$(printf 'fr\\t3 mars 2017')" --out a.png
  omegamax attend runs/dates-fusedmax "3 March" --form lines --out lines.pdf
  omegamax attend runs/fr-en-softmax "$(cat sentence.txt)" --out figure4.png \\
      --beside runs/fr-en-sparsemax --beside runs/fr-en-fusedmax
  omegamax attend runs/tagger-l2 "Ada flew to New Tarin" --out lattice.png
  omegamax attend runs/dates-fusedmax --file dates.txt --json > weights.jsonl"""

# Shades of a weight of exactly zero, and of weights up to 1/4, 1/2, 3/4 and 1.
SHADES = "·░▒▓█"
_PLAIN_SHADES = ".-+*#"  # for terminals that have no others


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, the inputs, and the picture to draw."""
    add_run(parser)
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help="one input, written as a line for predict")
    parser.add_argument("--file", metavar="FILE", type=Path, help="more inputs, one per line")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per line instead: input, rows, columns, weights of rows x columns (of heads x rows "
        "x columns where there are several)",
    )
    form.add_argument(
        "--out", metavar="FILE", type=Path, help="draw it instead: .png, .pdf or .svg; several are numbered"
    )
    parser.add_argument(
        "--form",
        choices=("map", "lines", "structure"),
        help="a map of cells, lines between words, or the task's own picture, such as a tagger's lattice of tags "
        "(default: the task's own if it has one, otherwise a map)",
    )
    parser.add_argument(
        "--beside",
        metavar="RUN",
        type=Path,
        action="append",
        default=[],
        help="draw the attention of another run on the same input in the same picture; may be given several times",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing pictures")


def run(options: argparse.Namespace) -> None:
    """Prints or draws one attention map for each input."""
    inputs = [*options.inputs, *(read_input(options.file) if options.file else [])]
    if not inputs:
        raise CommandError("expected an input, got none; write one after RUN, or name a file of them with --file")
    if options.beside and not options.out:
        raise CommandError("--beside draws several runs in one picture, got no name of it; add --out FILE")
    paths = _paths(options.out, len(inputs)) if options.out else []
    check_pictures(paths, overwrite=options.overwrite)
    from omegamax.training.processes import join_processes

    with join_processes(options.device) as processes:
        found = load_run(options, processes.device)
        maps, figures = _attention_maps(options, found, inputs, processes)
        others = [_other_maps(options, path, inputs, processes) for path in options.beside]
    if not processes.is_rank_zero:
        return
    if not maps:
        raise CommandError(f"{options.run_directory} has no attention to show; it reads one fixed vector")
    if options.json:
        for each, text in zip(maps, inputs):
            print(_record(each, text))
    elif paths:
        if others:
            named = [(_title(found), maps), *others]
            figures = [draw_beside(_by_name(named, place)) for place in range(len(maps))]
        for figure, path in zip(figures or _drawn(maps, found, options.form), paths):
            save_picture(figure, path, chosen=path == options.out)
            print(printable(path))
    else:
        shades = SHADES if _can_show(SHADES) else _PLAIN_SHADES
        for each, text in zip(maps, inputs):
            rows, columns, weights, always_positive = _with_printable_tokens(each)
            table = format_map(rows, columns, weights, shades, exact_zeros=not always_positive)
            print(f"{printable(text)}\n{table}\n")


def _attention_maps(
    options: argparse.Namespace, found: Any, inputs: Sequence[str], processes: Any
) -> tuple[list[Any], list[Any]]:
    """Returns a map for each input, and a figure for each if the task draws them itself and they are wanted."""
    import torch

    from omegamax.recipes.tasks import read_examples

    examples = read_examples(found.task, inputs)
    maps: list[Any] = []
    figures: list[Any] = []
    with torch.no_grad(), choose_threads(options, found, examples, processes):
        for start in range(0, len(examples), options.batch_size):
            some = examples[start : start + options.batch_size]
            maps += [each._replace(weights=each.weights.cpu()) for each in found.task.attend(found.model, some)]
            if options.out and options.form in (None, "structure"):
                figures += found.task.draw(found.model, some)
    if options.out and options.form == "structure" and not figures:
        raise CommandError(f"{options.run_directory} is a task without a picture of its own; choose another --form")
    return maps, figures


def _other_maps(
    options: argparse.Namespace, path: Path, inputs: Sequence[str], processes: Any
) -> tuple[str, list[Any]]:
    """Returns the name of another run's attention, and its map for each input."""
    other = argparse.Namespace(**{**vars(options), "run_directory": path, "form": "map", "batch_size": None})
    found = load_run(other, processes.device)
    maps, _ = _attention_maps(other, found, inputs, processes)
    if not maps:
        raise CommandError(f"{path} has no attention to show; leave it out of --beside")
    return _title(found), maps


def _title(found: Any) -> str:
    return getattr(found.task.settings, "attention", "") or found.path.name


def _by_name(named: Sequence[tuple[str, Sequence[Any]]], place: int) -> dict[str, Any]:
    """Returns the map of each run for one input; runs of the same name are numbered."""
    found: dict[str, Any] = {}
    for name, maps in named:
        same = sum(other == name or other.startswith(f"{name} (") for other in found)
        found[f"{name} ({same + 1})" if same else name] = _with_printable_tokens(maps[place])
    return found


def draw_beside(maps: Mapping[str, Any]) -> Any:
    """Draws maps of one input by several models: bars where each has one row of weights, else maps side by side.

    Of several heads it draws the mean.

    Arguments:
        maps: `AttentionMap`s by the name of the attention
    """
    from omegamax import plots

    weights = {name: each.weights.mean(0) if each.weights.dim() == 3 else each.weights for name, each in maps.items()}
    exact = {name: not each.always_positive for name, each in maps.items()}
    columns = {name: list(each.columns) for name, each in maps.items()}
    first = next(iter(columns.values()))
    if all(len(each) == 1 for each in weights.values()) and all(each == first for each in columns.values()):
        return plots.attention_bars({f"{name}: {maps[name].rows[0]}": each[0] for name, each in weights.items()}, first)
    clusters = {name: plots.clusters_of(each) for name, each in weights.items() if name.startswith("oscarmax")}
    rows = {name: list(each.rows) for name, each in maps.items()}
    return plots.attention_maps(weights, rows, columns, clusters=clusters, exact_zeros=exact)


def _drawn(maps: Sequence[Any], found: Any, form: str | None) -> list[Any]:
    name = getattr(found.task.settings, "attention", "")
    return [_draw(_with_printable_tokens(each), name, form or "map") for each in maps]


def _with_printable_tokens(each: Any) -> Any:
    """Returns the map with printable tokens: a vocabulary may hold anything."""
    return each._replace(rows=[*map(printable, each.rows)], columns=[*map(printable, each.columns)])


def _record(each: Any, text: str) -> str:
    content = {"input": text, "rows": list(each.rows), "columns": list(each.columns)}
    return json.dumps(content | {"weights": each.weights.tolist()})


def format_map(
    rows: Sequence[str], columns: Sequence[str], weights: Any, shades: str = SHADES, *, exact_zeros: bool = True
) -> str:
    """Writes a map as text: a shade for each weight, the first for each exact zero; of several heads the mean."""
    if weights.dim() == 3:
        weights = weights.mean(0)
    beside = max(_columns(row) for row in rows)
    widths = [max(1, _columns(column)) for column in columns]
    named = (column + " " * (width - _columns(column)) for column, width in zip(columns, widths))
    lines = [" " * beside + "  " + " ".join(named)]
    for row, line in zip(rows, weights.tolist()):
        cells = [shades[max(0 if exact_zeros else 1, min(4, math.ceil(4 * w)))] for w in line]
        shaded = " ".join((cell * width).ljust(width) for cell, width in zip(cells, widths))
        lines.append(f"{' ' * (beside - _columns(row))}{row}  {shaded}".rstrip())
    return "\n".join(lines)


def _columns(text: str) -> int:
    """Counts columns of a terminal: two for Chinese and its like, none for marks that stand on other letters."""
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

    exact = not each.always_positive
    if form == "lines":
        return plots.attention_lines(each.weights, each.rows, each.columns, exact_zeros=exact)
    if each.weights.dim() == 3:
        named = {f"head {head}": weights for head, weights in enumerate(each.weights, start=1)}
        return plots.attention_maps(named, each.rows, each.columns, exact_zeros=exact)
    clusters = plots.clusters_of(each.weights) if name == "oscarmax" else None
    return plots.attention_map(each.weights, each.rows, each.columns, title=name, clusters=clusters, exact_zeros=exact)
