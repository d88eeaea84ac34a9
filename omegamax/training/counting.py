"""A bar for something that is counted, where a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from omegamax.errors import need


@contextmanager
def counting(what: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A function `tick(n_done, n_all)` that moves a bar on standard error; None where nobody would see it."""
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    bar: Any = need("tqdm").tqdm(desc=what, unit="batch", file=sys.stderr, dynamic_ncols=True, leave=False)

    def tick(n_done: int, n_all: int) -> None:
        bar.total = n_all
        bar.update(n_done - bar.n)

    try:
        yield tick
    finally:
        bar.close()
