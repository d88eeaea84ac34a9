"""What a trained model did with the test data: what it wrote, and where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from omegamax.training.loading import Loaded
from omegamax.training.task import AttentionMap

_N_COUNTED = 256  # test examples whose attention is counted
_N_SHOWN = 6  # and drawn


class Shown(NamedTuple):
    """One test example."""

    output: str
    target: str
    attention: AttentionMap | None  # None without attention


class Looks(NamedTuple):
    """Some test examples, the same ones for every model of a task."""

    maps: list[AttentionMap]  # of many, to be counted; empty without attention
    shown: list[Shown]  # a few, from short to long


def looks(best: Loaded, outputs: Sequence[str]) -> Looks:
    """Of a model, and what it wrote for each test example."""
    task, examples = best.task, best.task.examples("test")
    places = spread_out([task.length(example) for example in examples], _N_SHOWN)
    chosen = [examples[at] for at in places]
    drawn: Sequence[AttentionMap | None] = _attend(best, chosen) or [None] * len(chosen)
    shown = [
        Shown(outputs[at], getattr(examples[at], "target", ""), each) for at, each in zip(places, drawn, strict=True)
    ]
    return Looks(_attend(best, examples[:_N_COUNTED]), shown)


def spread_out(lengths: Sequence[int], count: int) -> list[int]:
    """Positions of some lengths between the shortest and the longest, evenly by rank.

    >>> spread_out([9, 1, 5, 3, 7, 2], 3)
    [5, 2, 0]
    """
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    step = max(1, len(order) // count)
    return order[step // 2 :: step][:count]


def _attend(best: Loaded, examples: Sequence[Any]) -> list[AttentionMap]:
    if not len(examples):
        return []
    with torch.no_grad():
        maps = best.task.attend(best.model, examples)
    return [each._replace(weights=each.weights.cpu()) for each in maps]
