"""From the settings' strings to objects: the normalizer that `--attention` names.

Hard attention chooses among the places that sparsemax leaves: they are few, so that the sum over them can be taken.
"""

from __future__ import annotations

import dataclasses
import difflib

from omegamax import operator_table
from omegamax.recipes.settings import AttentionSettings
from omegamax.registry import regularizer
from omegamax.smoothmax import SmoothMax

# Each name with the parameters that it takes.
NORMALIZERS: dict[str, tuple[str, ...]] = {
    facts.function: ("gamma", *facts.options) for facts in operator_table.for_attention()
}
HARD, NONE = "hard", "none"
_PARAMETERS = {**NORMALIZERS, HARD: ("gamma",), NONE: ()}
_OPERATORS = {HARD: "sparsemax"}  # where it has another name


def check_attention(settings: AttentionSettings) -> None:
    """A name that exists, and no parameter that it does not take."""
    name = settings.attention
    if name not in _PARAMETERS:
        close = difflib.get_close_matches(name, _PARAMETERS, n=2)
        advice = f"did you mean {' or '.join(close)}?" if close else "choose one of these"
        raise ValueError(f"attention must be one of {', '.join(_PARAMETERS)}, got {name!r}; {advice}")
    for field in dataclasses.fields(AttentionSettings):
        given = getattr(settings, field.name) != field.default
        if field.name != "attention" and given and field.name not in _PARAMETERS[name]:
            takers = [other for other, taken in _PARAMETERS.items() if field.name in taken]
            raise ValueError(
                f"attention {name} takes no {field.name}, got {getattr(settings, field.name)}; "
                f"leave it out, or choose {' or '.join(takers)}"
            )
    if name != NONE:
        _built(settings)  # speaks up where a number is out of range


def normalizer_of(settings: AttentionSettings) -> SmoothMax:
    """The smoothed maximum that turns scores into weights; for hard attention, the one that is chosen from."""
    check_attention(settings)
    if settings.attention == NONE:
        raise ValueError(f"attention {NONE} has no normalizer; choose one of {', '.join(NORMALIZERS)}")
    return _built(settings)


def _built(settings: AttentionSettings) -> SmoothMax:
    name = settings.attention
    values = {parameter: getattr(settings, parameter) for parameter in _PARAMETERS[name]}
    given = {parameter: value for parameter, value in values.items() if value is not None}
    return regularizer(_OPERATORS.get(name, name), **given)
