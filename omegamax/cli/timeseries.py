"""The command `omegamax timeseries`: distances, neighbours, classes, clusters, means and alignments of series in files.

The options are here, and `timeseries_results.py` computes and prints.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.cli.errors import as_command_errors
from omegamax.cli.parser import Parser, at_least, positive
from omegamax.data.printable import printable

HELP = "distances, neighbours, classes, clusters and means of time series"
DESCRIPTION = """\
Compares time series in files by dynamic time warping and its smoothed forms.
Files are .ts (UCR and UEA archives), .csv and .tsv (one line for each series,
its label first; or long, with columns series, time, ... and label), .npy, .npz
or .parquet. Series may have several channels and unequal lengths. Text files
may be compressed (.gz, .xz)."""
EXAMPLES = """\
examples:
  omegamax timeseries classify GunPoint_TRAIN.ts GunPoint_TEST.ts
  omegamax timeseries classify TRAIN.ts TEST.ts --window learned
  omegamax timeseries distance TRAIN.ts --out distances.png
  omegamax timeseries neighbours TEST.ts TRAIN.ts --neighbours 3 --json
  omegamax timeseries cluster TRAIN.ts --clusters 4 --out clusters.png
  omegamax timeseries barycenter TRAIN.ts --by-label --out means.ts
  omegamax timeseries align TRAIN.ts 0 7 --window 10% --out align.png"""

_DISTANCES = ("dtw", "soft_dtw", "soft_dtw_divergence", "sparse_dtw", "euclidean")
_SMOOTHED = _DISTANCES[1:4]


class _Command(NamedTuple):
    """One of the commands: its texts, and what adds its options."""

    help: str
    description: str
    examples: str
    add: Callable[[argparse.ArgumentParser], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each command."""
    commands = parser.add_subparsers(dest="timeseries", metavar="command", required=True, parser_class=Parser)
    for name, command in _COMMANDS.items():
        commands.add_parser(
            name,
            help=command.help,
            description=command.description,
            epilog=f"examples:\n{command.examples}",
            fill=partial(_fill, command),
        )


def run(options: argparse.Namespace) -> None:
    """Runs one of the commands."""
    from omegamax.cli import timeseries_results

    with as_command_errors(ValueError, TypeError):
        getattr(timeseries_results, options.timeseries)(options)


def window(text: str, *, learned: bool = False) -> Any:
    """Reads --window: `none`, steps, a fraction with a point, a percentage, or, where allowed, `learned`.

    >>> window("none"), window("5"), window("0.1"), window("10%")
    (None, 5, 0.1, 0.1)
    """
    if text == "none" or (learned and text == "learned"):
        return None if text == "none" else text
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = math.nan
    whole = "%" not in text and "." not in text
    if not (0 <= number < 10**9 if whole else 0 <= number <= 1):
        raise argparse.ArgumentTypeError(
            f"must be none, a number of steps (5), a fraction (0.1) or a percentage (10%) of the longest series"
            f"{', or learned' if learned else ''}, got {printable(text, max_length=30)!r}"
        )
    return int(number) if whole else number


def _fill(command: _Command, parser: argparse.ArgumentParser) -> None:
    command.add(parser)
    reading = parser.add_argument_group("how files are read")
    reading.add_argument(
        "--label", choices=("first", "last", "none"), default="first", help="where a line of CSV has its label (first)"
    )
    reading.add_argument(
        "--missing",
        choices=("error", "interpolate"),
        default="error",
        help="missing numbers in the middle of a series: an error, or filled in (error)",
    )
    reading.add_argument(
        "--channels", choices=("last", "first"), default="last", help="the axis of channels of .npy and .npz (last)"
    )


def _add_distance(parser: argparse.ArgumentParser, names: tuple[str, ...] = _DISTANCES, default: str = "dtw") -> None:
    parser.add_argument("--distance", choices=names, default=default, help=f"how series are compared ({default})")
    parser.add_argument(
        "--gamma", type=positive(1e6), default=1.0, help="the temperature of smoothed distances: near 0 is dtw (1)"
    )


def _add_window(parser: argparse.ArgumentParser, *, learned: bool = False) -> None:
    also = "; learned: by leave-one-out cross validation" if learned else ""
    parser.add_argument(
        "--window",
        type=partial(window, learned=learned),
        default=None,
        metavar="W",
        help=f"how far a path may leave the diagonal: 5 steps, 0.1 or 10%% of the longest series (none){also}",
    )


def _add_output(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", metavar="FILE", type=Path, help=what)
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=at_least(0, 2**31 - 1), default=0, help="of the first centres (0)")


def _add_distance_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="series")
    parser.add_argument("other", metavar="OTHER", type=Path, nargs="?", help="other series; without: the same")
    _add_distance(parser)
    _add_window(parser)
    _add_output(parser, "the matrix: .npy or .csv, or a picture of it: .png, .pdf or .svg")
    parser.add_argument("--tree", action="store_true", help="draw the tree of agglomerative clustering instead")


