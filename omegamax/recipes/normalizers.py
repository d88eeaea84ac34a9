"""Makes the normalizer that the setting `--attention` names.

Hard attention chooses among the positions to which sparsemax gives weight. They are few, so that the loss can sum over
them.
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
_OPERATORS = {HARD: "sparsemax"}  # operators that have another name than the attention


def check_attention(settings: AttentionSettings) -> None:
    """Raises ValueError for a name that does not exist, and for a parameter that the normalizer does not take."""
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
        _make(settings)  # raises ValueError if a number is out of range


def make_normalizer(settings: AttentionSettings) -> SmoothMax:
    """Returns the smoothed maximum that turns scores into weights; hard attention samples from its weights."""
    check_attention(settings)
    if settings.attention == NONE:
        raise ValueError(f"attention {NONE} has no normalizer; choose one of {', '.join(NORMALIZERS)}")
    return _make(settings)


def _make(settings: AttentionSettings) -> SmoothMax:
    name = settings.attention
    values = {parameter: getattr(settings, parameter) for parameter in _PARAMETERS[name]}
    given = {parameter: value for parameter, value in values.items() if value is not None}
    return regularizer(_OPERATORS.get(name, name), **given)
