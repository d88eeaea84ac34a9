"""The settings of `omegamax train language`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.limits import MAX_LENGTH
from omegamax.training.settings import MAX_NUMBER, check_field, check_fields, option


@dataclass(frozen=True)
class LanguageSettings(AttentionSettings):
    """A Transformer that predicts the next token of a text; data=None generates stories."""

    attention: str = option("softmax", f"normalizer: {', '.join(f.function for f in for_attention())}")
    data: str | None = option(
        None,
        "a text file (.txt or .tsv, also .gz or .xz), or a directory with train, dev and test; generated if left out",
        metavar="PATH",
    )
    column: int = option(0, "column of a table to read, counted from 1; 0 reads whole lines", least=0, most=10_000)
    level: str = option(
        "char", "what a token is: a character, a word, or a part of a word", choices=("char", "word", "subword")
    )
    max_tokens: int = option(2048, "largest vocabulary", least=1, most=1_000_000)
    block_length: int = option(256, "tokens of an example: the text is cut into blocks", least=1, most=1 << 20)
    size: int = option(128, "features of a token", least=1, most=65_536)
    n_layers: int = option(2, "layers", least=1, most=1000)
    n_heads: int = option(2, "heads of a layer; they share the features", least=1, most=1024)
    hidden_size: int = option(512, "features inside the feed-forward networks", least=1, most=1 << 20)
    dropout: float = option(0.0, "dropout probability, also of attention weights")
    max_length: int = option(200, "no continuation has more tokens", least=1, most=MAX_LENGTH)
    temperature: float = option(
        0.0, "of sampled continuations: smaller is safer; 0 takes the most likely token", least=0, most=MAX_NUMBER
    )
    sampling_seed: int = option(0, "seed of sampled continuations", least=0, most=2**63 - 1)
    stories: int = option(
        8000, "training lines to generate; a twentieth as many for dev and test each", least=1, most=10_000_000
    )
    data_seed: int = option(0, "seed of the generated text", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "n_heads", self.size % self.n_heads == 0, f"a divisor of the size, {self.size}")
        check_field(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")
