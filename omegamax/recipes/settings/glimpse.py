"""The settings of `omegamax train glimpse`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.training.settings import MAX_NUMBER, check_field, check_fields, option

GLIMPSE_MODELS = ("retina", "soft", "sparse", "grid-tv", "draw")


@dataclass(frozen=True)
class GlimpseSettings(AttentionSettings):
    """A classifier of images that looks several times; data=None has the digits of scikit-learn."""

    attention: str = option(
        "softmax",
        "normalizer of soft; of sparse too, which takes sparsemax instead of softmax: its sums are short",
    )
    data: str | None = option(None, "folder of IDX files as of MNIST and Fashion-MNIST; none: digits of scikit-learn")
    model: str = option(
        "retina",
        "a retina that chooses where to look and learns by REINFORCE, soft attention over a grid of the image, a "
        "retina that chooses among few positions with the exact sum over them, a grid with connected regions, or "
        "DRAW's window",
        choices=GLIMPSE_MODELS,
    )
    side: int = option(60, "pixels of an image, up and across", least=1, most=2048)
    clutter: int = option(
        0, "pieces of other pictures in an image; 0 is translated only, the paper has 4", least=0, most=1000
    )
    images: int = option(10_000, "training images; a tenth as many for dev, a fifth for test", least=1, most=10_000_000)
    glimpses: int = option(6, "how often the classifier looks", least=1, most=100)
    patch_size: int = option(12, "pixels of a patch of the retina or of DRAW, up and across", least=1, most=256)
    scales: int = option(3, "patches of the retina, each twice as wide as the one before", least=1, most=8)
    positions: int = option(5, "positions that sparse chooses among, up and across", least=1, most=64)
    hidden_size: int = option(128, "features of the LSTM", least=1, most=65_536)
    feature_size: int = option(128, "features of a glimpse", least=1, most=65_536)
    channels: int = option(
        16, "channels of the grid's convolutions; a cell has twice as many features", least=1, most=65_536
    )
    baseline: str = option("yes", "whether REINFORCE learns a baseline", choices=("yes", "no"))
    discount: float = option(
        0.0,
        "what an answer counts in the reward of a place, for each look between them: 0 is only the next answer, 1 all",
        least=0,
        most=1,
        before=1.0,
    )
    deviation: float = option(
        0.2,
        "largest standard deviation with which the retina draws places; the image is 2 wide",
        least=0.03,
        most=1,
        before=0.5,
    )
    entropy_bonus: float = option(0.01, "what the entropy of the retina's choice is multiplied by", most=MAX_NUMBER)
    reward_scale: float = option(0.2, "what the score function of REINFORCE is multiplied by", most=MAX_NUMBER)
    samples: int = option(1, "paths that the retina draws over each training image", least=1, most=1000)
    data_seed: int = option(0, "seed of the images", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "entropy_bonus", self.entropy_bonus >= 0, "at least 0")
        check_field(self, "reward_scale", self.reward_scale >= 0, "at least 0")
        chooses = self.model in ("soft", "sparse")
        check_field(self, "attention", chooses or self.attention == "softmax", f"left out with the model {self.model}")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return f"soft-{self.attention}" if self.model == "soft" else self.model
