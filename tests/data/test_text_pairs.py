"""Pairs of texts: tables, aligned files and JSON lines, divided or not, compressed or not, in both directions."""

import gzip
import json
import lzma
from itertools import chain

import pytest

from omegamax.data.text_pairs import read_text_pairs
from omegamax.data.tsv import SPLITS, split_of

PAIRS = [(f"source {n}", f"Ziel {n}") for n in range(60)]
EXPECTED = {split: [pair for pair in PAIRS if split_of(pair[0]) == split] for split in SPLITS}


def found(path, source="1", target="2"):
    read = read_text_pairs(path, source, target)
    return {split: [(pair.source, *pair.targets) for pair in pairs] for split, pairs in read.items()}


def lines(column):
    return "".join(f"{pair[column]}\n" for pair in PAIRS)


def test_columns_of_a_table_in_both_directions(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{n}\t{a}\t{b}\textra\n\n" for n, (a, b) in enumerate(PAIRS)))
    assert found(path, "2", "3") == EXPECTED
    turned = found(path, "3", "2")
    assert sorted(chain(*turned.values())) == sorted((b, a) for a, b in PAIRS)


def test_the_naming_of_a_corpus(tmp_path):
    """Some splits with .xz, others with .gz: en-de.train.tsv.xz and so on, by their prefix."""
    for split, opened in zip(SPLITS, (lzma.open, gzip.open, open)):
        ending = {lzma.open: ".xz", gzip.open: ".gz", open: ""}[opened]
        with opened(tmp_path / f"en-de.{split}.tsv{ending}", "wt") as file:
            file.write("".join(f"{a}\t{b}\n" for a, b in EXPECTED[split]))
    assert found(tmp_path / "en-de") == EXPECTED


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_aligned_files(tmp_path, packed):
    for column, language in enumerate(("en", "de")):
        with (gzip.open if packed else open)(tmp_path / f"corpus.{language}{packed}", "wt") as file:
            file.write(lines(column) + "\n")  # both end with a blank line
        (tmp_path / "divided").mkdir(exist_ok=True)
        for split in SPLITS:
            text = "".join(f"{pair[column]}\n" for pair in EXPECTED[split])
            (tmp_path / "divided" / f"{split}.{language}").write_text(text)
    assert found(tmp_path / "corpus", "en", "de") == EXPECTED
    assert found(tmp_path / "divided", "en", "de") == EXPECTED


def test_files_that_are_not_aligned_are_refused(tmp_path):
    (tmp_path / "c.en").write_text("a\nb\nc\n")
    (tmp_path / "c.de").write_text("a\n")
    with pytest.raises(ValueError, match=r"the source has 2 more lines than the target; align the files"):
        read_text_pairs(tmp_path / "c", "en", "de")
    with pytest.raises(ValueError, match=r"the target has 2 more lines than the source"):
        read_text_pairs(tmp_path / "c", "de", "en")
    (tmp_path / "c.de").write_text("a\n\nc\n")
    with pytest.raises(ValueError, match=r"row 2: the target is empty; fill it in or remove the line"):
        read_text_pairs(tmp_path / "c", "en", "de")
    with pytest.raises(FileNotFoundError, match=r"there is no file that ends with \.fr"):
        read_text_pairs(tmp_path / "c", "en", "fr")


def test_json_lines_have_sentences_and_references(tmp_path):
    rows = [{"source": ["One.", f"Two {n}."], "target": [f"a {n}", f"b {n}"], "title": f"T {n}"} for n in range(60)]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = chain(*found(path, "source", "target").values())
    assert sorted(pairs) == sorted((f"One. Two {n}.", f"a {n}", f"b {n}") for n in range(60))
    pairs = chain(*found(path, "source.1", "title").values())
    assert sorted(pairs) == sorted((f"Two {n}.", f"T {n}") for n in range(60))
    with pytest.raises(ValueError, match=r"line 1: there is no field abstract, got the fields source, target, title"):
        read_text_pairs(path, "abstract", "title")
    path.write_text("no json\n")
    with pytest.raises(ValueError, match=r"line 1: expected a JSON object, got 'no json'"):
        read_text_pairs(path, "source", "title")
    path.write_text('{"source": 3, "target": "x"}\n')
    with pytest.raises(ValueError, match=r"line 1: source must be a text or a list of texts, got 3"):
        read_text_pairs(path, "source", "target")
    path.write_text('{"source": "a", "target": "x \\ud83d"}\n')
    with pytest.raises(ValueError, match=r"line 1: the target has half of a surrogate pair"):
        read_text_pairs(path, "source", "target")


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("1", "1", "source and target must differ"),
        ("0", "1", "columns are counted from 1"),
        ("1", "5", "line 1: expected at least 5 columns .* choose another column$"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, source, target, complaint):
    (tmp_path / "t.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=complaint):
        read_text_pairs(tmp_path / "t.tsv", source, target)


def test_nothing_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file or directory; give a file, a directory"):
        read_text_pairs(tmp_path / "nowhere", "1", "2")
    (tmp_path / "t.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match="split is empty"):
        read_text_pairs(tmp_path / "t.tsv", "1", "2")
