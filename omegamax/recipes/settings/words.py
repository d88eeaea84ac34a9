"""The settings of how words are read, which several tasks share."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.training.settings import check_field, check_fields, option


@dataclass(frozen=True)
class WordSettings:
    """How the words of sentences are read: tables, letters, a pretrained model, an LSTM over them."""

    word_size: int = option(100, "features of a word; with --vectors those of the file", least=0, most=65_536)
    min_count: int = option(2, "words that training shows less often are unknown", least=1, most=1_000_000)
    word_dropout: float = option(0.2, "probability that training replaces a word by the unknown word")
    characters: str = option("cnn", "how the letters of a word are read", choices=("lstm", "cnn", "none"))
    character_size: int = option(50, "features of a word from its letters", least=4, most=65_536)
    affix_size: int = option(
        32, "features of a word from its beginning, ending and shape; 0 for none", least=0, most=65_536
    )
    vectors: str | None = option(None, "a file of word vectors in the text format of GloVe or word2vec", metavar="FILE")
    encoder: str | None = option(None, "a directory of a Hugging Face model, which is trained further", metavar="DIR")
    encoder_rate: float = option(0.1, "learning rate of the encoder, as a share of --learning-rate", least=0, most=1)
    hidden_size: int = option(200, "features of a state; each direction of the LSTM has half", least=2, most=65_536)
    n_layers: int = option(1, "layers of the LSTM", least=0, most=100)
    dropout: float = option(0.5, "dropout probability of features and states, shared by all words of a sentence")

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "hidden_size", self.hidden_size % 2 == 0, "even, half for each direction")
        check_field(self, "character_size", self.character_size % 2 == 0, "even, half for each direction")
        for name in ("word_dropout", "dropout"):
            check_field(self, name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
