"""A trained tagger, from Python.

from omegamax.recipes import Tagger

tagger = Tagger.load("runs/tagger-l2")
for entity in tagger.predict(["Ada flew to New Tarin."], probabilities=True)[0].entities:
    print(entity.text, entity.label, entity.probability)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from omegamax.data.tagged_sentences import MAX_WORDS, TaggedSentence, from_text, from_words
from omegamax.recipes.settings import TaggerPrediction
from omegamax.recipes.tagger import TaggerTask
from omegamax.recipes.tagger_output import Tagging
from omegamax.recipes.tasks import load
from omegamax.training.prediction import TrainedModel


class Tagger:
    """Finds entities in texts.

    Arguments:
        trained: from `omegamax.recipes.load`, a run of the task tagger
    """

    def __init__(self, trained: TrainedModel) -> None:
        if not isinstance(trained.task, TaggerTask):
            raise TypeError(
                f"Tagger: {trained.path} must be a run of the task tagger, got {type(trained.task).__name__}; use "
                "omegamax.recipes.load for other tasks"
            )
        self.task, self.model = trained.task, trained.model

    @classmethod
    def load(cls, run: Path | str, *, which: str = "best", device: str | torch.device = "cpu") -> Tagger:
        """Reads a trained tagger.

        Arguments:
            run: the --out of a training run, or a checkpoint
            which: "best" or "latest" of the run's checkpoints
            device: to compute on
        """
        return cls(load(run, which=which, device=device))

    @property
    def types(self) -> list[str]:
        """The types of entities that it knows."""
        return list(self.task.types)

    def predict(
        self,
        texts: Sequence[str | Sequence[str]],
        *,
        probabilities: bool = False,
        threshold: float = 0.01,
        ranked: bool = False,
        k_best: int = 0,
        batch_size: int = 64,
    ) -> list[Tagging]:
        """Finds the entities of each text.

        Arguments:
            texts: each a text, or a sequence of words
            probabilities: whether entities get their exact probability, and others that are likely are listed
            threshold: entities with this probability or less are not listed
            ranked: whether all sequences of tags with a probability are listed, at most `k_best` if that is not 0
            k_best: how many of the best sequences of tags are listed
            batch_size: sentences at a time
        """
        if isinstance(texts, str):
            raise TypeError("Tagger.predict: texts must be a list of texts, got one text; write predict([text])")
        wanted = TaggerPrediction(probabilities=probabilities, threshold=threshold, ranked=ranked, k_best=k_best)
        sentences = [_sentence(place, text) for place, text in enumerate(texts)]
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place].words))
        found: dict[int, Tagging] = {}
        before, self.task.prediction = self.task.prediction, wanted
        try:
            with torch.no_grad():
                for start in range(0, len(order), batch_size):
                    places = order[start : start + batch_size]
                    found.update(zip(places, self.task.tag(self.model, [sentences[place] for place in places])))
        finally:
            self.task.prediction = before
        return [found[place] for place in range(len(sentences))]


def _sentence(place: int, text: str | Sequence[str]) -> TaggedSentence:
    sentence = from_text(text) if isinstance(text, str) else from_words(tuple(text))
    if len(sentence.words) > MAX_WORDS:
        raise ValueError(
            f"Tagger.predict: text {place} must have at most {MAX_WORDS} words, got {len(sentence.words)}; give its "
            "sentences one by one"
        )
    return sentence
