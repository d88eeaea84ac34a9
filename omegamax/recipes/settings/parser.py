"""The settings of `omegamax train parser` and of its predictions."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.limits import MAX_LENGTH
from omegamax.recipes.settings.words import WordSettings
from omegamax.training.settings import check_field, check_fields, option

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
    temperature: float = option(
        3.0,
        "of the SparseMAP losses: scores are divided by it, so the gold tree must lead by as much more",
        least=0.01,
        most=1000,
        before=1.0,
    )
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
