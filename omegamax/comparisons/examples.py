"""The outputs and the attention of a trained model on some test examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from omegamax.training.prediction import TrainedModel
from omegamax.training.task import AttentionMap

_N_COUNTED = 256  # test examples whose attention goes into the statistics
_N_SHOWN = 6  # test examples that are drawn


class ShownExample(NamedTuple):
    """One test example, with the output of a model."""

    output: str
    target: str
    attention: AttentionMap | None  # None without attention


class AttentionExamples(NamedTuple):
    """The attention of a model on test examples, which are the same for every model of a task."""

    maps: list[AttentionMap]  # of many examples, for statistics; empty without attention
    shown: list[ShownExample]  # a few examples, from short to long


def collect_examples(best: TrainedModel, outputs: Sequence[str]) -> AttentionExamples:
    """Collects the attention of a model on test examples; `outputs` are the lines of `assess` for all of them."""
    task, examples = best.task, best.task.examples("test")
    places = spread_out([task.length(example) for example in examples], _N_SHOWN)
    chosen = [examples[at] for at in places]
    drawn: Sequence[AttentionMap | None] = _attend(best, chosen) or [None] * len(chosen)
    shown = [
        ShownExample(outputs[at].partition("\t")[0], getattr(examples[at], "target", ""), each)
        for at, each in zip(places, drawn, strict=True)
    ]
    return AttentionExamples(_attend(best, examples[:_N_COUNTED]), shown)


def spread_out(lengths: Sequence[int], count: int) -> list[int]:
    """Returns the positions of `count` lengths from the shortest to the longest, evenly by rank.

    >>> spread_out([9, 1, 5, 3, 7, 2], 3)
    [5, 2, 0]
    """
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    step = max(1, len(order) // count)
    return order[step // 2 :: step][:count]


def _attend(best: TrainedModel, examples: Sequence[Any]) -> list[AttentionMap]:
    if not len(examples):
        return []
    with torch.no_grad():
        maps = best.task.attend(best.model, examples)
    return [each._replace(weights=each.weights.cpu()) for each in maps]
