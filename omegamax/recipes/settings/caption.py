"""The settings of `omegamax train caption`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.limits import MAX_BEAM
from omegamax.training.settings import MAX_NUMBER, check_field, check_fields, option

CAPTION_READINGS = ("soft", "reinforce", "exact", "none")


@dataclass(frozen=True)
class CaptionSettings(AttentionSettings):
    """A network that describes pictures; data=None draws pictures of digits."""

    attention: str = option(
        "softmax",
        f"normalizer over the cells of the picture: {', '.join(f.function for f in for_attention())}, or grid-tv: "
        "fusedmax in two dimensions",
    )
    reading: str = option(
        "soft",
        "the average of the cells, one cell that is drawn (learned by REINFORCE), the sum over all cells that may be "
        "drawn, or the mean of all cells for every word",
        choices=CAPTION_READINGS,
    )
    data: str | None = option(
        None,
        "a directory of pictures of formulas: train.tsv, dev.tsv, test.tsv, images.tar; digits if left out",
        metavar="PATH",
    )
    pictures: int = option(
        4000, "training pictures of digits; a tenth as many for dev, twice that for test", least=1, most=1_000_000
    )
    max_rows: int = option(2, "most rows of digits in a picture", least=1, most=3)
    max_columns: int = option(2, "most digits of a row", least=1, most=3)
    shrink: int = option(2, "how many times smaller pictures of formulas become", least=1, most=64)
    features: int = option(48, "features of a cell", least=4, most=65_536)
    embedding_size: int = option(32, "features of a word", least=1, most=65_536)
    hidden_size: int = option(96, "features of the decoder", least=1, most=65_536)
    dropout: float = option(0.1, "dropout probability")
    soft_start: int = option(
        16_000,
        "of reinforce: how many captions training reads softly before it draws; 0 is as published",
        least=0,
        most=10**12,
        before=0,
    )
    samples: int = option(
        4,
        "of reinforce: cells that are drawn for each word; 1 takes a moving average off the rewards, as published, and "
        "more take off the mean of the others",
        least=1,
        most=1000,
        before=1,
    )
    reward: str = option(
        "rest",
        "of reinforce: what a choice is rewarded for, the likelihood of the rest of the caption from its word on, or "
        "that of the whole caption, as published",
        choices=("rest", "caption"),
        before="caption",
    )
    soft_share: float = option(0.5, "of reinforce: how often a caption's choice is replaced by the average")
    reward_scale: float = option(0.1, "of reinforce: the weight of the rewards", least=0, most=MAX_NUMBER)
    entropy_bonus: float = option(0.01, "of reinforce: the weight of the choices' entropy", least=0, most=MAX_NUMBER)
    beam: int = option(1, "hypotheses of beam search; 1 is greedy", least=1, most=MAX_BEAM)
    max_length: int = option(
        120, "no description has more words; longer formulas are left out of training", least=1, most=10_000
    )
    data_seed: int = option(0, "seed of the pictures of digits", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")
        check_field(self, "soft_share", 0 <= self.soft_share <= 1, "from 0 to 1")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return "none" if self.reading == "none" else f"{self.reading}-{self.attention}"
