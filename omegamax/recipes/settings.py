"""The settings of every recipe: frozen dataclasses of plain values. Loads no PyTorch, so that `--help` is quick.

Each field is an option of the command line, a key of a TOML file and a line of the run's config.json; see
`omegamax.training.settings`, which also has the settings of the training loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention, option_help
from omegamax.training.settings import MAX_NUMBER, check_field, check_fields, option

MAX_LENGTH = 10_000  # tokens of an output: one that never ends still takes seconds, not days
MAX_BEAM = 1000


@dataclass(frozen=True)
class AttentionSettings:
    """The normalizer of attention and its parameters; None means the operator's own default."""

    attention: str = option("softmax", f"normalizer: {', '.join(f.function for f in for_attention())}, hard or none")
    gamma: float = option(1.0, "temperature: larger is smoother", most=MAX_NUMBER)
    strength: float | None = option(None, option_help("strength"), most=MAX_NUMBER)
    alpha: float | None = option(None, option_help("alpha"), most=MAX_NUMBER)
    p: float | None = option(None, option_help("p"), most=MAX_NUMBER)


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


@dataclass(frozen=True)
class DatesSettings(Seq2SeqSettings):
    """Dates of many locales to ISO form; data=None generates them."""

    data: str | None = option(
        None, "a TSV of locale, text and ISO date, or a directory; generated if left out", metavar="PATH"
    )
    level: str = option("char", "what a token is: a character or a word", choices=("char", "word"))
    max_length: int = option(
        60, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    examples: int = option(
        40_000, "training examples to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )
    locales: str = option("", "comma-separated CLDR locales (fr,en_GB); left out, about fifty", metavar="LIST")
    default_locale: str = option("", "locale of input lines that name none; left out, en, or the first of the locales")
    typos: float = option(0.0, "probability of a typing error in an input")
    data_seed: int = option(0, "seed of the generated dates and their splits", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "typos", 0 <= self.typos <= 1, "a probability, from 0 to 1")


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
    n_layers: int = option(1, "layers of the encoder, and of the decoder", least=1, most=1000)
    n_heads: int = option(4, "heads of a layer of the transformer", least=1, most=1024)
    feed_forward_size: int = option(
        1024, "features inside the transformer's feed-forward networks", least=1, most=1 << 20
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")
        check_field(self, "n_best", self.n_best <= self.beam, f"at most --beam, which is {self.beam}")
        if self.model == "transformer":
            fits = self.hidden_size % self.n_heads == 0
            check_field(self, "n_heads", fits, f"a divisor of the hidden size, {self.hidden_size}")


@dataclass(frozen=True)
class SummarizeSettings(TranslateSettings):
    """The models of `translate` for summaries; data=None generates reports with one sentence that matters."""

    source: str = option("source", "what to read: a JSON field (source.0 is the first of a list), a column, an ending")
    target: str = option("target", "what to write: a JSON field (several texts are references), a column, an ending")
    vocabulary: str = option("joint", "one vocabulary for each side, or a joint one", choices=("separate", "joint"))
    copy: str = option(
        "none", "pointer lets the lstm copy source tokens (pointer-generator)", choices=("none", "pointer")
    )
    coverage_loss: float = option(
        0.0, "with --copy pointer: cost of looking again at what was looked at", least=0, most=1000
    )
    max_source: int = option(400, "longer sources are cut after this many tokens", least=1, most=MAX_LENGTH)
    examples: int = option(
        8000, "training pairs to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )


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
