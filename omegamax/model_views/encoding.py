"""Writes the attention of models for the page, with tokens in which no character hides or moves others."""

from __future__ import annotations

from typing import Any

from omegamax.data.printable import printable
from omegamax.explorer.encoding import MAX_WEIGHTS as MAX_WEIGHTS
from omegamax.explorer.encoding import AttentionLayers as AttentionLayers
from omegamax.explorer.encoding import encode as encode_tokens_unchanged
from omegamax.explorer.encoding import rounds_to_zero as rounds_to_zero

_LONGEST_TOKEN = 200  # characters


def encode(layers: AttentionLayers, max_weights: int = MAX_WEIGHTS) -> dict[str, Any]:
    """Returns plain JSON values of the weights, at most about `max_weights` of them, and the tokens of `layers`."""
    shown = layers._replace(
        title=printable(layers.title, max_length=_LONGEST_TOKEN),
        rows=[printable(token, max_length=_LONGEST_TOKEN) for token in layers.rows],
        columns=[printable(token, max_length=_LONGEST_TOKEN) for token in layers.columns],
    )
    return encode_tokens_unchanged(shown, max_weights)
