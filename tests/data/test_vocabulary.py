"""Tokens, their numbers, and texts taken apart and put together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omegamax.data.vocabulary import SPECIAL, UNKNOWN, Vocabulary, join_tokens, split_text

TEXTS = st.lists(st.text(st.sampled_from("ab c,.'é3日"), max_size=12), max_size=5)


def test_order_is_by_frequency_then_alphabet():
    vocabulary = Vocabulary.of([list("cabbac"), list("zz"), list("z")], max_size=100)
    assert vocabulary.to_json() == [*SPECIAL, "z", "a", "b", "c"]
    assert vocabulary == Vocabulary.of([list("zzz"), list("bcabca")], max_size=100)


def test_the_rarest_are_unknown_when_there_is_no_room():
    vocabulary = Vocabulary.of([list("aab")], max_size=5)
    assert vocabulary.numbers("ab") == [4, UNKNOWN]
    assert "a" in vocabulary and "b" not in vocabulary and len(vocabulary) == 5


def test_reserved_tokens_come_first_and_once():
    vocabulary = Vocabulary.of([["<fr>", "x", "<s>"]], max_size=100, first=["<de>", "<fr>"])
    assert vocabulary.to_json() == [*SPECIAL, "<de>", "<fr>", "x"]


@given(TEXTS)
def test_round_trips(texts):
    for level in ("char", "word"):
        tokens = [split_text(text, level) for text in texts]
        vocabulary = Vocabulary.of(tokens, max_size=1000)
        again = Vocabulary(json.loads(json.dumps(vocabulary.to_json())))
        assert again == vocabulary and hash(again) == hash(vocabulary)
        for text, pieces in zip(texts, tokens):
            assert again.tokens(again.numbers(pieces)) == pieces
            assert join_tokens(pieces, level) == (text if level == "char" else " ".join(text.split()))


@pytest.mark.parametrize(
    "tokens, complaint", [(["a", "b"], "must begin with <pad>"), ([*SPECIAL, "a", "a"], "got 'a' twice")]
)
def test_what_is_no_vocabulary_is_refused(tokens, complaint):
    with pytest.raises(ValueError, match=complaint):
        Vocabulary(tokens)


def test_no_room_is_refused():
    with pytest.raises(ValueError, match="max_size must exceed the 4 reserved tokens"):
        Vocabulary.of([["a"]], max_size=4)


@given(st.text(st.sampled_from("ab c,<>￭'joiner"), max_size=20))
def test_the_joiner_sign_itself_survives(text):
    assert join_tokens(split_text(text, "word"), "word") == " ".join(text.split())


def test_the_name_of_the_joiner_sign_is_an_ordinary_text():
    assert split_text("a￭b ￭ <joiner>", "word") == ["a", "￭<joiner>", "￭b", "<joiner>", "<", "￭joiner", "￭>"]


@pytest.mark.parametrize("token", ["a\nb", "\t"])
def test_a_token_is_part_of_one_line(token):
    with pytest.raises(ValueError, match="must not hold a newline or a tab"):
        Vocabulary([*SPECIAL, token])
