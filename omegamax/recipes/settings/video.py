"""The settings of `omegamax train video`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.limits import MAX_BEAM
from omegamax.training.settings import check_field, check_fields, option

VIDEO_MODELS = ("attention", "conv3d", "both", "neither")


@dataclass(frozen=True)
class VideoSettings(AttentionSettings):
    """A network that describes clips of moving digits."""

    attention: str = option(
        "softmax",
        f"normalizer over frames: {', '.join(f.function for f in for_attention())}; conv3d and neither read the mean",
    )
    model: str = option(
        "both",
        "attention over frames that are read one by one, the mean of frames that are read with their neighbours by a "
        "3-D convolution, both, or the mean of frames that are read one by one",
        choices=VIDEO_MODELS,
    )
    positions: str = option(
        "yes", "whether the vector of a frame says when it is; no as in Yao et al.", choices=("yes", "no")
    )
    clips: int = option(4000, "training clips; a tenth as many for dev, twice that for test", least=1, most=1_000_000)
    max_events: int = option(2, "most digits of a clip, one after the other", least=1, most=100)
    frame_size: int = option(64, "features of a frame, of each encoder", least=1, most=65_536)
    embedding_size: int = option(64, "features of a word", least=1, most=65_536)
    hidden_size: int = option(128, "features of the decoder", least=1, most=65_536)
    dropout: float = option(0.1, "dropout probability")
    beam: int = option(1, "hypotheses of beam search; 1 is greedy", least=1, most=MAX_BEAM)
    max_length: int = option(40, "no description has more words", least=1, most=1000)
    data_seed: int = option(0, "seed of the clips", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return f"{self.model}-{self.attention}" if self.model in ("attention", "both") else self.model
