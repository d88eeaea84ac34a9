"""The settings of `omegamax train translate`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.limits import MAX_BEAM, MAX_LENGTH
from omegamax.recipes.settings.seq2seq import Seq2SeqSettings
from omegamax.training.settings import check_field, option

_LEARNED_POSITIONS = 1024  # at least


@dataclass(frozen=True)
class TranslateSettings(Seq2SeqSettings):
    """An LSTM with input feeding or a Transformer that translates; data=None generates a small language."""

    attention: str = option(
        "softmax",
        f"normalizer of the attention to the source: {', '.join(f.function for f in for_attention())} or none",
    )
    data: str | None = option(
        None,
        "a table (.tsv), JSON lines (.jsonl), two aligned files (their common beginning), or a directory with train, "
        "dev and test, also .gz or .xz; generated if left out",
        metavar="PATH",
    )
    source: str = option("1", "what to read: a column from 1, the ending of an aligned file (en), or a JSON field")
    target: str = option("2", "what to write: a column from 1, the ending of an aligned file (de), or a JSON field")
    level: str = option(
        "subword", "what a token is: a character, a word, or a part of a word", choices=("char", "word", "subword")
    )
    vocabulary: str = option("separate", "one vocabulary for each side, or a joint one", choices=("separate", "joint"))
    max_tokens: int = option(8000, "largest vocabulary of each side", least=1, most=1_000_000)
    max_length: int = option(
        100, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    model: str = option(
        "lstm", "lstm (bidirectional, global attention, input feeding) or transformer", choices=("lstm", "transformer")
    )
    embedding_size: int = option(256, "features of a token of the lstm", least=1, most=65_536)
    hidden_size: int = option(
        256, "features of the lstm's states, and of the transformer's tokens; even", least=0, most=65_536
    )
    score: str = option(
        "scaled",
        "scores of the lstm's attention: general (a learned product), or scaled: divided by the root of --hidden-size",
        choices=("scaled", "general"),
        before="general",
    )
    n_layers: int = option(1, "layers of the encoder, and of the decoder", least=1, most=1000)
    n_heads: int = option(4, "heads of a layer of the transformer", least=1, most=1024)
    feed_forward_size: int = option(
        1024, "features inside the transformer's feed-forward networks", least=1, most=1 << 20
    )
    key_size: int = option(
        0,
        "features of the queries and keys of a head of the transformer; 0 divides the hidden size by the heads",
        least=0,
        most=65_536,
        before=0,
    )
    positions: str = option(
        "sinusoidal",
        "how the transformer knows the order of tokens",
        choices=("sinusoidal", "learned"),
        before="sinusoidal",
    )
    self_attention: str = option("softmax", "normalizer of the transformer's self-attention")
    dropout: float = option(0.2, "dropout probability")
    output: str = option(
        "softmax",
        "distribution of the next token, and its loss; sparse ones give most tokens probability zero",
        choices=("softmax", "entmax15", "sparsemax"),
    )
    label_smoothing: float = option(0.1, "share of the target that training spreads over all tokens")
    length_penalty: float = option(1.0, "power of the length that scores of outputs are divided by", least=0, most=10)
    coverage_penalty: float = option(
        0.0, "cost of source tokens without attention, in the scores of outputs", least=0, most=1000
    )
    unknown: str = option(
        "copy",
        "unknown words of an output: copy the source word with the most attention, or forbid them",
        choices=("copy", "forbid"),
    )
    n_best: int = option(
        0,
        "predict the N best outputs as JSON with their scores, N up to --beam; 0 writes the best text",
        least=0,
        most=MAX_BEAM,
    )
    examples: int = option(
        20_000, "training pairs to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )
    data_seed: int = option(0, "seed of the generated pairs", least=-(2**63), most=2**63 - 1)

    @property
    def max_positions(self) -> int | None:
        """How many tokens a text may have where each position has a learned vector; None where any number is fine."""
        if self.model != "transformer" or self.positions == "sinusoidal":
            return None
        return max(_LEARNED_POSITIONS, self.max_length + 1)  # an output begins with a start token

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")
        check_field(self, "n_best", self.n_best <= self.beam, f"at most --beam, which is {self.beam}")
        if self.model == "transformer":
            fits = self.hidden_size % self.n_heads == 0
            check_field(self, "n_heads", fits, f"a divisor of the hidden size, {self.hidden_size}")
