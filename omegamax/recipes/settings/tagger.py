"""The settings of `omegamax train tagger` and of its predictions."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.words import WordSettings
from omegamax.training.settings import check_field, check_fields, option

LOSSES = ("crf", "l2", "entmax", "perceptron", "margin", "sparsemap", "softmax")


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
