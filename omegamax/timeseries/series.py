"""Reads time series from lists and arrays: padded numbers, the length of each series, and nothing that is not finite.

    an array (n, length)               n series of one channel
    an array (n, length, channels)     n series; with channels="first" (n, channels, length)
    a list of n arrays                 series of unequal lengths, each (length,) or (length, channels), or the other way

NaN after the end of a series is padding, as `tslearn.utils.to_time_series_dataset` writes it. NaN before the end is
refused, and so is an empty series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ORDERS = ("last", "first")
_CHANNELS_HELP = 'say channels="first" if the channels come before the times'


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Time series of one number of channels, padded with zeros."""

    values: Tensor  # (n, length, channels), float32 or float64
    lengths: Tensor  # (n,) int64
    from_torch: bool = True  # whether the input was made of tensors: results then are too

    def __len__(self) -> int:
        return self.values.shape[0]

    def select(self, which: slice | Tensor) -> SeriesBatch:
        """Returns some of the series, by a slice or by numbers, with no more padding than they need."""
        lengths = self.lengths[which]
        longest = int(lengths.max()) if lengths.numel() else 0
        return replace(self, values=self.values[which][:, :longest], lengths=lengths)

    def lists(self) -> list[Tensor]:
        """Returns each series (its length, channels) without padding."""
        return [values[:length] for values, length in zip(self.values, self.lengths.tolist())]

    def to(self, dtype: torch.dtype) -> SeriesBatch:
        """Converts the numbers to a type."""
        return replace(self, values=self.values.to(dtype))

    def output(self, result: Tensor) -> Any:
        """Returns a result as what the input was: a tensor, or a NumPy array."""
        return result if self.from_torch else result.numpy()


def as_series(who: str, data: Any, *, channels: str = "last", name: str = "x") -> SeriesBatch:
    """Reads time series.

    Integers become float64, and half types float32. Tensors are read without their gradients.

    Arguments:
        who: the name at the beginning of messages
        data: an array (n, length), an array of three axes, or a list of arrays; NumPy or PyTorch
        channels: "last" for (length, channels), "first" for (channels, length)
        name: what messages call the data

    >>> as_series("me", [[1.0, 2.0, 3.0], [4.0]]).lengths
    tensor([3, 1])
    """
    if channels not in _ORDERS:
        raise ValueError(f'{who}: channels must be "last" or "first", got {channels!r}; {_CHANNELS_HELP}')
    if isinstance(data, SeriesBatch):
        return data
    parts = _parts(who, data, name)
    from_torch = isinstance(data, Tensor) or (
        isinstance(data, (list, tuple)) and any(isinstance(p, Tensor) for p in data)
    )
    if isinstance(parts, Tensor):
        if parts.dim() == 2:
            parts = parts.unsqueeze(-1)
        elif channels == "first":
            parts = parts.mT
        lengths = _lengths(who, parts, name)
        longest = int(lengths.max()) if lengths.numel() else 0
        known = torch.arange(longest) < lengths.unsqueeze(1)
        values = parts[:, :longest]
        if not bool(known.all()):
            values = torch.where(known.unsqueeze(-1), values, 0)
        return SeriesBatch(values.contiguous(), lengths, from_torch)
    return _from_list(who, parts, channels, name, from_torch)


def as_one_series(who: str, data: Any, *, channels: str = "last", name: str = "x") -> SeriesBatch:
    """Reads one series, (length,) or (length, channels), as a batch of one; see `as_series`.

    Arguments:
        who: the name at the beginning of messages
        data: the series
        channels: "last" for (length, channels), "first" for (channels, length)
        name: what messages call the data
    """
    one = _as_tensor(who, data, name)
    if one.dim() not in (1, 2):
        raise ValueError(
            f"{who}: {name} must be one series (length,) or (length, channels), got shape {tuple(one.shape)}; use "
            "cdist for many"
        )
    found = as_series(who, [one], channels=channels, name=name)
    return replace(found, from_torch=isinstance(data, Tensor))


def in_one_type(who: str, x: SeriesBatch, y: SeriesBatch) -> tuple[SeriesBatch, SeriesBatch]:
    """Converts two batches to the wider of their types; they must have the same number of channels."""
    if x.values.shape[-1] != y.values.shape[-1] and len(x) and len(y):
        raise ValueError(
            f"{who}: both sides must have the same number of channels, got {x.values.shape[-1]} and "
            f"{y.values.shape[-1]}; {_CHANNELS_HELP}"
        )
    wide = torch.promote_types(x.values.dtype, y.values.dtype)
    return x.to(wide), y.to(wide)


