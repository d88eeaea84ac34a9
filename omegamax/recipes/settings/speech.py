"""The settings of `omegamax train speech`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.training.settings import check_field, check_fields, option

SPEECH_MODELS = ("ctc", "content", "location", "gaussian", "monotonic")


@dataclass(frozen=True)
class SpeechSettings(AttentionSettings):
    """A recogniser of strings of words; data=None synthesises them."""

    attention: str = option(
        "softmax",
        f"normalizer: {', '.join(f.function for f in for_attention())}; of ctc, what smooths the sum over alignments",
    )
    model: str = option(
        "ctc",
        "ctc, or how a decoder attends to the sound: by content, by content and where it was, by a sliding window, or "
        "only onwards",
        choices=SPEECH_MODELS,
    )
    data: str | None = option(
        None,
        "a directory of recordings of single words, LABEL_SPEAKER_INDEX.wav, or with recordings.tar.xz; "
        "synthesised if left out",
        metavar="PATH",
    )
    strings: int = option(3000, "training strings; a tenth as many for dev and test each", least=1, most=1_000_000)
    max_words: int = option(5, "words of the longest training string", least=1, most=1000)
    test_words: int = option(5, "words of every test string", least=1, most=1000)
    decoder: str = option(
        "last-word",
        "what a decoder with attention remembers: the last word alone, so that it cannot count, or all that it wrote, "
        "in an LSTM",
        choices=("last-word", "lstm"),
        before="lstm",
    )
    location_width: int = option(
        61, "of location: how many frames of the last weights a frame's score sees, odd", least=1, most=9999, before=15
    )
    window: int = option(
        45,
        "of location: how many frames after the middle of the last weights may be looked at, and a third as many "
        "before it; 0 for all",
        least=0,
        most=1_000_000,
        before=0,
    )
    hidden_size: int = option(128, "features of each direction of the LSTM, and of the decoder", least=1, most=65_536)
    n_layers: int = option(2, "layers of the LSTM", least=1, most=100)
    stacked: int = option(3, "frames of 10 ms that become one", least=1, most=100)
    dropout: float = option(0.2, "dropout probability")
    max_length: int = option(200, "no transcript has more words", least=1, most=10_000)
    recordings: int = option(20, "of each synthesised word and speaker; the first 5 are for test", least=7, most=10_000)
    data_seed: int = option(0, "seed of the strings and of synthesised sounds", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")
        check_field(self, "location_width", self.location_width % 2 == 1, "odd, as many before a frame as after it")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return f"{self.model}-{self.attention}"
