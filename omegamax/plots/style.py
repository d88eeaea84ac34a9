"""The style of every figure: the type size of a printed page, and one colour-blind safe colour per operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke

from omegamax.operator_table import HARDMAX, TABLE
from omegamax.plots.typesetting import font_families

COLOURS = {"max": HARDMAX.colour, **{facts.function: facts.colour for facts in TABLE}}
INK = "#333333"  # axes and text
HALO = [withStroke(linewidth=1.6, foreground="white")]  # keeps numbers readable on lines
ZERO = "#D8D8D8"  # a weight that is exactly zero
# In a map of weights exact zeros are masked and grey, so that the least weight above zero, nearly white, stands out.
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#FFFFFF", "#BBD8EC", "#3D93C8", "#00568A", "#002B45"]
).with_extremes(bad=ZERO)

_LINES = ("-", "--", ":", "-.")  # the second run of one operator is dashed, and so on

_STYLE: dict[str, Any] = {
    "text.usetex": False,
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
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 200,
    "savefig.dpi": "figure",
}


@contextmanager
def figure_style(texts: Iterable[object] = ()) -> Iterator[None]:
    """Draws everything inside the with block in our style, and leaves the caller's settings untouched.

    `texts` are the user's own words, which may need fonts of their own.
    """
    settings: dict[str, Any] = {**_STYLE, "font.family": font_families(texts)}
    with matplotlib.rc_context(settings):  # type: ignore[arg-type]
        yield


def colour(name: str) -> str:
    """Returns the colour of an operator, whatever parameters follow its name."""
    return COLOURS.get(operator_of(name), INK)


def palette(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Chooses a colour and a line for each name: operators have their own colour, others take the free ones in turn."""
    names = list(names)
    own = {name: COLOURS[operator_of(name)] for name in names if operator_of(name) in COLOURS}
    free = [colour for colour in dict.fromkeys(COLOURS.values()) if colour not in own.values()] or [INK]
    chosen: dict[str, tuple[str, str]] = {}
    others = 0
    for name in names:
        if name not in own:
            own[name] = free[others % len(free)]
            others += 1
        taken = [line for hue, line in chosen.values() if hue == own[name]]
        chosen[name] = own[name], _LINES[len(taken) % len(_LINES)]
    return chosen


def operator_of(name: str) -> str:
    """Returns the operator's name, without the parameters that follow it."""
    return name.split("(")[0].strip()


def hide_tick_marks(axes: Axes) -> None:
    """Hides the tick marks and keeps their labels."""
    axes.tick_params(length=0)
