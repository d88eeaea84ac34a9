"""Column files and JSON lines of tagged sentences: schemes, splits, and one sentence for everything that is wrong."""

import gzip
import json
import lzma

import pytest

from omegamax.data.conll import read_conll, read_words, write_conll
from omegamax.data.entity_sentences import generate_entity_sentences
from omegamax.data.span_lines import parse_span_lines, read_span_lines
from omegamax.data.tag_schemes import detect_scheme, invalid_places
from omegamax.data.tagged_sentences import MAX_WORDS, from_text, from_words, read_splits, split_files
from omegamax.spans import write_tags

SPANS = [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC"), (5, 8, "LOC")]
WORDS = ("Ada", "Bo", "Cleo", "met", "Rome", "New", "York", "City", ".")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
def test_every_scheme_gives_the_same_entities(tmp_path, scheme):
    tags = write_tags(SPANS, len(WORDS), scheme)
    file = write(tmp_path / "a.conll", write_conll(WORDS, tags))
    (sentence,) = read_conll(file)
    assert sentence.words == WORDS and sentence.spans == tuple(SPANS) and sentence.tags == tuple(tags)
    assert detect_scheme([tags]) == scheme and invalid_places(tags, scheme) == []


@pytest.mark.parametrize(
    ("tags", "scheme", "wrong"),
    [
        ("O I-PER", "IOB2", [1]),
        ("B-PER I-LOC", "IOB2", [1]),
        ("B-PER O", "IOB1", [0]),
        ("I-PER B-PER", "IOB1", []),
        ("B-PER O", "BIOES", [1]),
        ("S-PER E-PER", "BIOES", [1]),
        ("B-PER I-PER", "BIOES", [2]),
        ("U-PER L-PER", "BILOU", [1]),
    ],
)
def test_tags_that_cannot_follow_are_found(tags, scheme, wrong):
    assert invalid_places(tags.split(), scheme) == wrong


def test_columns_documents_comments_and_blank_lines(tmp_path):
    text = "\ufeff# id = 1\n-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\n# two words\n"
    text += "EU NNP I-NP B-ORG\n"
    first, second = read_conll(write(tmp_path / "a.txt", text))
    assert first.words == ("EU", "rejects") and first.line == 4 and second.words == ("EU",) and second.line == 9
    (phrases, _) = read_conll(tmp_path / "a.txt", tag_column=3)
    assert phrases.spans == ((0, 1, "NP"), (1, 2, "VP"))
    assert [each.words for each in read_conll(tmp_path / "a.txt", word_column=2)] == [("NNP", "VBZ"), ("NNP",)]


def test_hashtags_are_words(tmp_path):
    (sentence,) = read_conll(write(tmp_path / "a.tsv", "#\tO\n#rome\tB-LOC\n"))
    assert sentence.words == ("#", "#rome")
    (sentence,) = read_conll(write(tmp_path / "b.txt", "#rome B-LOC\n# O\n"))
    assert sentence.words == ("#rome", "#")


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files_are_read(tmp_path, ending, pack):
    with pack(tmp_path / f"a.conll{ending}", "wb") as file:
        file.write(b"Ada\tB-PER\n")
    (sentence,) = read_conll(tmp_path / f"a.conll{ending}")
    assert sentence.spans == ((0, 1, "PER"),)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a\tO\n" * 1233 + "a\n", r"line 1234: expected 2 columns as in line 1, got 1; correct or remove the line"),
        ("a\tO\nb\tB-\n", r"line 2: expected a tag such as O, B-PER or I-PER, got 'B-'"),
        ("a\nb\n", r"line 1: expected at least 2 columns, got 1"),
        (
            "a\tO\n" * (MAX_WORDS + 1),
            rf"line 1: expected a sentence of at most {MAX_WORDS} words, got more; blank lines",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        list(read_conll(write(tmp_path / "a.conll", rows)))


def test_words_without_tags_are_read():
    first, second = read_words(["Ada", "met", "", "Bo"])
    assert first.words == ("Ada", "met") and second.words == ("Bo",)


# Splits


def test_a_directory_three_files_or_one_file(tmp_path):
    for name, word in (("train.conll", "Ada"), ("valid.tsv", "Bo"), ("test.conll", "Cleo")):
        write(tmp_path / name, f"{word}\tB-PER\n")
    found = read_splits(tmp_path, read_conll)
    assert {split: each[0].words for split, each in found.items()} == {
        "train": ("Ada",),
        "dev": ("Bo",),
        "test": ("Cleo",),
    }
    three = ",".join(str(tmp_path / name) for name in ("test.conll", "valid.tsv", "train.conll"))
    assert split_files(three)["train"].name == "test.conll"
    one = write(tmp_path / "all.conll", "".join(f"name{n}\tB-PER\n\n" for n in range(200)))
    divided = read_splits(one, read_conll)
    assert (
        sum(map(len, divided.values())) == 200 and len(divided["train"]) > 120 and min(map(len, divided.values())) > 5
    )


def test_missing_empty_and_ambiguous_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or directory; give a directory"):
        split_files(tmp_path / "nowhere")
    write(tmp_path / "train.conll", "Ada\tB-PER\n")
    with pytest.raises(FileNotFoundError, match="no file for dev; there must be one for each of train, dev, test"):
        split_files(tmp_path)
    write(tmp_path / "dev.conll", "\n\n")
    write(tmp_path / "test.conll", "Ada\tB-PER\n")
    with pytest.raises(ValueError, match=r"dev.conll: expected sentences for the split dev, got none"):
        read_splits(tmp_path, read_conll)
    write(tmp_path / "dev.tsv", "Ada\tB-PER\n")
    with pytest.raises(ValueError, match=r"expected one file for dev, got dev.conll, dev.tsv"):
        split_files(tmp_path)
    with pytest.raises(FileNotFoundError, match="give files for train, dev and test, in this order"):
        split_files(f"{tmp_path / 'train.conll'},a,b")


# JSON lines


def test_spans_of_characters_become_spans_of_words(tmp_path):
    record = {"text": "Ada met Bo.", "spans": [{"start": 8, "end": 10, "label": "PER"}, [0, 3, "PER"]]}
    words = {"words": ["Ada", "met"], "tags": ["B-PER", "O"]}
    file = write(tmp_path / "a.jsonl", f"{json.dumps(record)}\n\n{json.dumps(words)}\n")
    first, second = read_span_lines(file)
    assert first.words == ("Ada", "met", "Bo", ".") and first.spans == ((0, 1, "PER"), (2, 3, "PER"))
    assert second.spans == ((0, 1, "PER"),) and second.line == 3


def test_a_span_within_a_word_is_widened():
    (sentence,) = parse_span_lines([(1, json.dumps({"text": "Anna-Lena ran", "spans": [[0, 4, "PER"]]}))])
    assert sentence.spans == ((0, 1, "PER"),) and sentence.words[0] == "Anna-Lena"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 7: not JSON; correct"),
        ("[1]", r"line 7: expected an object with text and spans, got \[1\]"),
        ('{"spans": []}', "expected a text under the key text, got None"),
        ('{"text": "a"}', "expected a list of spans under the key spans, got none"),
        ('{"text": "a b", "spans": [[0, 9, "X"]]}', "expected a span within the 3 characters of the text, got 0 to 9"),
        ('{"text": "a b", "spans": [[1, 2, "X"]]}', "expected a span with a word in it, got ' '"),
        ('{"text": "a b", "spans": [[0, 1, "X"], [0, 3, "Y"]]}', "expected spans without overlap, got X and Y"),
        ('{"text": "a b", "spans": [{"start": 0}]}', "expected a span with start, end and label"),
        ('{"words": ["a"], "tags": []}', "expected 1 tags, one for each word"),
    ],
)
def test_wrong_json_lines_are_named(line, message):
    with pytest.raises(ValueError, match=message):
        list(parse_span_lines([(7, line)], tagged=True))


