"""A trained parser from Python.

parser = Parser.load("runs/parser-crf")
parses = parser.predict(["she saw the man with the telescope ."], probabilities=True)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import nn

from omegamax.data.conllu import ConlluSentence, parse_conllu, read_conllu, sentence_of_words
from omegamax.data.treebank_files import check_lengths
from omegamax.errors import CheckpointError
from omegamax.recipes.parser import ParserTask
from omegamax.recipes.parser_output import Parse
from omegamax.recipes.settings import ParserPrediction
from omegamax.recipes.tasks import load

_BATCH = 64


class Parser:
    """Parses sentences with a trained model.

    Arguments:
        task: settings and vocabularies
        model: in eval mode
    """

    def __init__(self, task: ParserTask, model: nn.Module) -> None:
        self.task, self.model = task, model

    @classmethod
    def load(cls, path: Path | str, *, which: str = "best", device: str | torch.device = "cpu") -> Parser:
        """Reads a run of `omegamax train parser`.

        Arguments:
            path: the run's directory, or a checkpoint
            which: "best" or "latest"
            device: to compute on
        """
        found = load(path, which=which, device=device)
        if not isinstance(found.task, ParserTask):
            raise CheckpointError(
                f"{path} is a run of {found.card.task}, not of a parser; load it with omegamax.recipes.load"
            )
        return cls(found.task, found.model)

    def predict(
        self,
        sentences: Iterable[str | Sequence[str] | ConlluSentence],
        *,
        probabilities: bool = False,
        trees: bool = False,
        k_best: int = 0,
    ) -> list[Parse]:
        """Finds the tree of each sentence.

        Arguments:
            sentences: words in a list, words in a text with spaces between them, or sentences of `read`
            probabilities: whether to compute the probability of every arc
            trees: whether to list the trees that SparseMAP keeps
            k_best: how many of the best projective trees to list
        """
        if isinstance(sentences, str):
            raise TypeError("Parser.predict: sentences must be a list of sentences, got one text; put it into a list")
        wanted = ParserPrediction(probabilities=probabilities, trees=trees, k_best=k_best)
        examples = [_sentence(each, number) for number, each in enumerate(sentences)]
        check_lengths(examples, "Parser.predict")
        order = sorted(range(len(examples)), key=lambda at: len(examples[at].forms))
        found: list[Parse | None] = [None] * len(examples)
        with torch.no_grad():
            for start in range(0, len(order), _BATCH):
                places = order[start : start + _BATCH]
                parses = self.task.parse(self.model, [examples[at] for at in places], wanted)
                for place, parse in zip(places, parses):
                    found[place] = parse
        return [parse for parse in found if parse is not None]

    @staticmethod
    def read(source: Path | str) -> list[ConlluSentence]:
        """Reads sentences from a CoNLL-U file, or from a text in that format; heads are not needed.

        Arguments:
            source: a path, or a text of several lines
        """
        if isinstance(source, str) and "\n" in source:
            return list(parse_conllu(source, "text", check_trees=False))
        return read_conllu(source, check_trees=False)


def _sentence(given: str | Sequence[str] | ConlluSentence, number: int) -> ConlluSentence:
    if isinstance(given, ConlluSentence):
        return given
    words = given.split() if isinstance(given, str) else list(given)
    if not words or not all(isinstance(word, str) and word and not set(word) & set("\t\r\n") for word in words):
        raise ValueError(
            f"Parser.predict: sentence {number} must have words without tabs and newlines, got {len(words)} words; "
            "leave out empty sentences"
        )
    return sentence_of_words(words)
