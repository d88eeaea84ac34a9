"""Reads groups of positions in any of their forms, and turns them into one number for every position, from 0."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def check_groups(who: str, groups: Any) -> tuple[int, ...]:
    """Returns a group number for every position, from a sequence of ints, an integer tensor, or lists of positions."""
    if isinstance(groups, Tensor):
        if groups.dim() != 1 or groups.is_floating_point() or groups.dtype is torch.bool:
            raise TypeError(
                f"{who}: groups must be a 1-d integer Tensor, got {groups.dtype} of shape {tuple(groups.shape)}; "
                "give each position the number of its group"
            )
        groups = groups.tolist()
    if not isinstance(groups, Iterable):
        raise TypeError(
            f"{who}: groups must be a sequence, got {type(groups).__name__}; give each position the number of its group"
        )
    groups = tuple(groups)
    kinds = set(map(type, groups))
    if kinds != {int}:
        groups = tuple(map(_plain, groups))
        kinds = {type(entry) for group in groups for entry in (group if isinstance(group, tuple) else (group,))}
    if kinds == {int} and not torch.compiler.is_compiling():  # True == 1 == 1.0: only ints are known by their value
        return _remembered(who, groups)
    return _numbered(who, groups)


def _plain(entry: Any) -> Any:
    """Converts a group of NumPy or PyTorch to a number, or a tuple of numbers."""
    entry = entry.tolist() if hasattr(entry, "tolist") else entry
    return tuple(map(_plain, entry)) if isinstance(entry, Iterable) and not isinstance(entry, str) else entry


def _numbered(who: str, groups: tuple[Any, ...]) -> tuple[int, ...]:
    """Numbers the groups of all positions in order, from 0 without gaps."""
    labels = list(groups)
    listed = bool(labels) and all(isinstance(group, tuple) for group in labels)
    entries = [position for group in labels for position in group] if listed else labels
    if any(not isinstance(entry, int) or isinstance(entry, bool) for entry in entries):
        raise TypeError(f"{who}: groups must hold ints, got {labels}; give each position its group's number")
    if listed:
        labels = _labels_from_positions(who, [list(group) for group in labels])
    if any(g < 0 for g in labels):
        raise ValueError(f"{who}: groups must be numbered from 0, got {labels}; give each position its group's number")
    order = {name: number for number, name in enumerate(sorted(set(labels)))}
    return tuple(order[g] for g in labels)


# A network calls with the same groups again and again.
_remembered = functools.lru_cache(maxsize=64)(_numbered)


def _labels_from_positions(who: str, groups: list[list[int]]) -> list[int]:
    positions = sorted(position for group in groups for position in group)
    if positions != list(range(len(positions))):
        raise ValueError(
            f"{who}: groups must partition the positions 0..{max(positions, default=0)}, got {groups}; "
            "list every position exactly once"
        )
    labels = [0] * len(positions)
    for number, group in enumerate(groups):
        for position in group:
            labels[position] = number
    return labels


def check_group_count(who: str, groups: tuple[int, ...], columns: int) -> None:
    """Checks that the groups cover the row."""
    if len(groups) != columns:
        raise ValueError(
            f"{who}: groups must partition a row of {columns} scores, got {len(groups)} positions; "
            "list every position exactly once"
        )
