"""How fast a run is."""

from __future__ import annotations

import time


class Speed:
    """Items per second since it was last restarted, of this process alone: what a resumed run did before is not in it.

    >>> speed = Speed()
    >>> speed.count(100)
    >>> speed.rate() > 0
    True
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """From here on."""
        self._n_items, self._began = 0, time.monotonic()

    def count(self, n_items: int) -> None:
        """So many more."""
        self._n_items += n_items

    def rate(self) -> float:
        """Items per second until now."""
        return round(self._n_items / max(time.monotonic() - self._began, 1e-9), 1)
