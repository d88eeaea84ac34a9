"""Word vectors in both text formats, and word-pieces of a tokenizer."""

import gzip

import numpy as np
import pytest

from omegamax.data.word_vectors import read_vectors


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_only_wanted_words_are_read(tmp_path):
    file = write(tmp_path / "a.txt", "the 1 2\nRome 3 -4.5\nrome 5 6\n. . 7 8\n")
    found = read_vectors(file, ["Rome", "ROME", "sea", ". ."])
    assert set(found) == {"Rome", "ROME", ". ."}
    np.testing.assert_array_equal(found["Rome"], [3, -4.5])
    np.testing.assert_array_equal(found["ROME"], [5, 6])  # in lower case
    np.testing.assert_array_equal(found[". ."], [7, 8])  # GloVe has words with spaces
    assert found["Rome"].dtype == np.float32


def test_the_first_line_of_word2vec_and_compression(tmp_path):
    with gzip.open(tmp_path / "a.vec.gz", "wt") as file:
        file.write("2 2 \nthe 1 2 \nsea 3 4 \n")
    assert {word: list(row) for word, row in read_vectors(tmp_path / "a.vec.gz", {"the", "sea"}).items()} == {
        "the": [1, 2],
        "sea": [3, 4],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected lines of a word and its numbers, got an empty file"),
        ("the 1 2\nsea 3\n", "line 2: expected 2 numbers after a word, got 1; the file may be cut off"),
        ("the 1 x\n", "line 1: expected 2 numbers after a word"),
        ("the 1 inf\n", "line 1: expected 2 finite numbers"),
        ("the\n", "line 1: expected a word and its numbers"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_vectors(write(tmp_path / "a.txt", text), {"the", "sea"})


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; give word vectors"):
        read_vectors(tmp_path / "a.txt", {"the"})
