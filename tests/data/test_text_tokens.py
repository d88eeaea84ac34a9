"""Characters, words and sub-words of a text: back and forth, counts of characters, and what is refused."""

import json

import pytest

from omegamax.data.text_tokens import LEVELS, Subwords, learn_tokens, restore_tokens
from omegamax.data.vocabulary import END, JOINER, SPECIAL, UNKNOWN, Vocabulary

LINES = ["the cat sat on the mat.", "the dog sat, too: grüß Gott!"] * 3


def tokens_of(level, lines=LINES, max_size=400):
    if level == "subword":
        pytest.importorskip("tokenizers")
    return learn_tokens(level, iter(lines), max_size)


@pytest.mark.parametrize("level", LEVELS)
def test_there_and_back(level):
    tokens = tokens_of(level)
    again = restore_tokens(level, json.loads(json.dumps(tokens.to_json())))
    for line, numbers in zip(LINES, tokens.encode(LINES)):
        assert tokens.decode(numbers) == line and again.decode(numbers) == line
        assert min(numbers) >= len(SPECIAL)
    assert again.encode(LINES) == tokens.encode(LINES)


@pytest.mark.parametrize("level", LEVELS)
def test_tokens_are_named_and_joined_again(level):
    """The tokens of a line, by name: their numbers are those of `encode`, and together they are the line."""
    tokens = tokens_of(level)
    for line, named, numbers in zip(LINES, tokens.split(LINES), tokens.encode(LINES)):
        assert tokens.vocabulary.numbers(named) == numbers and tokens.join(named) == line


def test_no_text_is_unknown_to_sub_words():
    tokens = tokens_of("subword")
    strange = "年 <s> </s> <pad> \x00 “x”  y"
    (numbers,) = tokens.encode([strange])
    assert tokens.decode(numbers) == strange and min(numbers) >= len(SPECIAL)


@pytest.mark.parametrize("level", ["char", "subword"])
def test_characters_are_counted(level):
    tokens = tokens_of(level)
    counts = tokens.n_characters()
    for line in [*LINES, "năm 2017 年 naïve 🙂"]:
        assert sum(counts[number] for number in tokens.encode([line])[0]) == len(line)
    assert counts[END] == 1  # the end of a line


def test_words_beyond_the_vocabulary_are_unknown_and_have_no_length():
    tokens = tokens_of("word", max_size=6)
    assert UNKNOWN in tokens.encode(["the cat"])[0] and tokens.n_characters() is None


def test_frequent_pairs_become_one_token():
    tokens = tokens_of("subword", ["abab abab abab"] * 10, 4 + 256 + 3)
    (numbers,) = tokens.encode(["abab abab"])
    assert len(numbers) < 5 and len(tokens.vocabulary) <= 4 + 256 + 3


def test_too_small_and_damaged_vocabularies_are_refused():
    with pytest.raises(ValueError, match="max_size must be at least 260, a token for each byte"):
        tokens_of("subword", max_size=259)
    vocabulary = Vocabulary([*SPECIAL, "a", "b"])
    for merges in ([["a", "b"]], [["a"]], [["a", 1]], [["c", "a"]]):
        with pytest.raises(ValueError, match="a merge must be two tokens whose union is a token too"):
            Subwords(vocabulary, merges)
    with pytest.raises(TypeError):
        Subwords(vocabulary, 3)
    with pytest.raises(KeyError):
        restore_tokens("subword", {"vocabulary": list(SPECIAL)})


def test_labels_of_sub_words_are_what_people_read():
    pytest.importorskip("tokenizers")
    tokens = Subwords.of(["der Lügner lügt ."] * 3, max_size=270)
    pieces = tokens.split(["Lügner sind da"])[0]
    labels = tokens.labels([*pieces, "</s>"])
    whole = " ".join(labels).replace(f" {JOINER}", "")
    assert "Ġ" not in whole and whole.replace("�", "").startswith("L") and labels[-1] == "</s>"
    assert tokens.labels(["Ġ"]) == ["␣"] and tokens.labels([]) == []
    assert [label.startswith(JOINER) for label in tokens.labels(["Ġd", "e", "r"])] == [False, True, True]
    plain = learn_tokens("word", ["a b"], 10)
    assert plain.labels(["a", "b"]) == ["a", "b"]


def test_subwords_are_joined_on_one_line():
    """Every byte is a sub-word, so a model can write any; a tab would end a cell of a table."""
    tokens = Subwords.of(["a b"], max_size=270)
    (split,) = tokens.split(["a\tb\rc\nd"])
    assert tokens.join(split) == "a b c d"
