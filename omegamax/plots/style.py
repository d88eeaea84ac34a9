"""One look for every figure: the type size of a printed page, and one colour-blind safe colour per operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

# Okabe & Ito's palette, without its yellow, which vanishes on white; brown stands in for it.
COLOURS = {
    "max": "#000000",
    "hardmax": "#000000",
    "softmax": "#0072B2",
    "sparsemax": "#E69F00",
    "entmax15": "#009E73",
    "entmax": "#009E73",
    "sqpnormmax": "#CC79A7",
    "fusedmax": "#D55E00",
    "oscarmax": "#56B4E9",
    "groupmax": "#8C6510",
}
INK = "#333333"  # axes and text
ZERO = "#E4E4E4"  # a weight that is exactly zero
# In a map of weights exact zeros, masked, are white, and the least weight above zero is already seen.
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#C7DCEC", "#0072B2", "#002B45"]).with_extremes(bad="white")

_LOOK: dict[str, Any] = {
    "font.family": "STIXGeneral",  # Times-like, and shipped with matplotlib: the same on every machine
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 200,
    "savefig.dpi": "figure",
}


@contextmanager
def look() -> Iterator[None]:
    """Artists made inside have the look; the caller's settings are untouched."""
    with matplotlib.rc_context(_LOOK):  # type: ignore[arg-type]
        yield


def colour(name: str) -> str:
    """The colour of an operator, whatever parameters follow its name."""
    return COLOURS.get(name.split("(")[0].strip(), INK)


def bare(axes: Axes) -> None:
    """Takes the ticks' marks away where the labels alone say enough."""
    axes.tick_params(length=0)
