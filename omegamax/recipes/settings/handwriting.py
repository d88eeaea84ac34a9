"""The settings of `omegamax train handwriting`, and of what it writes."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.training.settings import check_field, check_fields, option

HANDWRITING_MODELS = ("window", "content", "none")


@dataclass(frozen=True)
class HandwritingSettings(AttentionSettings):
    """A network that writes texts with a pen."""

    attention: str = option(
        "softmax",
        f"normalizer of content attention: {', '.join(f.function for f in for_attention())}; window and none have no "
        "use for it",
    )
    model: str = option(
        "window",
        "how the pen looks at the text: a window of Gaussians that slides, attention by content, or none, which reads "
        "one vector of the whole text",
        choices=HANDWRITING_MODELS,
    )
    letters: str = option("abcdefghijklmnopqrstuvwxyz ", "the characters that texts have, printable ones of ASCII")
    writings: int = option(3000, "training writings; a tenth as many for dev and test each", least=1, most=1_000_000)
    min_length: int = option(3, "characters of the shortest text", least=1, most=1000)
    max_length: int = option(6, "characters of the longest text", least=1, most=1000)
    test_length: int = option(0, "characters of every test text; 0 has those of training", least=0, most=1000)
    window_components: int = option(3, "Gaussians of the window", least=1, most=1000)
    n_components: int = option(8, "Gaussians of the density of a point", least=1, most=1000)
    letter_size: int = option(32, "features of a letter", least=1, most=65_536)
    hidden_size: int = option(96, "features of each layer that writes", least=1, most=65_536)
    reader_size: int = option(64, "features of each direction of the LSTM that reads", least=1, most=65_536)
    data_seed: int = option(0, "seed of the writings", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "max_length", self.max_length >= self.min_length, "at least min_length")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return f"content-{self.attention}" if self.model == "content" else self.model


@dataclass(frozen=True)
class HandwritingPrediction:
    """How texts are written."""

    output_format: str = option(
        "json", "the points of each stroke as JSON, with what the reader reads, or a picture", choices=("json", "svg")
    )
    bias: float = option(1.0, "how much likely points are preferred: 0 writes as varied as the writers, 2 neatly")
    seed: int = option(0, "another one writes otherwise", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "bias", 0 <= self.bias <= 100, "from 0 to 100")
