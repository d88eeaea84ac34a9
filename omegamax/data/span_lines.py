"""JSON lines with entities: one object for each text, with spans of characters, or with words and tags.

    {"text": "Ada met Bo.", "spans": [{"start": 0, "end": 3, "label": "person"}, [8, 10, "person"]]}
    {"words": ["Ada", "met", "Bo", "."], "tags": ["B-person", "O", "B-person", "O"]}

Spans may also be called entities, labels or label, and words tokens. A span that begins or ends within a word is
widened to the whole word. Every error names the file, the line and what to do.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from omegamax.data.printable import short_repr
from omegamax.data.tag_schemes import split_tag
from omegamax.data.tagged_sentences import TaggedSentence, check_length, from_text, from_words
from omegamax.data.text_files import numbered_lines
from omegamax.spans.reading import read_spans

_SPANS = ("spans", "entities", "labels", "label")
_TYPES = ("label", "type", "entity", "tag")


def read_span_lines(path: str | Path) -> Iterator[TaggedSentence]:
    """Reads the sentences of a file of JSON lines, each when it is asked for.

    Arguments:
        path: of the file, plain or with .gz or .xz
    """
    path = Path(path)
    yield from parse_span_lines(numbered_lines(path), path, tagged=True)


def parse_span_lines(
    lines: Iterable[tuple[int, str]], path: Path | str = "the input", *, tagged: bool = False
) -> Iterator[TaggedSentence]:
    """Makes sentences of numbered lines.

    Arguments:
        lines: numbers and texts
        path: named in errors
        tagged: whether every text must have its entities
    """
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"expected an object with text and spans, got {short_repr(record)}")
            sentence = _sentence(record, tagged)._replace(line=number)
        except (ValueError, RecursionError) as error:
            reason = "not JSON" if isinstance(error, (json.JSONDecodeError, RecursionError)) else str(error)
            raise ValueError(f"{path}, line {number}: {reason}; correct or remove the line") from None
        check_length(Path(path), number, len(sentence.words))
        yield sentence


def _sentence(record: dict[str, Any], tagged: bool) -> TaggedSentence:
    words = record.get("words", record.get("tokens"))
    if words is not None:
        return _of_words(words, record.get("tags"), tagged)
    text = record.get("text")
    if not isinstance(text, str):
        raise ValueError(f"expected a text under the key text, got {short_repr(text)}")
    sentence = from_text(text)
    found = next((record[name] for name in _SPANS if name in record), None)
    if found is None:
        if tagged:
            raise ValueError("expected a list of spans under the key spans, got none")
        return sentence
    if not isinstance(found, list):
        raise ValueError(f"expected a list of spans, got {short_repr(found)}")
    spans = sorted(_words_of(sentence, *_span(each, len(text))) for each in found)
    for before, after in itertools.pairwise(spans):
        if after[0] < before[1]:
            raise ValueError(f"expected spans without overlap, got {before[2]} and {after[2]} on the same word")
    return sentence._replace(spans=tuple(spans))


def _of_words(words: Any, tags: Any, tagged: bool) -> TaggedSentence:
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f"expected words as a list of texts, got {short_repr(words)}")
    if tags is None and not tagged:
        return from_words(tuple(words))
    if not isinstance(tags, list) or len(tags) != len(words) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"expected {len(words)} tags, one for each word, got {short_repr(tags)}")
    for tag in tags:
        split_tag(tag)
    return from_words(tuple(words), tuple(read_spans(tags)), tuple(tags))


def _span(each: Any, length: int) -> tuple[int, int, str]:
    if isinstance(each, dict):
        kind = next((each[name] for name in _TYPES if name in each), None)
        values = (each.get("start"), each.get("end"), kind)
    else:
        values = tuple(each) if isinstance(each, list) and len(each) == 3 else (None, None, None)
    start, end, kind = values
    if type(start) is not int or type(end) is not int or not isinstance(kind, str) or not kind or kind == "O":
        raise ValueError(f"expected a span with start, end and label, got {short_repr(each)}")
    if not 0 <= start < end <= length:
        raise ValueError(f"expected a span within the {length} characters of the text, got {start} to {end}")
    return start, end, kind


def _words_of(sentence: TaggedSentence, start: int, end: int, kind: str) -> tuple[int, int, str]:
    """Returns the words that a span of characters touches."""
    first = bisect.bisect_right([place for _, place in sentence.offsets], start)
    last = bisect.bisect_left([place for place, _ in sentence.offsets], end)
    if first >= last:
        raise ValueError(f"expected a span with a word in it, got {short_repr(sentence.text[start:end])}")
    return first, last, kind
