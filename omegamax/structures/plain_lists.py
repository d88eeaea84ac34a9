"""Converts lists, tuples, ranges, tensors, arrays, or a mixture, to nested lists of Python numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def plain_lists(given: Any) -> Any:
    """Returns the same numbers in lists; a number comes back as it is.

    >>> plain_lists([(0, 1), torch.tensor([2, 3])])
    [[0, 1], [2, 3]]
    """
    if hasattr(given, "tolist"):
        return given.tolist()
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given
    return [plain_lists(one) for one in given]
