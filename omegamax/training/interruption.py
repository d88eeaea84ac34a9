"""Ctrl-C and SIGTERM ask the loop to stop where its state is whole: between two steps, not within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupted(Exception):  # noqa: N818  (not an error)
    """Raised within an evaluation that was asked to stop."""


class Interruption:
    """A context in which signals are remembered. A second Ctrl-C stops at once, as usual.

    Under torchrun it does not: the launcher repeats the signal to processes that are already saving.
    """

    def __init__(self, *, insistent: bool) -> None:
        self.requested = False
        self._insistent = insistent
        self._prompt = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _notice(self, number: int, frame: FrameType | None) -> None:
        if self.requested and self._insistent and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        if self._prompt:
            self._prompt = False
            raise Interrupted

    @contextlib.contextmanager
    def prompt(self) -> Iterator[None]:
        """A context that a signal ends at once with `Interrupted`: what happens inside may be thrown away."""
        if self.requested:
            raise Interrupted
        self._prompt = True
        try:
            yield
        finally:
            self._prompt = False
