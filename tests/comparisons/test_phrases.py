"""Phrases that attention selects: runs of equal weights, whole words, ranked examples."""

import pytest
import torch

from omegamax.comparisons.phrases import Phrase, phrases, richest
from omegamax.data.vocabulary import JOINER
from omegamax.training.task import AttentionMap


def attention(rows, columns=("he", "goes", "home", ".")):
    return AttentionMap([str(n) for n in range(len(rows))], list(columns), torch.tensor(rows))


def test_a_phrase_is_a_run_of_equal_weights():
    found = phrases(
        attention([[0.25, 0.25, 0.25, 0.25], [0.5, 0.0, 0.5, 0.0], [0.2, 0.2, 0.6, 0.0], [0.1, 0.4, 0.4, 0.1]])
    )
    assert found == [Phrase(0, 0, 4, 1.0, 4), Phrase(3, 1, 3, 0.8, 2)]
    assert phrases(attention([[0.2, 0.2, 0.6, 0.0]]), least=0.3) == [Phrase(0, 0, 2, 0.4, 2)]
    assert phrases(attention([[0.0] * 4])) == []


def test_the_parts_of_one_word_are_no_phrase():
    pieces = ["un", f"{JOINER}believ", f"{JOINER}able", "news"]
    assert phrases(attention([[0.4, 0.4, 0.2, 0.0]], pieces)) == []
    assert phrases(attention([[0.0, 0.0, 0.5, 0.5]], pieces)) == []  # a half word and a word
    assert [each.n_words for each in phrases(attention([[0.25] * 4], pieces))] == [2]


def test_the_richest_examples_come_first_and_once():
    poor, rich = attention([[0.4, 0.4, 0.2, 0.0], [1.0, 0.0, 0.0, 0.0]]), attention([[0.25] * 4], "abcd")
    none = attention([[0.7, 0.3, 0.0, 0.0]], "wxyz")
    assert richest([none, poor, rich, rich], 5) == [(2, rich), (1, poor)]
    assert richest([none, poor, rich], 1) == [(2, rich)] and richest([none], 3) == []


def test_heads_are_picked_first():
    with pytest.raises(ValueError, match="pick a head"):
        phrases(AttentionMap(["a"], ["b"], torch.ones(2, 1, 1)))