def _add_neighbours(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queries", metavar="QUERIES", type=Path, help="series whose neighbours are wanted")
    parser.add_argument("references", metavar="REFERENCES", type=Path, help="series among which they are found")
    parser.add_argument("--neighbours", type=at_least(1), default=1, metavar="K", help="how many (1)")
    _add_distance(parser)
    _add_window(parser)
    _add_output(parser, "the neighbours: .csv")


def _add_classify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="TRAIN", type=Path, help="series with labels")
    parser.add_argument(
        "test", metavar="TEST", type=Path, help="series to classify; their labels, if any, are compared"
    )
    parser.add_argument(
        "--method",
        choices=("neighbours", "centroid", "svm"),
        default="neighbours",
        help="nearest neighbours, the nearest mean, or a support vector machine (neighbours)",
    )
    parser.add_argument("--neighbours", type=at_least(1), default=1, metavar="K", help="how many neighbours vote (1)")
    _add_distance(parser)
    _add_window(parser, learned=True)
    _add_output(parser, "the classes: .csv")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="series")
    parser.add_argument("--clusters", type=at_least(1), default=3, metavar="K", help="how many (3)")
    _add_distance(parser, (*_SMOOTHED, "euclidean"), "soft_dtw")
    parser.add_argument("--runs", type=at_least(1, 1000), default=1, help="first centres to try; the best is kept (1)")
    _add_seed(parser)
    _add_output(parser, "the clusters: .csv, or a picture: .png, .pdf or .svg")


def _add_barycenter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="series")
    parser.add_argument("--by-label", action="store_true", help="one mean for each label")
    parser.add_argument("--length", type=at_least(1), help="times of the mean (those of the longest series)")
    _add_distance(parser, (*_SMOOTHED, "euclidean"), "soft_dtw")
    _add_output(parser, "the means: .ts, .csv, .npz or .parquet, or a picture: .png, .pdf or .svg")


def _add_align(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="series")
    parser.add_argument("first", metavar="I", type=at_least(0), help="the number of a series, from 0")
    parser.add_argument("second", metavar="J", type=at_least(0), help="the number of another one")
    parser.add_argument("--other", metavar="FILE", type=Path, help="the file of series J, if it is another one")
    _add_distance(parser)
    _add_window(parser)
    _add_output(parser, "a picture: .png, .pdf or .svg; or the path: .csv")


_COMMANDS: dict[str, _Command] = {
    "distance": _Command(
        "the distances between all series of a file, or of two",
        """\
Computes the matrix of distances, prints how large they are, and writes or draws
it. DTW is the sum of squares along the path, without a root.""",
        """\
  omegamax timeseries distance TRAIN.ts
  omegamax timeseries distance TRAIN.ts TEST.ts --window 5% --out d.npy
  omegamax timeseries distance TRAIN.ts --out matrix.png
  omegamax timeseries distance TRAIN.ts --tree --out tree.pdf""",
        _add_distance_command,
    ),
    "neighbours": _Command(
        "the nearest series of each query",
        """\
Finds the nearest references of each query, exactly; lower bounds and early
abandoning spare most of the work for dtw, and the last line says how much.""",
        """\
  omegamax timeseries neighbours TEST.ts TRAIN.ts
  omegamax timeseries neighbours a.csv b.csv --neighbours 5 --out near.csv""",
        _add_neighbours,
    ),
    "classify": _Command(
        "the classes of series, by examples",
        """\
Classifies series and, where they have labels, counts the errors. One nearest
neighbour under dtw with a learned window is the baseline of the UCR archive.""",
        """\
  omegamax timeseries classify TRAIN.ts TEST.ts
  omegamax timeseries classify TRAIN.ts TEST.ts --window learned
  omegamax timeseries classify TRAIN.ts TEST.ts --method centroid --gamma 0.1
  omegamax timeseries classify TRAIN.ts TEST.ts --out classes.csv""",
        _add_classify,
    ),
    "cluster": _Command(
        "clusters of similar series, by k-means",
        """\
Groups series around their means under soft-DTW. If the file has labels, the
table shows how many series of each label a cluster has.""",
        """\
  omegamax timeseries cluster TRAIN.ts --clusters 4
  omegamax timeseries cluster TRAIN.ts --clusters 4 --out clusters.png
  omegamax timeseries cluster TRAIN.ts --distance soft_dtw_divergence --json""",
        _add_cluster,
    ),
    "barycenter": _Command(
        "the mean of series under soft-DTW",
        """\
Finds the series with the least mean distance to the given ones; they may have
unequal lengths.""",
        """\
  omegamax timeseries barycenter TRAIN.ts --out mean.ts
  omegamax timeseries barycenter TRAIN.ts --by-label --gamma 0.1 --out m.png""",
        _add_barycenter,
    ),
    "align": _Command(
        "how two series match",
        """\
Finds the best warping path of two series, the most likely one for smoothed
distances, and prints or draws it.""",
        """\
  omegamax timeseries align TRAIN.ts 0 1
  omegamax timeseries align TRAIN.ts 0 1 --window 10% --out align.png""",
        _add_align,
    ),
}
