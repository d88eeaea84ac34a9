"""From the settings' strings to objects: the normalizer that `--attention` names."""

from __future__ import annotations

import dataclasses
import difflib

from omegamax.recipes.settings import AttentionSettings
from omegamax.registry import regularizer
from omegamax.smoothmax import SmoothMax

# Each name with the parameters that it takes.
NORMALIZERS: dict[str, tuple[str, ...]] = {
    "softmax": ("gamma",),
    "sparsemax": ("gamma",),
    "entmax15": ("gamma",),
    "entmax": ("gamma", "alpha"),
    "sqpnormmax": ("gamma", "p"),
    "fusedmax": ("gamma", "strength"),
    "oscarmax": ("gamma", "strength"),
}
HARD, NONE = "hard", "none"
_PARAMETERS = {**NORMALIZERS, HARD: ("gamma",), NONE: ()}


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
    if name in NORMALIZERS:
        _built(settings)  # speaks up where a number is out of range


def normalizer_of(settings: AttentionSettings) -> SmoothMax:
    """The smoothed maximum under an attention that averages."""
    check_attention(settings)
    if settings.attention not in NORMALIZERS:
        raise ValueError(
            f"attention {settings.attention} has no normalizer of its own; choose one of {', '.join(NORMALIZERS)}"
        )
    return _built(settings)


def _built(settings: AttentionSettings) -> SmoothMax:
    values = {name: getattr(settings, name) for name in NORMALIZERS[settings.attention]}
    return regularizer(settings.attention, **{name: value for name, value in values.items() if value is not None})
