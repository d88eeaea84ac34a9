"""The settings of `omegamax train nli`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.limits import MAX_LENGTH
from omegamax.recipes.settings.words import WordSettings
from omegamax.training.settings import option


@dataclass(frozen=True)
class NLISettings(AttentionSettings, WordSettings):
    """A classifier of sentence pairs; data=None generates them."""

    attention: str = option(
        "softmax", f"normalizer: {', '.join(f.function for f in for_attention())}; or none with the model lstm"
    )
    model: str = option(
        "esim",
        "lstm looks back at the premise once, word-by-word at each word, decomposable and esim align both sentences",
        choices=("lstm", "word-by-word", "decomposable", "esim"),
    )
    alignment: str = option(
        "rows",
        "of decomposable and esim: each word for itself under --attention, or a matching or a sequence by SparseMAP",
        choices=("rows", "matching", "sequence"),
    )
    null: str = option("no", "whether a word may be aligned to nothing", choices=("no", "yes"))
    direction: str = option(
        "both", "which sentence reads the other: both, or the hypothesis alone", choices=("both", "hypothesis")
    )
    data: str | None = option(
        None,
        "tables with a header or JSON lines: a directory with train, dev and test; train,dev,test or train,test with "
        "commas between them; or one file; generated if left out",
        metavar="PATH",
    )
    word_dropout: float = option(0.0, "probability that training replaces a word by the unknown word")
    characters: str = option("none", "how the letters of a word are read", choices=("lstm", "cnn", "none"))
    affix_size: int = option(
        0, "features of a word from its beginning, ending and shape; 0 for none", least=0, most=65_536
    )
    n_layers: int = option(0, "layers of an LSTM between the words and the model", least=0, most=100)
    hidden_size: int = option(128, "features of a state", least=2, most=65_536)
    dropout: float = option(0.1, "dropout probability of features and states")
    max_length: int = option(
        100, "training pairs with a longer sentence, in words, are left out", least=1, most=MAX_LENGTH
    )
    pairs: int = option(
        8000, "training pairs to generate; a tenth as many for dev and test each", least=3, most=1_000_000
    )
    data_seed: int = option(0, "seed of the generated pairs", least=-(2**63), most=2**63 - 1)

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        kind = self.attention if self.alignment == "rows" else self.alignment
        return f"{self.model}-{kind}{'-null' if self.null == 'yes' else ''}"