# Texts


@pytest.mark.parametrize(
    "text", ["It's 5.30, isn't it?", "@anna: http://a.b/c?d #x_y", "", "  ", "日本 naïve O’Neil’s", "a\u200bb\x00c"]
)
def test_words_are_where_their_offsets_say(text):
    sentence = from_text(text)
    assert all(text[start:end] == word for word, (start, end) in zip(sentence.words, sentence.offsets))
    covered = set().union(*(range(start, end) for start, end in sentence.offsets)) if sentence.words else set()
    assert all(at in covered or not character.strip() for at, character in enumerate(text))  # nothing is lost


def test_words_make_a_text():
    sentence = from_words(("Ada", "met"))
    assert sentence.text == "Ada met" and sentence.offsets == ((0, 3), (4, 7))


# Generated sentences


def test_generated_sentences_are_the_same_every_time():
    first, again = (list(generate_entity_sentences(40, "train", seed=3)) for _ in range(2))
    assert first == again and first[:10] == list(generate_entity_sentences(10, "train", seed=3))
    assert first != list(generate_entity_sentences(40, "dev", seed=3))


def test_only_the_context_tells_what_a_name_is():
    kinds = {}
    for sentence in generate_entity_sentences(2000, "train"):
        for start, end, kind in sentence.spans:
            if end == start + 1:
                kinds.setdefault(sentence.words[start], set()).add(kind)
    several = [name for name, found in kinds.items() if len(found) == 3]
    assert len(several) > 50
    train, test = ({w for s in generate_entity_sentences(500, split) for w in s.words} for split in ("train", "test"))
    assert len(test - train) > 100  # names of its own


def test_some_sentences_do_not_tell_what_a_name_is():
    kinds = [each.spans[0][2] for each in generate_entity_sentences(3000, "train") if each.words[0] == "Everyone"]
    shares = [kinds.count(kind) / len(kinds) for kind in ("person", "place", "firm")]
    assert len(kinds) > 80 and min(shares) > 0.2
