"""Summaries: the models of `translate`, measured by ROUGE.

    omegamax train summarize --attention fusedmax
    omegamax train summarize --data scitldr --source source --target target --attention sparsemax
    omegamax train summarize --data scitldr --source source.0 --target title --copy pointer

The data is JSON lines, a table or aligned files (see omegamax/data/text_pairs.py). A JSON field may hold a list: of the
sentences of a source, or of several references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from omegamax.data.small_reports import generate_reports
from omegamax.models import CopyingLSTM, SequenceModel
from omegamax.recipes.normalizers import NONE, make_normalizer
from omegamax.recipes.rouge import import_rouge, mean_rouge, rouge_signature
from omegamax.recipes.settings import SummarizeSettings
from omegamax.recipes.text_to_text import Texts, TextToText
from omegamax.recipes.translate import Translate


class SummaryPair(NamedTuple):
    """A source as tokens, its summary, and other summaries that are as right."""

    source: tuple[str, ...]
    target: str
    more: tuple[str, ...] = ()


class Summarize(Translate):
    """Learns to write summaries, with the models of `Translate`."""

    name: ClassVar[str] = "summarize"
    metric: ClassVar[str] = "rouge_l"
    settings_type: ClassVar[type] = SummarizeSettings
    settings: SummarizeSettings
    generate = staticmethod(generate_reports)

    @classmethod
    def prepare(cls, settings: Any) -> TextToText:
        import_rouge()
        return super().prepare(settings)

    @classmethod
    def check_settings(cls, settings: Any) -> None:
        super().check_settings(settings)
        if settings.copy == "none" and settings.coverage_loss:
            raise ValueError(
                f"coverage_loss needs --copy pointer, got {settings.coverage_loss}; add it, or leave it out"
            )
        wanted = {"model": "lstm", "vocabulary": "joint", "output": "softmax"}
        for name, value in wanted.items() if settings.copy == "pointer" else ():
            if getattr(settings, name) != value:
                raise ValueError(f"copy pointer needs {name} {value}, got {getattr(settings, name)}; change --{name}")
        if settings.copy == "pointer" and settings.attention == NONE:
            raise ValueError(f"copy pointer copies by attention, got attention {NONE}; choose another --attention")

    def model(self) -> SequenceModel:
        """Returns a pointer-generator, or a model of `translate`."""
        settings = self.settings
        if settings.copy == "none":
            return super().model()
        return CopyingLSTM(
            len(self.target),
            normalizer=make_normalizer(settings),
            label_smoothing=settings.label_smoothing,
            coverage_loss=settings.coverage_loss,
            embedding_size=settings.embedding_size,
            hidden_size=settings.hidden_size,
            n_layers=settings.n_layers,
            dropout=settings.dropout,
            scaled=settings.score == "scaled",
        )

    @classmethod
    def make_pair(cls, settings: SummarizeSettings, source: tuple[str, ...], texts: Texts) -> SummaryPair:
        """Cuts a long source."""
        return SummaryPair(source[: settings.max_source], texts.target, texts.more)

    def score_texts(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
        """Computes ROUGE against the best of all references."""
        scores = mean_rouge(predictions, [[example.target, *example.more] for example in examples])
        return {self.metric: scores.pop(self.metric), **scores}

    def signatures(self, examples: Sequence[Any]) -> dict[str, str]:
        return {"rouge": rouge_signature()}
