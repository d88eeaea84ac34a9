"""What a tagger found in a sentence, and how it is written: JSON lines, or columns of words and tags."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from omegamax.data.conll import write_conll
from omegamax.data.tagged_sentences import TaggedSentence
from omegamax.recipes.settings import TaggerPrediction
from omegamax.recipes.tag_distribution import TagDistribution
from omegamax.spans import write_tags

_MOST_ANSWERS = 1000  # that --ranked lists of a sparse loss
_BEST = 10  # that it lists of a loss under which all sequences have a probability


class Entity(NamedTuple):
    """An entity in a text."""

    start: int  # its first character
    end: int  # the character after its last
    label: str
    text: str
    first_word: int
    last_word: int
    probability: float | None = None


class Answer(NamedTuple):
    """One way to read a sentence."""

    tags: tuple[str, ...]
    entities: tuple[Entity, ...]
    probability: float
    score: float


class Tagging(NamedTuple):
    """What a tagger found in a sentence."""

    text: str
    words: tuple[str, ...]
    tags: tuple[str, ...]  # in IOB2
    entities: tuple[Entity, ...]  # of the best sequence of tags, in the order of the text
    candidates: tuple[Entity, ...] = ()  # all entities above the threshold, the likeliest first
    answers: tuple[Answer, ...] = ()  # sequences of tags, the likeliest or best first
    complete: bool = False  # whether no other answer has a probability


def tagging_of(
    example: TaggedSentence,
    tags: Sequence[int],
    distribution: TagDistribution | None,
    wanted: TaggerPrediction,
    *,
    max_length: int,
) -> Tagging:
    """Makes what is asked for of a sentence.

    Arguments:
        example: the sentence
        tags: numbers of its best tags
        distribution: of its tags; None for a sentence without words
        wanted: probabilities, answers
        max_length: of an entity, in words
    """
    if distribution is None:
        return Tagging(example.text, (), (), (), complete=True)
    spans = distribution.reader.spans(tags)
    result = Tagging(example.text, example.words, _written(spans, example), _entities(spans, example))
    if wanted.probabilities:
        likely = distribution.entities(0.0, max_length)
        known = {(start, end, kind): probability for start, end, kind, probability in likely}
        result = result._replace(
            entities=tuple(_entity(example, *span, known.get(span, 0.0)) for span in spans),
            candidates=tuple(_entity(example, *span) for span in likely if span.probability > wanted.threshold),
        )
    if wanted.ranked or wanted.k_best:
        most = wanted.k_best or (_MOST_ANSWERS if distribution.loss.sparse else _BEST)
        found = distribution.ranked(most) if wanted.ranked else distribution.best(most)
        answers = []
        for each in found.sequences:
            read = distribution.reader.spans(each.tags)
            answers.append(Answer(_written(read, example), _entities(read, example), each.probability, each.score))
        result = result._replace(answers=tuple(answers), complete=found.complete)
    return result


def write_tagging(found: Tagging, wanted: TaggerPrediction) -> str:
    """Writes what was found. One more line feed ends it: then a blank line follows a sentence in columns."""
    return _json(found, wanted) if wanted.output_format == "jsonl" else _columns(found, wanted)


def _json(found: Tagging, wanted: TaggerPrediction) -> str:
    record: dict[str, Any] = {"text": found.text, "words": found.words, "tags": found.tags}
    record["entities"] = [_record(entity) for entity in found.entities]
    if wanted.probabilities:
        record["candidates"] = [_record(entity) for entity in found.candidates]
    if wanted.ranked or wanted.k_best:
        record["answers"] = [
            {
                "probability": answer.probability,
                "score": answer.score,
                "tags": answer.tags,
                "entities": [_record(entity) for entity in answer.entities],
            }
            for answer in found.answers
        ]
        record["complete"] = found.complete
    return json.dumps(record, ensure_ascii=False)


def _columns(found: Tagging, wanted: TaggerPrediction) -> str:
    """Writes a block of rows, or one for each answer; comments hold the probabilities."""
    if not (wanted.ranked or wanted.k_best):
        notes = [
            f"# {entity.label} {entity.probability:.6g} {entity.start} {entity.end} {entity.text}\n"
            for entity in found.entities
            if entity.probability is not None
        ]
        return "".join(notes) + write_conll(found.words, found.tags)
    blocks = [
        f"# answer {number}, probability {answer.probability:.6g}, score {answer.score:.6g}\n"
        + write_conll(found.words, answer.tags)
        for number, answer in enumerate(found.answers, start=1)
    ]
    return "\n".join(blocks)


def _record(entity: Entity) -> dict[str, Any]:
    record = {"start": entity.start, "end": entity.end, "label": entity.label, "text": entity.text}
    return record if entity.probability is None else {**record, "probability": entity.probability}


def _entities(spans: Sequence[tuple[int, int, str]], example: TaggedSentence) -> tuple[Entity, ...]:
    return tuple(_entity(example, *span) for span in spans)


def _entity(example: TaggedSentence, first: int, after: int, kind: str, probability: float | None = None) -> Entity:
    start, end = example.offsets[first][0], example.offsets[after - 1][1]
    return Entity(start, end, kind, example.text[start:end], first, after - 1, probability)


def _written(spans: Sequence[tuple[int, int, str]], example: TaggedSentence) -> tuple[str, ...]:
    return tuple(write_tags(spans, len(example.words), "IOB2"))
