"""Averages of values: what every attention ends with."""

from __future__ import annotations

from torch import Tensor

from omegamax.attention.padding import only_read


def values_of(who: str, key: Tensor, value: Tensor | None) -> Tensor:
    """The values (..., K, features), by default the keys."""
    value = key if value is None else value
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"{who}: there must be one value per key, got {value.shape[-2]} values and {key.shape[-2]} keys; both have "
            "them on their last axis but one"
        )
    check_averaged(who, "value", value)
    return value


def check_averaged(who: str, name: str, tensor: Tensor) -> None:
    """An average of integers is none: weights of their type would all be 0."""
    if not tensor.is_floating_point():
        raise TypeError(f"{who}: {name} must be floating point, got {tensor.dtype}; convert it with .float()")


def average(weights: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
    """Weights (..., Q, K) · value; a value that no query may attend to is never read, whatever it holds."""
    return weights @ only_read(value, allowed, weights.shape[-2])
