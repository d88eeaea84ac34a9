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

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return self.attention


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


LOSSES = ("crf", "l2", "entmax", "perceptron", "margin", "sparsemap", "softmax")


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


@dataclass(frozen=True)
class TaggerSettings(WordSettings):
    """A tagger of entities; data=None generates sentences."""

    loss: str = option("crf", "what is minimised", choices=LOSSES)
    data: str | None = option(
        None,
        "column files or JSON lines: a directory with train, dev and test, three files with commas between them, or "
        "one file; generated if left out",
        metavar="PATH",
    )
    word_column: int = option(1, "column of the words, counted from 1", least=1, most=10_000)
    tag_column: int = option(0, "column of the tags, counted from 1; 0 is the last", least=0, most=10_000)
    scheme: str = option("BIOES", "how tags mark entities inside the model", choices=("BIOES", "BIO"))
    entity_threshold: float = option(
        0.0, "find entities with more probability than this, for more recall; 0 takes the best sequence of tags"
    )
    sentences: int = option(
        2000, "training sentences to generate; a tenth as many for dev and test each", least=1, most=1_000_000
    )
    data_seed: int = option(0, "seed of the generated sentences", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "entity_threshold", 0 <= self.entity_threshold < 1, "at least 0 and below 1")

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return self.loss


@dataclass(frozen=True)
class TaggerPrediction:
    """How a tagger reads its input and writes its output."""

    input_format: str = option(
        "text",
        "what a line of the input is: a text, words with spaces between them, a row of a column file, or JSON",
        choices=("text", "tokens", "conll", "jsonl"),
    )
    output_format: str = option(
        "jsonl", "one JSON object for each sentence, or columns of words and tags", choices=("jsonl", "conll")
    )
    probabilities: bool = option(False, "give every entity its exact probability, also those not chosen")
    threshold: float = option(0.01, "entities with this probability or less are not listed")
    ranked: bool = option(False, "list all sequences of tags with a probability above zero, up to --k-best")
    k_best: int = option(
        0, "list the K best sequences of tags with their scores and probabilities", least=0, most=10_000, metavar="K"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "threshold", 0 <= self.threshold <= 1, "a probability, from 0 to 1")


PARSER_LOSSES = ("crf", "crf-projective", "l2-projective", "sparsemap", "margin", "margin-sparsemap", "softmax")
TAG_KINDS = ("upos", "xpos", "feats")


@dataclass(frozen=True)
class ParserSettings(WordSettings):
    """A dependency parser; data=None generates a treebank."""

    data: str | None = option(
        None,
        "a CoNLL-U file, a directory with train, dev and test, or three files with commas between them; "
        "generated if left out",
        metavar="PATH",
    )
    loss: str = option("crf", "what is minimised", choices=PARSER_LOSSES)
    decoding: str = option(
        "auto",
        "among which trees the best is chosen; auto takes those of the loss",
        choices=("auto", "projective", "nonprojective"),
    )
    tags: str = option("", f"tags to read from the file, comma-separated: {', '.join(TAG_KINDS)}", metavar="LIST")
    word_dropout: float = option(0.2, "probability that training replaces a word by the unknown word")
    character_size: int = option(100, "features of a word from its letters", least=4, most=65_536)
    tag_size: int = option(50, "features of a tag", least=1, most=65_536)
    hidden_size: int = option(400, "features of a state; each direction of the LSTM has half", least=2, most=65_536)
    n_layers: int = option(2, "layers of the LSTM; 0 leaves it out", least=0, most=100)
    arc_size: int = option(200, "features of a word as a head or a modifier", least=1, most=65_536)
    label_size: int = option(64, "the same, for relations", least=1, most=4096)
    dropout: float = option(0.33, "dropout probability of features and states")
    max_length: int = option(150, "training sentences with more words are left out", least=1, most=MAX_LENGTH)
    sentences: int = option(
        2000, "training sentences to generate; a tenth as many for dev and test each", least=1, most=1_000_000
    )
    data_seed: int = option(0, "seed of the generated treebank", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        known = all(kind in TAG_KINDS for kind in self.tag_kinds)
        check_field(self, "tags", known, f"a list of {', '.join(TAG_KINDS)}")

    @property
    def tag_kinds(self) -> tuple[str, ...]:
        """Returns the kinds of tags that are read."""
        return tuple(dict.fromkeys(kind.strip() for kind in self.tags.split(",") if kind.strip()))

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return self.loss


@dataclass(frozen=True)
class ParserPrediction:
    """How a parser reads its input and writes its output."""

    input_format: str = option(
        "auto",
        "what the input is: CoNLL-U, or words with spaces between them, a sentence on each line; auto looks at it",
        choices=("auto", "conllu", "tokens"),
    )
    output_format: str = option("conllu", "CoNLL-U, or one JSON object for each sentence", choices=("conllu", "jsonl"))
    probabilities: bool = option(False, "give every arc its probability")
    trees: bool = option(False, "list the trees that SparseMAP keeps, with their probabilities")
    k_best: int = option(0, "list the K best projective trees with their scores", least=0, most=10_000, metavar="K")

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "k_best", not (self.trees and self.k_best), "0 together with --trees")


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
