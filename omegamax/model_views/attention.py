"""Collects the attention of one or several models on the same inputs, as the page shows them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegamax.data.printable import printable
from omegamax.errors import DataError
from omegamax.model_views.encoding import MAX_WEIGHTS, AttentionLayers, encode
from omegamax.model_views.sources import ModelAttention, Source

_LONGEST_TEXT = 10_000  # characters of an input that the page repeats


def collect_attention(
    sources: Sequence[Source], lines: Sequence[str] = (), *, max_weights: int = MAX_WEIGHTS
) -> dict[str, Any]:
    """Returns the data of the attention view: for each input, the weights of each model.

    {"inputs": [{"text": ..., "models": [{"name": ..., "normalizer": ..., "note": ..., "parts": [...]}, ...]}, ...]}

    Arguments:
        sources: the models, at least one
        lines: the inputs; without any, each model is asked for examples of its own test data
        max_weights: how many weights the whole page may hold; where there are more, the smallest are left out
    """
    if not sources:
        raise DataError("explore: expected a run or a model, got none; name one")
    found = [source.attend(lines) if lines else source.attend_to_examples() for source in sources]
    if not found[0]:
        raise DataError("explore: expected an input with some text, got none; write one")
    _check_inputs(sources, found, given=bool(lines))
    budget = _Budget(max_weights, n_parts=sum(len(each.parts) for of_model in found for each in of_model))
    inputs = []
    for place, first in enumerate(found[0]):
        models = [_model(source, of_model[place], budget) for source, of_model in zip(sources, found)]
        inputs.append({"text": printable(first.text, max_length=_LONGEST_TEXT), "models": models})
    return {"inputs": inputs}


class _Budget:
    """Divides the weights that the page may hold among the parts that are still to come."""

    def __init__(self, n_weights: int, n_parts: int) -> None:
        self._n_weights, self._n_parts = n_weights, n_parts

    def encode(self, part: AttentionLayers) -> dict[str, Any]:
        encoded = encode(part, max(1, self._n_weights // self._n_parts))
        self._n_weights -= encoded["n_weights"]
        self._n_parts -= 1
        return encoded


def _model(source: Source, each: ModelAttention, budget: _Budget) -> dict[str, Any]:
    return {
        "name": printable(source.name),
        "normalizer": printable(source.normalizer),
        "note": printable(each.note),
        "parts": [budget.encode(part) for part in each.parts],
    }


def _check_inputs(sources: Sequence[Source], found: Sequence[Sequence[ModelAttention]], *, given: bool) -> None:
    """Raises DataError unless all models have read the same inputs."""
    for source, of_model in zip(sources[1:], found[1:]):
        if len(of_model) != len(found[0]):
            raise DataError(
                f"explore: all models must read the same inputs, but {source.name} found {len(of_model)} in them and "
                f"{sources[0].name} {len(found[0])}; explore them one by one"
            )
        same_examples = [each.text for each in of_model] == [each.text for each in found[0]]
        if not given and not same_examples:
            raise DataError(
                f"explore: without an input all models must have the same test data, but those of {source.name} and "
                f"{sources[0].name} differ; write an input after the runs"
            )
