"""The settings of every recipe: frozen dataclasses of plain values. Loads no PyTorch, so that `--help` is quick.

Each field is an option of the command line, a key of a TOML file and a line of the run's config.json; see
`omegamax.training.settings`, which also has the settings of the training loop. A task has a file of its own here,
which is read when its settings are first used: `--help` needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegamax.recipes.settings.attention import AttentionSettings as AttentionSettings
    from omegamax.recipes.settings.babi import BabiSettings as BabiSettings
    from omegamax.recipes.settings.caption import CAPTION_READINGS as CAPTION_READINGS
    from omegamax.recipes.settings.caption import CaptionSettings as CaptionSettings
    from omegamax.recipes.settings.dates import DatesSettings as DatesSettings
    from omegamax.recipes.settings.glimpse import GLIMPSE_MODELS as GLIMPSE_MODELS
    from omegamax.recipes.settings.glimpse import GlimpseSettings as GlimpseSettings
    from omegamax.recipes.settings.handwriting import HANDWRITING_MODELS as HANDWRITING_MODELS
    from omegamax.recipes.settings.handwriting import HandwritingPrediction as HandwritingPrediction
    from omegamax.recipes.settings.handwriting import HandwritingSettings as HandwritingSettings
    from omegamax.recipes.settings.language import LanguageSettings as LanguageSettings
    from omegamax.recipes.settings.limits import MAX_BEAM as MAX_BEAM
    from omegamax.recipes.settings.limits import MAX_LENGTH as MAX_LENGTH
    from omegamax.recipes.settings.memory import MEMORY_MODELS as MEMORY_MODELS
    from omegamax.recipes.settings.memory import MEMORY_TASKS as MEMORY_TASKS
    from omegamax.recipes.settings.memory import MemorySettings as MemorySettings
    from omegamax.recipes.settings.nli import NLISettings as NLISettings
    from omegamax.recipes.settings.parser import PARSER_LOSSES as PARSER_LOSSES
    from omegamax.recipes.settings.parser import TAG_KINDS as TAG_KINDS
    from omegamax.recipes.settings.parser import ParserPrediction as ParserPrediction
    from omegamax.recipes.settings.parser import ParserSettings as ParserSettings
    from omegamax.recipes.settings.seq2seq import Seq2SeqSettings as Seq2SeqSettings
    from omegamax.recipes.settings.speech import SPEECH_MODELS as SPEECH_MODELS
    from omegamax.recipes.settings.speech import SpeechSettings as SpeechSettings
    from omegamax.recipes.settings.summarize import SummarizeSettings as SummarizeSettings
    from omegamax.recipes.settings.tagger import LOSSES as LOSSES
    from omegamax.recipes.settings.tagger import TaggerPrediction as TaggerPrediction
    from omegamax.recipes.settings.tagger import TaggerSettings as TaggerSettings
    from omegamax.recipes.settings.translate import TranslateSettings as TranslateSettings
    from omegamax.recipes.settings.video import VIDEO_MODELS as VIDEO_MODELS
    from omegamax.recipes.settings.video import VideoSettings as VideoSettings
    from omegamax.recipes.settings.words import WordSettings as WordSettings

_MODULES = {  # the module of each name
    "AttentionSettings": "attention",
    "BabiSettings": "babi",
    "CAPTION_READINGS": "caption",
    "CaptionSettings": "caption",
    "DatesSettings": "dates",
    "GLIMPSE_MODELS": "glimpse",
    "GlimpseSettings": "glimpse",
    "HANDWRITING_MODELS": "handwriting",
    "HandwritingPrediction": "handwriting",
    "HandwritingSettings": "handwriting",
    "LOSSES": "tagger",
    "LanguageSettings": "language",
    "MAX_BEAM": "limits",
    "MAX_LENGTH": "limits",
    "MEMORY_MODELS": "memory",
    "MEMORY_TASKS": "memory",
    "MemorySettings": "memory",
    "NLISettings": "nli",
    "PARSER_LOSSES": "parser",
    "ParserPrediction": "parser",
    "ParserSettings": "parser",
    "SPEECH_MODELS": "speech",
    "Seq2SeqSettings": "seq2seq",
    "SpeechSettings": "speech",
    "SummarizeSettings": "summarize",
    "TAG_KINDS": "parser",
    "TaggerPrediction": "tagger",
    "TaggerSettings": "tagger",
    "TranslateSettings": "translate",
    "VIDEO_MODELS": "video",
    "VideoSettings": "video",
    "WordSettings": "words",
}


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Reads the file that has the name."""
        if name not in _MODULES:
            raise AttributeError(f"module 'omegamax.recipes.settings' has no attribute {name!r}")
        return getattr(import_module(f"omegamax.recipes.settings.{_MODULES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})
