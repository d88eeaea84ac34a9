"""Translation: any pairs of texts, with an LSTM as in the paper's experiments or with a Transformer.

    omegamax train translate --attention fusedmax
    omegamax train translate --data en-de --source 2 --target 1 --model transformer --attention sparsemax

The data is a table, JSON lines or two aligned files (see omegamax/data/text_pairs.py); sub-words are learned from the
training texts. Niculae & Blondel, "A regularized framework for sparse and structured neural attention", NeurIPS 2017,
section 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from omegamax.data.small_language import generate_sentences
from omegamax.data.text_pairs import PairOfTexts, read_text_pairs
from omegamax.data.tsv import SPLITS
from omegamax.data.vocabulary import JOINER, PADDING, SPECIAL, START, UNKNOWN
from omegamax.models import SequenceModel
from omegamax.recipes.decoding import Hypothesis, SearchResult
from omegamax.recipes.metrics import TranslationScores, exact_match, translation_scores
from omegamax.recipes.sequence_models import check_model, sequence_model
from omegamax.recipes.settings import TranslateSettings
from omegamax.recipes.text_to_text import TextPair, Texts, TextToText

_MIN_EXAMPLES = 100  # of dev and test


class Translate(TextToText):
    """Learns to translate texts of one language into another."""

    name: ClassVar[str] = "translate"
    metric: ClassVar[str] = "bleu"
    settings_type: ClassVar[type] = TranslateSettings
    settings: TranslateSettings
    generate: ClassVar[Callable[..., Iterator[tuple[str, str]]]] = staticmethod(generate_sentences)

    @classmethod
    def check_settings(cls, settings: Any) -> None:
        check_model(settings)

    @classmethod
    def read_texts(cls, settings: TranslateSettings) -> dict[str, list[Texts]]:
        """Reads the pairs of the files, or generates those of a small language."""
        if settings.data is not None:
            found = read_text_pairs(settings.data, settings.source, settings.target)
            return {split: [_texts(pair) for pair in pairs] for split, pairs in found.items()}

        def generated(split: str) -> list[Texts]:
            count = settings.examples if split == "train" else max(_MIN_EXAMPLES, settings.examples // 20)
            return [Texts(*pair) for pair in cls.generate(count, split, seed=settings.data_seed)]

        return {split: generated(split) for split in SPLITS}

    def make_examples(self, texts: Sequence[Texts]) -> list[TextPair]:
        """Puts single spaces between words, as in texts from files."""
        return super().make_examples(
            [
                each._replace(source=" ".join(each.source.split()), target=" ".join(each.target.split()))
                for each in texts
            ]
        )

    def model(self) -> SequenceModel:
        return sequence_model(self.settings, len(self.source), len(self.target))

    def search_options(self) -> dict[str, Any]:
        settings = self.settings
        may_be_unknown = settings.unknown == "copy" and settings.attention != "none"
        return {
            "n_beams": settings.beam,
            "max_length": settings.max_length,
            "length_penalty": settings.length_penalty,
            "coverage_penalty": settings.coverage_penalty,
            "forbidden": (PADDING, START) if may_be_unknown else (PADDING, UNKNOWN, START),
        }

    def predict(self, model: nn.Module, examples: Sequence[TextPair]) -> list[str]:
        """Returns the best translation of each, or, with `n_best`, several as JSON with scores and what was proved."""
        if not self.settings.n_best:
            return self.assess(model, examples)
        lines = []
        for example, found in zip(examples, self.search(model, examples)):
            best = found.hypotheses[: self.settings.n_best]
            texts = self.write_texts(model, [example] * len(best), best)
            outputs = [{"text": text, "score": output.score} for text, output in zip(texts, best)]
            content = {"outputs": outputs, "complete": found.complete, "optimal": found.optimal}
            lines.append(json.dumps(content, ensure_ascii=False))
        return lines

    def assess(self, model: nn.Module, examples: Sequence[TextPair]) -> list[str]:
        """Returns the best translation of each."""
        return self.texts_of(model, examples, self.search(model, examples))

    def texts_of(self, model: nn.Module, examples: Sequence[TextPair], found: Sequence[SearchResult]) -> list[str]:
        return self.write_texts(model, examples, [each.best for each in found])

    def write_texts(self, model: nn.Module, examples: Sequence[TextPair], outputs: Sequence[Hypothesis]) -> list[str]:
        """Returns the texts of outputs; an unknown token becomes the source token with the most attention."""
        tokens = [self.target.tokens(output.tokens) for output in outputs]
        unknown = [place for place, output in enumerate(outputs) if UNKNOWN in output.tokens]
        if unknown:
            some = [examples[place] for place in unknown]
            weights = self.attention_weights(model, some, [outputs[place] for place in unknown])
            for place, looked in zip(unknown, weights if weights is not None else ()):
                tokens[place] = _copied(tokens[place], examples[place].source, looked)
        return [self.target_tokens.join(each) for each in tokens]

    def score_texts(self, examples: Sequence[TextPair], predictions: Sequence[str]) -> dict[str, float]:
        """Computes BLEU and chrF by sacrebleu, and the share of outputs that are right as a whole."""
        found = self._scores(examples, predictions)
        right = exact_match(predictions, [example.target for example in examples])
        return {"bleu": found.bleu, "chrf": found.chrf, "exact_match": right}

    def signatures(self, examples: Sequence[TextPair]) -> dict[str, str]:
        targets = [example.target for example in examples[:1]]
        return self._scores(examples[:1], targets).signatures

    def _scores(self, examples: Sequence[TextPair], predictions: Sequence[str]) -> TranslationScores:
        return translation_scores(predictions, [[example.target] for example in examples])


def _texts(pair: PairOfTexts) -> Texts:
    return Texts(pair.source, pair.targets[0], more=pair.targets[1:])


def _copied(tokens: Sequence[str], source: Sequence[str], weights: Tensor) -> list[str]:
    """Replaces unknown tokens by source tokens, by weights (T, K) or (heads, T, K), which are averaged."""
    looked = weights.mean(0) if weights.dim() == 3 else weights
    written = []
    for token, row in zip(tokens, looked):
        if token == SPECIAL[UNKNOWN]:
            token = source[int(row[: len(source)].argmax())].removeprefix(JOINER) if source else ""
        written.append(token)
    return written
