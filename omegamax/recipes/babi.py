"""Answers questions about stories with a memory network (Sukhbaatar et al., NIPS 2015), and shows what it looked up.

    omegamax train babi --attention sparsemax
    omegamax train babi --data tasksv11/en --tasks 2 --epochs 100
    echo 'Ada took the lamp. Ada went to the shed. Where is the lamp?' | omegamax predict runs/babi-sparsemax

The network reads its memory of sentences several times; each time a normalizer says how much of each sentence it reads.
A sparse one names a few sentences, and the data say which ones the answer follows from, so both can be compared.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention import (
    AdjacentEmbeddings,
    BagOfWords,
    CentredPositionEncoding,
    LayerWiseEmbeddings,
    MemoryNetwork,
    PositionEncoding,
)
from omegamax.attention.memories.linear_start import LinearStart
from omegamax.attention.normalizers import Normalizer
from omegamax.data.babi import StoryQuestion, parse_stories, read_babi, sentences_of
from omegamax.data.errands import generate_errands
from omegamax.data.vocabulary import PADDING, SPECIAL, Vocabulary
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import BabiSettings
from omegamax.training.task import AttentionMap, Loss, Task

_MAX_WORDS = 100_000
_MIN_QUESTIONS = 60  # of dev and test, if they are generated
_ENCODINGS = {"centred": CentredPositionEncoding(), "position": PositionEncoding(), "bag": BagOfWords()}
NOTICED = 0.1  # under a dense normalizer a sentence counts as looked up if it has more weight than this


class StoryBatch(NamedTuple):
    """Stories, questions and answers as numbers of words; 0 is padding."""

    story: Tensor  # (batch, sentences, words)
    question: Tensor  # (batch, words)
    answer: Tensor  # (batch,)


class StoryQuestions(Task):
    """Learns to answer questions about stories."""

    name: ClassVar[str] = "babi"
    metric: ClassVar[str] = "accuracy"
    settings_type: ClassVar[type] = BabiSettings
    reads_single_lines: ClassVar[bool] = False
    settings: BabiSettings

    def __init__(
        self,
        settings: BabiSettings,
        vocabulary: Vocabulary,
        n_questions: int,
        n_slots: int,
        splits: Mapping[str, Sequence[StoryQuestion]] | None = None,
    ) -> None:
        self._normalizer = make_normalizer(settings)
        self.settings, self.vocabulary, self._splits = settings, vocabulary, splits
        self._n_questions, self._n_slots = n_questions, n_slots

    @classmethod
    def prepare(cls, settings: BabiSettings) -> StoryQuestions:
        """Reads or generates the stories, and counts their words and answers."""
        make_normalizer(settings)
        splits = _read(settings)
        texts = [text for each in splits["train"] for text in (*each.story, each.question, (each.target,))]
        longest = max((len(each.story) for each in splits["train"]), default=1)
        vocabulary, n_slots = Vocabulary.of(texts, max_size=_MAX_WORDS), min(settings.max_sentences, longest)
        return cls(settings, vocabulary, len(splits["train"]), n_slots, splits)

    @classmethod
    def restore(cls, settings: BabiSettings, assets: Mapping[str, Any]) -> StoryQuestions:
        """Makes the task from the vocabulary of a checkpoint."""
        n_slots = assets.get("slots", settings.max_sentences)  # of older checkpoints
        return cls(settings, Vocabulary(assets["words"]), assets["questions"], n_slots)

    def assets(self) -> dict[str, Any]:
        words = self.vocabulary.tokens(range(len(self.vocabulary)))
        return {"words": words, "questions": self._n_questions, "slots": self._n_slots}

    def examples(self, split: str) -> Sequence[StoryQuestion]:
        """Returns the questions of a split, in the order of the files."""
        if self._splits is None:
            self._splits = _read(self.settings)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[StoryQuestion]:
        """Makes an example of each question. Sentences come before it; a blank line, or a line 1, begins a story.

        A line of several sentences is a whole story.
        """
        stories = parse_stories(_one_by_one(lines), "the input")
        return [self._shortened(question) for questions in stories for question in questions]

    def length(self, example: StoryQuestion) -> int:
        """Returns the number of sentences."""
        return len(example.story)

    def fingerprint(self, example: StoryQuestion) -> str:
        """Returns all of the story and its question as text."""
        return repr(example)

    def model(self) -> MemoryNetwork:
        """Returns the network, whose normalizer is left out at first if the settings say so."""
        settings = self.settings
        tables = AdjacentEmbeddings if settings.sharing == "adjacent" else LayerWiseEmbeddings
        normalizer: Normalizer = self._normalizer
        if settings.linear_start:
            normalizer = LinearStart(normalizer, settings.linear_start * self._n_questions * settings.n_hops)
        return MemoryNetwork(
            tables(len(self.vocabulary), settings.size, n_hops=settings.n_hops, max_sentences=self._n_slots),
            encoding=_ENCODINGS[settings.encoding],
            normalizer=normalizer,
            time_noise=settings.time_noise,
            empty_slots=settings.empty_slots == "yes",
        )

    def collate(self, examples: Sequence[StoryQuestion]) -> StoryBatch:
        stories = [self._shortened(example).story for example in examples]
        n_sentences = max(map(len, stories))
        n_words = max(len(sentence) for story in stories for sentence in story)
        silence = [PADDING] * n_words
        rows = [[*(self._padded(sentence, n_words) for sentence in story)] for story in stories]
        longest = max(len(example.question) for example in examples)
        return StoryBatch(
            torch.tensor([row + [silence] * (n_sentences - len(row)) for row in rows]),
            torch.tensor([self._padded(example.question, longest) for example in examples]),
            torch.tensor(self.vocabulary.numbers(example.target for example in examples)),
        )

    def _padded(self, words: Sequence[str], n_words: int) -> list[int]:
        return self.vocabulary.numbers(words) + [PADDING] * (n_words - len(words))

    def loss(self, model: nn.Module, batch: StoryBatch) -> Loss:
        """Computes the negative log-likelihood of the answers."""
        scores = model(batch.story, batch.question).scores
        return Loss(nn.functional.cross_entropy(scores, batch.answer, reduction="sum"), len(batch.answer))

    def predict(self, model: nn.Module, examples: Sequence[StoryQuestion]) -> list[str]:
        """Returns for each question the answer and its probability, with a tab between them."""
        probabilities = self._probabilities(model, examples)[0]
        best = probabilities.max(-1)
        answers = self.vocabulary.tokens(best.indices.tolist())
        return [f"{answer}\t{probability:.4f}" for answer, probability in zip(answers, best.values.tolist())]

    def assess(self, model: nn.Module, examples: Sequence[StoryQuestion]) -> list[str]:
        """Returns for each question the answer, a tab, and as JSON its loss and the sentences that each hop read."""
        probabilities, weights = self._probabilities(model, examples)
        least = NOTICED if self._normalizer.always_positive else 0.0
        gold = self.vocabulary.numbers(example.target for example in examples)
        lines = []
        for row, answer in enumerate(self.vocabulary.tokens(probabilities.argmax(-1).tolist())):
            hops = [hop.nonzero().flatten().tolist() for hop in weights[row] > least]
            loss = -float(probabilities[row, gold[row]].log())
            lines.append(f"{answer}\t{json.dumps({'loss': loss, 'hops': hops})}")
        return lines

    def _probabilities(self, model: nn.Module, examples: Sequence[StoryQuestion]) -> tuple[Tensor, Tensor]:
        """Returns the probability of each word as the answer, and the weights of all hops."""
        batch = self.batch_for(model, examples)
        scores, weights = model(batch.story, batch.question)
        scores[..., : len(SPECIAL)] = -torch.inf  # no answer is an unknown word
        return scores.double().softmax(-1), weights

    def score(self, examples: Sequence[StoryQuestion], predictions: Sequence[str]) -> dict[str, float]:
        """Computes accuracy, errors by task, and how well the sentences that were looked up are the facts needed."""
        lines = [line.partition("\t") for line in predictions]
        found = [json.loads(line[2]) for line in lines]
        right = [line[0] == example.target for line, example in zip(lines, examples)]
        by_task: dict[int, list[bool]] = defaultdict(list)
        for example, is_right in zip(examples, right):
            by_task[example.task].append(is_right)
        errors = {task: 100 * (1 - sum(some) / len(some)) for task, some in sorted(by_task.items())}
        scores = {
            "accuracy": sum(right) / max(1, len(right)),
            "mean_error": sum(errors.values()) / max(1, len(errors)),
            "loss": sum(each["loss"] for each in found) / max(1, len(found)),
        }
        if len(errors) > 1:
            scores |= {f"error_{task}": error for task, error in errors.items()}
        return {**scores, **self._fact_scores(examples, [each["hops"] for each in found])}

    def _fact_scores(
        self, examples: Sequence[StoryQuestion], hops: Sequence[Sequence[Sequence[int]]]
    ) -> dict[str, float]:
        """Computes precision and recall of the sentences that each hop read, and all hops together."""
        facts = [set(self._shortened(example).facts) for example in examples]
        if not any(facts):
            return {}
        readings = {"": [set().union(*each) for each in hops]}
        readings |= {f"_hop_{hop + 1}": [set(each[hop]) for each in hops] for hop in range(self.settings.n_hops)}
        scores = {}
        for name, read in readings.items():
            n_right = sum(len(mine & needed) for mine, needed in zip(read, facts))
            scores[f"fact_precision{name}"] = n_right / max(1, sum(map(len, read)))
            scores[f"fact_recall{name}"] = n_right / max(1, sum(map(len, facts)))
        return {**scores, "sentences_read": sum(map(len, readings[""])) / len(facts)}

    def attend(self, model: nn.Module, examples: Sequence[StoryQuestion]) -> list[AttentionMap]:
        """Returns how much each hop reads of each sentence. The last row is named by the question and its answer."""
        probabilities, weights = self._probabilities(model, examples)
        answers = self.vocabulary.tokens(probabilities.argmax(-1).tolist())
        maps = []
        for row, (example, answer) in enumerate(zip(examples, answers)):
            story = self._shortened(example).story
            rows = [f"hop {hop}" for hop in range(1, self.settings.n_hops + 1)]
            rows[-1] += f": {' '.join(example.question)}? {answer}"
            columns = [" ".join(sentence) for sentence in story]
            maps.append(AttentionMap(rows, columns, weights[row, :, : len(story)], self._normalizer.always_positive))
        return maps

    def draw(self, model: nn.Module, examples: Sequence[StoryQuestion]) -> list[Any]:
        """Returns a figure of each story: its sentences, and what each hop reads of them; facts are in orange."""
        from omegamax.plots import memory_hops

        return [
            memory_hops(
                found.weights.T,
                found.columns,
                facts=self._shortened(given).facts,
                title=found.rows[-1].partition(": ")[2],
                exact_zeros=not found.always_positive,
            )
            for given, found in zip(examples, self.attend(model, examples))
        ]

    def _shortened(self, example: StoryQuestion) -> StoryQuestion:
        """Returns the question with the last sentences of its story; facts before them are lost."""
        n_lost = len(example.story) - self._n_slots
        if n_lost <= 0:
            return example
        facts = tuple(fact - n_lost for fact in example.facts if fact >= n_lost)
        return example._replace(story=example.story[n_lost:], facts=facts)


def _one_by_one(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields sentences with the numbers of their lines, and blank lines around a line that has several."""
    for number, line in enumerate(lines, start=1):
        sentences = sentences_of(line)
        yield from ((number, text) for text in (["", *sentences, ""] if len(sentences) > 1 else [line]))


def _read(settings: BabiSettings) -> dict[str, list[StoryQuestion]]:
    if settings.data is not None:
        return read_babi(settings.data, settings.task_numbers)
    splits = {split: list(_generate(settings, split)) for split in ("train", "dev", "test")}
    if not all(splits.values()):
        wanted = ", ".join(map(str, settings.task_numbers))
        raise ValueError(
            f"babi: generated stories are of the tasks 1 and 2, got {wanted}; choose among them, or --data"
        )
    return splits


def _generate(settings: BabiSettings, split: str) -> Iterator[StoryQuestion]:
    count = settings.questions if split == "train" else max(_MIN_QUESTIONS, settings.questions // 10)
    wanted = settings.task_numbers
    every = generate_errands(count, split, seed=settings.data_seed)
    return (question for question in every if not wanted or question.task in wanted)
