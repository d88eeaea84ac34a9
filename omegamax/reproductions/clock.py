"""How long something takes: the least of several runs, since other work on the machine only ever adds."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(function: Callable[[], object], runs: int = 5) -> float:
    """The least time of several runs, after one that does not count."""
    function()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return min(taken)
