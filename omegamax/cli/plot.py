"""The command `omegamax plot`, which draws one figure."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.cli.errors import CommandError
from omegamax.cli.output import check_pictures, save_picture
from omegamax.data.files import read_regular_file
from omegamax.data.printable import printable
from omegamax.training.metrics_log import check_finite

_MAX_COMPARISON = 1 << 28  # bytes of comparison.json

HELP = "draw a figure for a paper: operators, structures, learning curves"
DESCRIPTION = """\
Draws a figure into a file; its ending chooses the format (.png, .pdf, .svg).
Figures of the library need no input; figures of results read run directories
and comparisons."""
EXAMPLES = """\
examples:
  omegamax plot --list                       every figure
  omegamax plot figure2 --out figure2.pdf    max and argmax along [t, 0]
  omegamax plot curves runs/dates-softmax runs/dates-fusedmax --out curves.pdf
  omegamax plot lengths comparisons/dates --out lengths.pdf"""


class Drawing(NamedTuple):
    """A figure that the command can draw."""

    summary: str
    draw: Callable[[Sequence[Path]], Any]
    inputs: str = ""  # what it reads; "" for nothing


def _library(name: str) -> Callable[[Sequence[Path]], Any]:
    def draw(_: Sequence[Path]) -> Any:
        from omegamax import plots

        return getattr(plots, name)()

    return draw


def _row(_: Sequence[Path]) -> Any:
    from omegamax import plots
    from omegamax.cli.operator_table import SCORES, WORDS, operators

    return plots.row_comparison(SCORES, WORDS, regularizers=operators())


def _curves(runs: Sequence[Path]) -> Any:
    from omegamax import plots
    from omegamax.training.metrics_log import METRICS, read_metrics
    from omegamax.training.runs import read_run_config

    curves, metrics = {}, set()
    for name, path in zip(_names(runs), runs):
        config = read_run_config(path)
        if config is None or not (path / METRICS).exists():
            raise CommandError(f"{path} is not a run; give directories that omegamax train has written")
        metrics.add(config["metric"])
        epochs = [record for record in read_metrics(path) if record["event"] == "epoch"]
        curves[name] = [_nan_for_none(record["metrics"].get(config["metric"])) for record in epochs]
    metric = _common_metric(metrics, "runs")
    if not any(curves.values()):
        raise CommandError(f"{runs[0]} has not finished an epoch; wait for it")
    return plots.learning_curves(curves, metric=metric)


def _loss_curves(runs: Sequence[Path]) -> Any:
    from omegamax import plots
    from omegamax.training.metrics_log import METRICS, read_metrics
    from omegamax.training.runs import read_run_config

    curves, intervals = {}, set()
    for name, path in zip(_names(runs), runs):
        config = read_run_config(path)
        if config is None or not (path / METRICS).exists():
            raise CommandError(f"{path} is not a run; give directories that omegamax train has written")
        intervals.add(int(config["training"]["log_every"]))
        curves[name] = [_nan_for_none(record["loss"]) for record in read_metrics(path) if record["event"] == "step"]
    if len(intervals) > 1:
        raise CommandError(f"these runs log every {sorted(intervals)} steps; draw those with the same --log-every")
    if not any(curves.values()):
        raise CommandError(f"{runs[0]} has logged no step; train it longer, or with a smaller --log-every")
    return plots.learning_curves(curves, metric="loss", unit=f"{intervals.pop()} steps")


def _common_metric(metrics: set[str], whose: str) -> str:
    """Returns the metric that all of them watch, in words; raises CommandError if there are several."""
    if len(metrics) > 1:
        raise CommandError(
            f"these {whose} watch different metrics ({', '.join(sorted(metrics))}); draw them one by one"
        )
    return printable(metrics.pop().replace("_", " "), max_length=60)


def _names(paths: Sequence[Path]) -> list[str]:
    """Returns as much of the end of each path as distinguishes them.

    >>> _names([Path("a/softmax"), Path("b/softmax")])
    ['a/softmax', 'b/softmax']
    """
    whole = [path.resolve() for path in paths]  # "." has a name too
    names = [printable(path.name) for path in whole]
    for length in range(2, max(len(path.parts) for path in whole) + 1):
        if len(set(names)) == len(set(whole)):
            break
        names = [printable("/".join(path.parts[-length:])) for path in whole]
    return names


def _nan_for_none(number: float | None) -> float:
    return float("nan") if number is None else number


def _lengths(comparisons: Sequence[Path]) -> Any:
    from omegamax import plots
    from omegamax.comparisons.comparison import COMPARISON

    metrics = set()
    scores: dict[str, dict[Any, float]] = {}
    for name, path in zip(_names(comparisons), comparisons):
        whose = f" ({name})" if len(comparisons) > 1 else ""  # each may have a softmax
        try:
            record = json.loads(read_regular_file(path / COMPARISON, _MAX_COMPARISON))
            metrics.add(str(record["metric"]))
            scores |= {printable(model["name"]) + whose: _by_length(model["by_length"]) for model in record["models"]}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CommandError(f"{path} is not a comparison; give the --out of omegamax compare") from error
    return plots.accuracy_by_length(scores, metric=_common_metric(metrics, "comparisons"))


def _by_length(scores: dict[str, float]) -> dict[Any, float]:
    return {
        printable(name, max_length=20): _nan_for_none(None if score is None else check_finite(name, score))
        for name, score in scores.items()
    }


DRAWINGS: dict[str, Drawing] = {
    "figure2": Drawing("max_Ω and argmax_Ω along [t, 0], figure 2 of the paper", _library("figure2")),
    "row": Drawing("one row of scores under every operator", _row),
    "simplex": Drawing("level sets on the triangle of three weights", _library("simplex_levels")),
    "surfaces": Drawing("argmax_Ω([t1, t2, 0]) as surfaces", _library("argmax_surfaces")),
    "losses": Drawing("the losses of two classes", _library("binary_losses")),
    "denoising": Drawing("total variation denoising", _library("denoising")),
    "alignments": Drawing("hard, soft and sparse alignments of two series", _library("alignment_comparison")),
    "trees": Drawing("dependency arcs with probabilities", _library("dependency_arcs")),
    "curves": Drawing("the metric after each epoch", _curves, "RUN..."),
    "loss-curves": Drawing("the training loss over the steps", _loss_curves, "RUN..."),
    "lengths": Drawing("the metric by length of the input", _lengths, "COMPARISON..."),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the figure, the paths it reads, and the file it is drawn into."""
    parser.add_argument("figure", metavar="FIGURE", nargs="?", help="its name; see --list")
    parser.add_argument("inputs", metavar="PATH", nargs="*", type=Path, help="what it reads, where it reads anything")
    parser.add_argument("--list", action="store_true", help="name the figures and draw nothing")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the picture (default: FIGURE.png)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def run(options: argparse.Namespace) -> None:
    """Draws one figure, or lists them all."""
    if options.list:
        width = max(len(f"{name} {drawing.inputs}") for name, drawing in DRAWINGS.items())
        for name, drawing in DRAWINGS.items():
            print(f"{f'{name} {drawing.inputs}':<{width}}  {drawing.summary}")
        return
    if options.figure is None:
        raise CommandError("give the name of a figure, such as figure2; omegamax plot --list names them all")
    if options.figure not in DRAWINGS:
        close = difflib.get_close_matches(options.figure, DRAWINGS, 1)
        advice = f"did you mean {close[0]}?" if close else "omegamax plot --list names them all"
        raise CommandError(f"there is no figure {options.figure!r}; {advice}")
    drawing = DRAWINGS[options.figure]
    if bool(drawing.inputs) != bool(options.inputs):
        what = f"reads {drawing.inputs}" if drawing.inputs else "reads nothing"
        raise CommandError(f"{options.figure} {what}, got {len(options.inputs)} paths; see omegamax plot --help")
    out = options.out or Path(f"{options.figure}.png")
    check_pictures([out], overwrite=options.overwrite)
    save_picture(drawing.draw(options.inputs), out, chosen=True)
    print(printable(out))
