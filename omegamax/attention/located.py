"""What attention that remembers where it looked returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Located(NamedTuple):
    """What location-based attention returns: hand `state` to the next call, which goes on from there."""

    output: Tensor  # (..., Q, features)
    weights: Tensor  # (..., Q, K)
    state: Tensor  # after the last query; what it is the layer says