def _parts(who: str, data: Any, name: str) -> Tensor | list[Tensor]:
    """Returns an array of two or three axes, or a list of series."""
    if isinstance(data, (list, tuple)) or (isinstance(data, np.ndarray) and data.dtype == object):
        if (
            len(data)
            and all(np.ndim(part) == 0 for part in data if not isinstance(part, Tensor))
            and not any(isinstance(part, Tensor) and part.dim() for part in data)
        ):
            raise ValueError(f"{who}: {name} must be a list of series, got a list of numbers; wrap one series as [x]")
        return [_as_tensor(who, part, f"series {i} of {name}") for i, part in enumerate(data)]
    whole = _as_tensor(who, data, name)
    if whole.dim() not in (2, 3):
        raise ValueError(
            f"{who}: {name} must be (n, length), (n, length, channels) or a list of series, got shape "
            f"{tuple(whole.shape)}; wrap one series as [x]"
        )
    return whole


def _as_tensor(who: str, data: Any, name: str) -> Tensor:
    """Converts numbers to a tensor of float32 or float64 on the CPU, without its gradient."""
    if isinstance(data, Tensor):
        found = data.detach()
    else:
        try:
            array = np.asarray(data)
        except ValueError:  # rows of unequal lengths
            array = np.asarray(None)
        if array.dtype.kind not in "fiub":
            kind = type(data).__name__ if array.dtype.kind == "O" else array.dtype
            raise TypeError(f"{who}: {name} must hold numbers, got {kind}; convert it to an array of floats")
        if not array.dtype.isnative or not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = array.astype(array.dtype.newbyteorder("="))
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        if array.dtype.kind == "u":
            array = array.astype(np.float64)
        found = torch.from_numpy(array)
    if found.is_complex():
        raise TypeError(f"{who}: {name} must hold real numbers, got {found.dtype}; give both parts as channels")
    if found.dtype in (torch.float16, torch.bfloat16):
        return found.float()
    return found if found.dtype in (torch.float32, torch.float64) else found.double()


def _from_list(who: str, parts: Sequence[Tensor], channels: str, name: str, from_torch: bool) -> SeriesBatch:
    series: list[Tensor] = []
    for i, part in enumerate(parts):
        if part.dim() not in (1, 2):
            raise ValueError(
                f"{who}: a series of {name} must be (length,) or (length, channels), got shape {tuple(part.shape)} for "
                f"series {i}; give every series as one array"
            )
        one = part.unsqueeze(-1) if part.dim() == 1 else part.mT if channels == "first" else part
        if series and one.shape[1] != series[0].shape[1]:
            raise ValueError(
                f"{who}: all series of {name} must have the same number of channels, got {series[0].shape[1]} in "
                f"series 0 and {one.shape[1]} in series {i}; {_CHANNELS_HELP}"
            )
        series.append(one)
    if not series:
        return SeriesBatch(torch.zeros(0, 0, 1, dtype=torch.float64), torch.zeros(0, dtype=torch.long), from_torch)
    dtype = torch.float64 if any(one.dtype is torch.float64 for one in series) else torch.float32
    lengths = torch.cat([_lengths(who, one.unsqueeze(0), name, first=i) for i, one in enumerate(series)])
    values = torch.zeros(len(series), int(lengths.max()), series[0].shape[1], dtype=dtype)
    for row, one, length in zip(values, series, lengths.tolist()):
        row[:length] = one[:length]
    return SeriesBatch(values, lengths, from_torch)


def _lengths(who: str, values: Tensor, name: str, first: int = 0) -> Tensor:
    """Returns where each series (n, length, channels) ends; what follows must be NaN, and nothing before may be."""
    n, size, n_channels = values.shape
    if n and (size == 0 or n_channels == 0):
        raise ValueError(
            f"{who}: a series of {name} must have at least one time and one channel, got shape ({size}, {n_channels}) "
            f"for series {first}; leave empty series out"
        )
    full = torch.full((n,), size, dtype=torch.long)
    finite = values.isfinite()
    if bool(finite.all()):
        return full
    padding = values.isnan().all(-1)  # (n, length)
    lengths = size - padding.flip(1).long().cumprod(1).sum(1)
    if bool((lengths == 0).any()):
        empty = first + int((lengths == 0).nonzero()[0])
        raise ValueError(
            f"{who}: a series must have at least one number, got series {empty} of {name} with NaN only; leave it out"
        )
    wrong = ~finite & (torch.arange(size) < lengths.unsqueeze(1)).unsqueeze(-1)
    if bool(wrong.any()):
        i, t, channel = wrong.nonzero()[0].tolist()
        came = str(values[i, t, channel].item()).replace("nan", "NaN")
        raise ValueError(
            f"{who}: series must hold finite numbers up to their end, got {came} in series "
            f"{first + i} of {name} at time {t}, channel {channel}; fill the gap, or cut the series there"
        )
    return lengths
