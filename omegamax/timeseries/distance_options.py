"""The options that a distance by name takes."""

from __future__ import annotations

from typing import Any


def distance_options(distance: str, window: Any, gamma: float) -> dict[str, Any]:
    """Returns the options of `cdist` and `nearest` that a distance has: the temperature is for smoothed ones."""
    has_gamma = distance in ("soft_dtw", "soft_dtw_divergence", "sparse_dtw")
    return {"distance": distance, "window": window, **({"gamma": float(gamma)} if has_gamma else {})}
