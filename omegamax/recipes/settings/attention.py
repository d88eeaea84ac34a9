"""The settings of attention, which several tasks share."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention, option_help
from omegamax.training.settings import MAX_NUMBER, option


@dataclass(frozen=True)
class AttentionSettings:
    """The normalizer of attention and its parameters; None means the operator's own default."""

    attention: str = option("softmax", f"normalizer: {', '.join(f.function for f in for_attention())}, hard or none")
    gamma: float = option(1.0, "temperature: larger is smoother", most=MAX_NUMBER)
    strength: float | None = option(None, option_help("strength"), most=MAX_NUMBER)
    alpha: float | None = option(None, option_help("alpha"), most=MAX_NUMBER)
    p: float | None = option(None, option_help("p"), most=MAX_NUMBER)

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return self.attention
