"""Shows the progress and the speed of a run: bars on a terminal, plain lines in a file, or nothing."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from omegamax.data.printable import printable
from omegamax.extras import import_for_training


class Progress(ABC):
    """The interface that the training loop calls while it runs."""

    @abstractmethod
    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        """Called when the loop begins, at a step that is not 0 if the run is resumed."""

    @abstractmethod
    def step(self, *, epoch: int, loss: float) -> None:
        """Called after each step, with the number of its epoch, counted from 1."""

    @abstractmethod
    def evaluated(self, n_done: int, n_all: int) -> None:
        """Called after each batch of an evaluation."""

    @abstractmethod
    def epoch(self, record: Mapping[str, Any]) -> None:
        """Called after each epoch, with its line of metrics.jsonl."""

    @abstractmethod
    def message(self, text: str) -> None:
        """Shows a sentence to the person who watches."""

    @abstractmethod
    def close(self) -> None:
        """Called when the loop has ended."""


class Silent(Progress):
    """Shows nothing, for runs inside other programs."""

    def start(self, *, step: int, n_steps: int, epochs: int) -> None: ...

    def step(self, *, epoch: int, loss: float) -> None: ...

    def evaluated(self, n_done: int, n_all: int) -> None: ...

    def epoch(self, record: Mapping[str, Any]) -> None: ...

    def message(self, text: str) -> None: ...

    def close(self) -> None: ...


class Lines(Progress):
    """Prints a line after every epoch, and one every `every` seconds between."""

    def __init__(self, stream: TextIO, *, every: float = 30.0) -> None:
        self._stream, self._every = stream, every

    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        self._first = self._step = step
        self._n_steps, self._epochs = n_steps, epochs
        self._began = self._last_line = time.monotonic()

    def step(self, *, epoch: int, loss: float) -> None:
        self._step += 1
        if time.monotonic() - self._last_line >= self._every:
            self.message(
                f"step {self._step}/{self._n_steps}, epoch {epoch}/{self._epochs}: loss {loss:.4g}{self._time_left()}"
            )

    def evaluated(self, n_done: int, n_all: int) -> None:
        if time.monotonic() - self._last_line >= self._every:
            self.message(f"evaluated {n_done} of {n_all} batches")

    def epoch(self, record: Mapping[str, Any]) -> None:
        self.message(_epoch_line(record, self._epochs) + self._time_left())

    def message(self, text: str) -> None:
        self._last_line = time.monotonic()
        print(_wrap(text), file=self._stream, flush=True)

    def close(self) -> None: ...

    def _time_left(self) -> str:
        done, left = self._step - self._first, self._n_steps - self._step
        if done == 0 or left <= 0:
            return ""
        return f", {duration((time.monotonic() - self._began) / done * left)} left"


class Bars(Progress):
    """Shows one bar for the whole run, with the time left, and a second one while the model is evaluated."""

    def __init__(self, stream: TextIO) -> None:
        self._tqdm, self._stream = import_for_training("tqdm").tqdm, stream
        self._bar: Any = None
        self._evaluation: Any = None
        self._metrics: dict[str, str] = {}

    def start(self, *, step: int, n_steps: int, epochs: int) -> None:
        self._epochs = epochs
        self._bar = self._tqdm(
            total=n_steps, initial=step, unit="step", file=self._stream, dynamic_ncols=True, leave=False
        )

    def step(self, *, epoch: int, loss: float) -> None:
        self._bar.set_description(f"epoch {epoch}/{self._epochs}", refresh=False)
        self._bar.set_postfix({"loss": f"{loss:.4g}", **self._metrics}, refresh=False)
        self._bar.update()

    def evaluated(self, n_done: int, n_all: int) -> None:
        if self._evaluation is None:
            self._evaluation = self._tqdm(
                total=n_all, desc="evaluating", unit="batch", file=self._stream, dynamic_ncols=True, leave=False
            )
        self._evaluation.update(n_done - self._evaluation.n)
        if n_done == n_all:
            self._close_evaluation()

    def epoch(self, record: Mapping[str, Any]) -> None:
        self._metrics = {name: _format(value) for name, value in record["metrics"].items()}
        self.message(_epoch_line(record, self._epochs))

    def message(self, text: str) -> None:
        self._tqdm.write(_wrap(text), file=self._stream)

    def close(self) -> None:
        self._close_evaluation()
        if self._bar is not None:
            self._bar.close()

    def _close_evaluation(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None


def progress_on(stream: TextIO | None = None) -> Progress:
    """Returns bars if the stream is a terminal, otherwise lines. Standard output is left to results."""
    stream = sys.stderr if stream is None else stream
    return Bars(stream) if stream.isatty() else Lines(stream)


@contextmanager
def progress_bar(description: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """Shows a bar on standard error; gives a function of (n_done, n_all) that moves it.

    Gives None if standard error is not a terminal or the bar should not be `shown`.
    """
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    tqdm = import_for_training("tqdm").tqdm
    bar: Any = tqdm(desc=description, unit="batch", file=sys.stderr, dynamic_ncols=True, leave=False)

    def move(n_done: int, n_all: int) -> None:
        bar.total = n_all
        bar.update(n_done - bar.n)

    try:
        yield move
    finally:
        bar.close()


class Speed:
    """Items per second since the last restart. A resumed run does not count what was done before.

    >>> speed = Speed()
    >>> speed.add(100)
    >>> speed.rate() > 0
    True
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begins to count at 0 again."""
        self._n_items, self._began = 0, time.monotonic()

    def add(self, n_items: int) -> None:
        self._n_items += n_items

    def rate(self) -> float:
        """Returns items per second until now."""
        return round(self._n_items / max(time.monotonic() - self._began, 1e-9), 1)


def _wrap(text: str) -> str:
    """Breaks a sentence into lines as wide as the terminal; 80 columns where there is none, and at most 120."""
    width = min(120, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.fill(printable(text), max(20, width), subsequent_indent="  ", break_long_words=False)


def duration(seconds: float) -> str:
    """Writes a duration as a person says it.

    >>> duration(3.2), duration(200), duration(8000)
    ('3 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _epoch_line(record: Mapping[str, Any], epochs: int) -> str:
    numbers = {"loss": record["loss"], **record["metrics"]}
    shown = ", ".join(f"{name} {_format(value)}" for name, value in numbers.items())
    best = " (best)" if record["best"] else ""
    return f"epoch {record['epoch']}/{epochs}: {shown}{best}, {duration(record['seconds'])}"


def _format(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.4g}"
