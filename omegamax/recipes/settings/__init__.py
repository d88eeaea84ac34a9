"""The settings of every recipe: frozen dataclasses of plain values. Loads no PyTorch, so that `--help` is quick.

Each field is an option of the command line, a key of a TOML file and a line of the run's config.json; see
`omegamax.training.settings`, which also has the settings of the training loop. A task has a file of its own here.
"""

from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.babi import BabiSettings
from omegamax.recipes.settings.dates import DatesSettings
from omegamax.recipes.settings.language import LanguageSettings
from omegamax.recipes.settings.limits import MAX_BEAM, MAX_LENGTH
from omegamax.recipes.settings.nli import NLISettings
from omegamax.recipes.settings.parser import PARSER_LOSSES, TAG_KINDS, ParserPrediction, ParserSettings
from omegamax.recipes.settings.seq2seq import Seq2SeqSettings
from omegamax.recipes.settings.speech import SPEECH_MODELS, SpeechSettings
from omegamax.recipes.settings.summarize import SummarizeSettings
from omegamax.recipes.settings.tagger import LOSSES, TaggerPrediction, TaggerSettings
from omegamax.recipes.settings.translate import TranslateSettings
from omegamax.recipes.settings.words import WordSettings

__all__ = [
    "LOSSES",
    "MAX_BEAM",
    "MAX_LENGTH",
    "PARSER_LOSSES",
    "SPEECH_MODELS",
    "TAG_KINDS",
    "AttentionSettings",
    "BabiSettings",
    "DatesSettings",
    "LanguageSettings",
    "NLISettings",
    "ParserPrediction",
    "ParserSettings",
    "Seq2SeqSettings",
    "SpeechSettings",
    "SummarizeSettings",
    "TaggerPrediction",
    "TaggerSettings",
    "TranslateSettings",
    "WordSettings",
]
