"""What a person sees of a run: bars on a terminal, plain lines in a file, nothing where asked."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TextIO

from omegamax.data.printable import visible
from omegamax.errors import need


class Progress(ABC):
    """Told by the loop what happens."""

    @abstractmethod
    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        """The loop begins, at a step that is not 0 when it was resumed."""

    @abstractmethod
    def step(self, *, epoch: int, loss: float) -> None:
        """One more update, of an epoch counted from 1."""

    @abstractmethod
    def evaluated(self, n_done: int, n_all: int) -> None:
        """One more batch of an evaluation."""

    @abstractmethod
    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch's line of metrics.jsonl."""

    @abstractmethod
    def say(self, text: str) -> None:
        """A remark."""

    @abstractmethod
    def close(self) -> None:
        """The loop has ended."""


class Silent(Progress):
    """Shows nothing."""

    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        """The loop begins."""

    def step(self, *, epoch: int, loss: float) -> None:
        """One more update."""

    def evaluated(self, n_done: int, n_all: int) -> None:
        """One more batch of an evaluation."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch has ended."""

    def say(self, text: str) -> None:
        """A remark."""

    def close(self) -> None:
        """The loop has ended."""


class Lines(Progress):
    """A line after every epoch, and one every so often between."""

    def __init__(self, stream: TextIO, *, every: float = 30.0) -> None:
        self._stream, self._every = stream, every

    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        """The loop begins."""
        self._first = self._step = step
        self._n_steps, self._epochs = n_steps, epochs
        self._began = self._said = time.monotonic()

    def step(self, *, epoch: int, loss: float) -> None:
        """One more update."""
        self._step += 1
        if time.monotonic() - self._said >= self._every:
            self.say(f"step {self._step}/{self._n_steps}, epoch {epoch}/{self._epochs}: loss {loss:.4g}{self._left()}")

    def evaluated(self, n_done: int, n_all: int) -> None:
        """One more batch of an evaluation."""
        if time.monotonic() - self._said >= self._every:
            self.say(f"evaluated {n_done} of {n_all} batches")

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch has ended."""
        self.say(_summary(record, self._epochs) + self._left())

    def say(self, text: str) -> None:
        """A remark."""
        self._said = time.monotonic()
        print(_wrapped(text), file=self._stream, flush=True)

    def close(self) -> None:
        """There is nothing to close."""

    def _left(self) -> str:
        done, left = self._step - self._first, self._n_steps - self._step
        if done == 0 or left <= 0:
            return ""
        return f", {duration((time.monotonic() - self._began) / done * left)} left"


class Bars(Progress):
    """One bar for the whole run, with the time left; a second one while the model is evaluated."""

    def __init__(self, stream: TextIO) -> None:
        self._tqdm, self._stream = need("tqdm").tqdm, stream
        self._bar: Any = None
        self._evaluation: Any = None
        self._metrics: dict[str, str] = {}

    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        """The loop begins."""
        self._epochs = epochs
        self._bar = self._tqdm(
            total=n_steps, initial=step, unit="step", file=self._stream, dynamic_ncols=True, leave=False
        )

    def step(self, *, epoch: int, loss: float) -> None:
        """One more update."""
        self._bar.set_description(f"epoch {epoch}/{self._epochs}", refresh=False)
        self._bar.set_postfix({"loss": f"{loss:.4g}", **self._metrics}, refresh=False)
        self._bar.update()

    def evaluated(self, n_done: int, n_all: int) -> None:
        """One more batch of an evaluation."""
        if self._evaluation is None:
            self._evaluation = self._tqdm(
                total=n_all, desc="evaluating", unit="batch", file=self._stream, dynamic_ncols=True, leave=False
            )
        self._evaluation.update(n_done - self._evaluation.n)
        if n_done == n_all:
            self._close_evaluation()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch has ended."""
        self._metrics = {name: _number(value) for name, value in record["metrics"].items()}
        self.say(_summary(record, self._epochs))

    def say(self, text: str) -> None:
        """A remark."""
        self._tqdm.write(_wrapped(text), file=self._stream)

    def close(self) -> None:
        """The loop has ended."""
        self._close_evaluation()
        if self._bar is not None:
            self._bar.close()

    def _close_evaluation(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None


def shown_on(stream: TextIO | None = None) -> Progress:
    """Bars if a person is watching, else lines. Standard output is left to results."""
    stream = sys.stderr if stream is None else stream
    return Bars(stream) if stream.isatty() else Lines(stream)


def _wrapped(text: str) -> str:
    """A remark in lines of at most 80 columns, or of the terminal's."""
    width = min(120, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.fill(visible(text), max(20, width), subsequent_indent="  ", break_long_words=False)


def duration(seconds: float) -> str:
    """As a person says it.

    >>> duration(3.2), duration(200), duration(8000)
    ('3 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _summary(record: Mapping[str, Any], epochs: int) -> str:
    numbers = {"loss": record["loss"], **record["metrics"]}
    shown = ", ".join(f"{name} {_number(value)}" for name, value in numbers.items())
    best = " (best)" if record["best"] else ""
    return f"epoch {record['epoch']}/{epochs}: {shown}{best}, {duration(record['seconds'])}"


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.4g}"
