"""Collects the attention of one or several models on the same inputs, as the page shows them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    shares = iter(_shares([part for of_input in zip(*found) for each in of_input for part in each.parts], max_weights))
    inputs = []
    for place, first in enumerate(found[0]):
        models = [_model(source, of_model[place], shares) for source, of_model in zip(sources, found)]
        inputs.append({"text": printable(first.text, max_length=_LONGEST_TEXT), "models": models})
    return {"inputs": inputs}


def _shares(parts: Sequence[AttentionLayers], max_weights: int) -> list[int]:
    """Returns how many weights of each part the page may hold; what small parts do not need is left to large ones."""
    sizes = [int(part.weights.count_nonzero()) for part in parts]
    shares, left = [0] * len(parts), max_weights
    for n_done, place in enumerate(sorted(range(len(parts)), key=lambda place: sizes[place])):
        shares[place] = max(1, min(sizes[place], left // (len(parts) - n_done)))
        left -= shares[place]
    return shares


def _model(source: Source, each: ModelAttention, shares: Iterator[int]) -> dict[str, Any]:
    return {
        "name": printable(source.name),
        "normalizer": printable(source.normalizer),
        "note": printable(each.note),
        "parts": [encode(part, next(shares)) for part in each.parts],
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
