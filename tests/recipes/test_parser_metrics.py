"""UAS and LAS counted by hand."""

import pytest

from omegamax.data.conllu import parse_conllu
from omegamax.recipes.parser_metrics import PredictedTree, attachment_scores, tree_counts

GOLD = """\
1	I	_	_	_	_	2	nsubj	_	_
2	ran	_	_	_	_	0	root	_	_
3	home	_	_	_	_	2	obl:tmod	_	_
4	.	_	_	_	_	2	punct	_	_

1-2	don't	_	_	_	_	_	_	_	_
1	do	_	_	_	_	0	root	_	_
2	n't	_	_	_	_	1	advmod	_	_

"""


def gold():
    return list(parse_conllu(GOLD, "gold"))


def test_scores_by_hand():
    found = [
        # right head and relation, right, right up to the colon, wrong head of the full stop
        PredictedTree([2, 0, 2, 3], ["nsubj", "root", "obl", "punct"]),
        PredictedTree([0, 1], ["root", "obj"]),  # right heads, a wrong relation
    ]
    scores = attachment_scores(gold(), found)
    assert scores["uas"] == pytest.approx(100 * 5 / 6)
    assert scores["las"] == pytest.approx(100 * 4 / 6)
    assert scores["las_with_subtypes"] == pytest.approx(100 * 3 / 6)
    assert scores["uas_without_punctuation"] == pytest.approx(100 * 5 / 5)
    assert scores["las_without_punctuation"] == pytest.approx(100 * 4 / 5)
    assert scores["exact_heads"] == 50 and scores["exact_trees"] == 0
    assert next(iter(scores)) == "las"


def test_a_relation_that_training_never_showed_counts_as_wrong():
    found = [PredictedTree(each.heads, ["dep"] * len(each.forms)) for each in gold()]
    scores = attachment_scores(gold(), found)
    assert scores["uas"] == 100 and scores["las"] == 0 and scores["exact_heads"] == 100


def test_accuracy_by_number_of_trees():
    found = [PredictedTree([2, 0, 2, 3], ["x"] * 4, 3), PredictedTree([0, 1], ["x"] * 2, 1)]
    counts = tree_counts(gold(), found)
    assert counts == {"trees": 2.0, "one_tree": 50.0, "uas_one_tree": 100.0, "uas_2_to_5_trees": 75.0}


def test_no_sentences():
    assert attachment_scores([], [])["las"] == 0
