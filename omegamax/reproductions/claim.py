"""A claim of a source, and the outcome of computing it here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

Published = Mapping[str, float]


class Row(NamedTuple):
    """One quantity: the published number, ours, and by how much they may differ."""

    quantity: str
    published: str
    ours: str
    within: str
    agrees: bool | None  # None: only shown


@dataclass(frozen=True)
class Outcome:
    """The result of computing a claim: rows of a table and, if it is a figure, a function that draws it."""

    rows: list[Row]
    draw: Callable[[], Any] | None = None  # returns a matplotlib Figure


@dataclass(frozen=True)
class Claim:
    """A statement of a source, and how it is checked: by `run`, `tests`, `benchmark`, `recipe`, or a `reason` why not.

    `run` is "module:function" in this package; the function takes the published numbers and returns an `Outcome`.
    """

    id: str
    source: str  # a key of catalogue.SOURCES
    where: str
    statement: str
    published: Published = field(default_factory=dict)  # the numbers, in the order of the source
    run: str = ""
    holds: bool = True  # False: not true as published; `remark` says why
    remark: str = ""
    tests: tuple[str, ...] = ()  # "tests/file.py::test_name"
    benchmark: str = ""  # a file of benchmarks/
    recipe: str = ""  # the task whose training gives the numbers
    reason: str = ""  # why it cannot be run here, or not on the data of the source
    timed: bool = False  # measures time: ratios depend on the machine
    draws: bool = False  # a figure comes with the numbers

    @property
    def status(self) -> str:
        """Says in a few words how the claim is checked."""
        if self.run:
            return ("runs here" if self.holds else "false as published") + (" (timed)" if self.timed else "")
        if self.tests:
            return "tested"
        if self.benchmark:
            return "benchmark"
        return f"needs a trained recipe: {self.recipe}" if self.recipe else "cannot be run here"

    @property
    def figure(self) -> str:
        """Returns the name of the figure's file; an empty string if there is none."""
        return f"{self.id}.png" if self.draws else ""

    def reproduce(self) -> Outcome:
        """Computes our numbers now, which loads PyTorch."""
        if not self.run:
            raise ValueError(f"reproduce: {self.id} must have something to run, got none: {self.status}; {self.reason}")
        module, function = self.run.split(":")
        outcome: Outcome = getattr(import_module(f"{__package__}.{module}"), function)(self.published)
        return outcome


def near(quantity: str, published: float, ours: float, within: float) -> Row:
    """Makes a row of two numbers, which agree if they differ by at most `within`."""
    agrees = abs(published - ours) <= within
    return Row(quantity, short(published), short(ours), short(within), agrees)


def same(quantity: str, difference: float, within: float = 1e-9) -> Row:
    """Makes a row of two things that should be equal, from the largest difference between them."""
    return Row(quantity, "equal", f"differ by {difference:.1e}", short(within), difference <= within)


def at_most(quantity: str, bound: float, ours: float, slack: float = 1e-9) -> Row:
    """Makes a row of a number that should not exceed a bound."""
    return Row(quantity, f"≤ {short(bound)}", short(ours), short(slack), ours <= bound + slack)


def at_least(quantity: str, bound: float, ours: float, slack: float = 1e-9) -> Row:
    """Makes a row of a number that should reach a bound."""
    return Row(quantity, f"≥ {short(bound)}", short(ours), short(slack), ours >= bound - slack)


def finds(quantity: str, published: str, ours: str, agrees: bool) -> Row:
    """Makes a row of a finding that is not one number."""
    return Row(quantity, published, ours, "", agrees)


def shown(quantity: str, ours: str) -> Row:
    """Makes a row of a number of ours for which nothing was published."""
    return Row(quantity, "", ours, "", None)


def short(number: float) -> str:
    """Writes a number with at most four digits after the point, or with a power of ten if it is tiny or huge.

    >>> short(0.881), short(112.0), short(1e-9), short(3.3e18)
    ('0.881', '112', '1e-09', '3.3e+18')
    """
    number = float(number)
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    if not 1e-3 <= abs(number) < 1e6:
        return f"{number:.2g}"
    return f"{number:.4f}".rstrip("0").rstrip(".")
