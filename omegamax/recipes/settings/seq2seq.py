"""The settings of `omegamax train seq2seq`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.recipes.settings.limits import MAX_BEAM, MAX_LENGTH
from omegamax.training.settings import check_field, check_fields, option


@dataclass(frozen=True)
class Seq2SeqSettings(AttentionSettings):
    """An encoder-decoder with attention on pairs of texts."""

    data: str | None = option(
        None, "a TSV of source and target, or a directory with train.tsv, dev.tsv, test.tsv", metavar="PATH"
    )
    level: str = option("word", "what a token is: a character or a word", choices=("char", "word"))
    embedding_size: int = option(64, "features of a token", least=1, most=65_536)
    hidden_size: int = option(
        128, "features of the decoder; each direction of the encoder has half", least=0, most=65_536
    )
    dropout: float = option(0.1, "dropout probability of embeddings and outputs")
    max_tokens: int = option(10_000, "largest vocabulary of each side", least=1, most=1_000_000)
    max_length: int = option(
        200, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    beam: int = option(1, "hypotheses kept while decoding; 1 is greedy", least=1, most=MAX_BEAM)

    def __post_init__(self) -> None:
        check_fields(self)
        even = self.hidden_size >= 2 and self.hidden_size % 2 == 0
        check_field(self, "hidden_size", even, "even and at least 2, half for each direction")
        check_field(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")
