"""What a look at a data set found, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class DataReport(NamedTuple):
    """Counts of a data set, and what may be wrong with it."""

    counts: Mapping[str, Mapping[str, float]]  # numbers by split, such as {"train": {"sentences": 3394, ...}}
    warnings: Sequence[str]  # one sentence each; none if the data is as it should be
    facts: Mapping[str, Any] = {}  # anything else that a program may want to know, in plain JSON values

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as plain JSON values."""
        counts = {split: dict(numbers) for split, numbers in self.counts.items()}
        return {"counts": counts, "warnings": list(self.warnings), **self.facts}
