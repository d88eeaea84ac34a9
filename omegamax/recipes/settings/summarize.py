"""The settings of `omegamax train summarize`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.limits import MAX_LENGTH
from omegamax.recipes.settings.translate import TranslateSettings
from omegamax.training.settings import option


@dataclass(frozen=True)
class SummarizeSettings(TranslateSettings):
    """The models of `translate` for summaries; data=None generates reports with one sentence that matters."""

    source: str = option("source", "what to read: a JSON field (source.0 is the first of a list), a column, an ending")
    target: str = option("target", "what to write: a JSON field (several texts are references), a column, an ending")
    vocabulary: str = option("joint", "one vocabulary for each side, or a joint one", choices=("separate", "joint"))
    copy: str = option(
        "none", "pointer lets the lstm copy source tokens (pointer-generator)", choices=("none", "pointer")
    )
    coverage_loss: float = option(
        0.0, "with --copy pointer: cost of looking again at what was looked at", least=0, most=1000
    )
    max_source: int = option(400, "longer sources are cut after this many tokens", least=1, most=MAX_LENGTH)
    examples: int = option(
        8000, "training pairs to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )
