"""What is special to trees: lists of spans, heads, derivations of a grammar, and the messages of errors."""

from __future__ import annotations

import itertools

import pytest
import torch
from structure_cases.trees import is_projective_tree

import omegamax as om

tree = om.ConstituencyTree()


def test_spans_and_back():
    potentials = torch.randn(2, 3, 5, 5, 4, dtype=torch.float64)
    lengths = torch.tensor([[5, 1, 3], [2, 4, 5]])
    best = tree.map(potentials, lengths=lengths)
    spans = tree.spans(best)
    for row, n_words in zip(itertools.chain(*spans), lengths.flatten().tolist()):
        assert len(row) == 2 * n_words - 1 and row == sorted(row)
    again = torch.stack([tree.from_spans(row, 5, 4, dtype=torch.float64) for row in spans])
    assert torch.equal(again, best)


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(0, 1, 0)],  # words are missing
        [(0, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 1)],  # twice
        [(0, 0, 0), (1, 1, 0), (0, 1, 5)],  # no such label
        [(0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 2, 0)],  # three children
        [(0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 1, 0), (1, 2, 0), (0, 2, 0)],  # crossing
        [(i, i, 0) for i in range(4)] + [(0, 1, 0), (2, 3, 0), (0, 3, 0)],  # too long
    ],
)
def test_spans_that_are_no_tree(spans):
    with pytest.raises(ValueError, match="binary tree"):
        tree.from_spans(spans, 3, 2)


def test_forbidden_spans():
    scores = torch.zeros(4, 4, 1, dtype=torch.float64)
    allowed = torch.ones(4, 4, 1, dtype=torch.bool)
    allowed[0, 1] = allowed[0, 2] = False
    assert tree.count(scores, mask=allowed) == 2  # word 0 joins last; the other three in two ways
    allowed[1, 3] = False
    assert tree.count(scores, mask=allowed) == 0
    assert tree.max(scores, mask=allowed) == -torch.inf


def test_label_probabilities_of_a_span_add_up_to_its_own():
    potentials = torch.randn(3, 6, 6, 4, dtype=torch.float64)
    labelled = tree.argmax(potentials).sum(-1)
    plain = tree.argmax(tree.from_scores(potentials.logsumexp(-1))).squeeze(-1)
    torch.testing.assert_close(labelled, plain)  # because entropies compose
    words = torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(labelled[:, words], torch.ones(3, 6, dtype=torch.float64))


def test_heads_and_back():
    potentials = torch.randn(2, 3, 7, 7, dtype=torch.float64)
    lengths = torch.tensor([[6, 1, 3], [2, 4, 5]])
    for single_root in (True, False):
        structure = om.ProjectiveTree(single_root=single_root)
        best = structure.map(potentials, lengths=lengths)
        heads = structure.heads(best)
        for row, n_words in zip(heads.flatten(0, 1).tolist(), lengths.flatten().tolist()):
            assert row[n_words:] == [-1] * (6 - n_words)
            assert is_projective_tree(row[:n_words])
            assert row.count(0) == 1 or not single_root
        assert torch.equal(structure.from_heads(heads, dtype=torch.float64), best)
        assert torch.equal(structure.from_heads(heads, lengths, dtype=torch.float64), best)
        score = (best * potentials).sum((-1, -2))
        torch.testing.assert_close(score, structure.max(potentials, om.Hard(), lengths=lengths))


def test_heads_beyond_the_length_are_ignored():
    heads = torch.tensor([[2, 0, 7], [0, 1, 1]])
    arcs = om.ProjectiveTree.from_heads(heads, torch.tensor([2, 3]))
    assert om.ProjectiveTree.heads(arcs).tolist() == [[2, 0, -1], [0, 1, 1]]
    with pytest.raises(ValueError, match="numbered from 1"):
        om.ProjectiveTree.from_heads(heads)
    with pytest.raises(TypeError, match="integers"):
        om.ProjectiveTree.from_heads(heads.float())


def test_every_word_has_one_head():
    potentials = torch.randn(4, 9, 9, dtype=torch.float64)
    for omega in (om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)):
        arcs = om.ProjectiveTree().argmax(potentials, omega)
        torch.testing.assert_close(arcs.sum(1)[:, 1:], torch.ones(4, 8, dtype=torch.float64))
        torch.testing.assert_close(arcs[:, 0].sum(1), torch.ones(4, dtype=torch.float64))
        assert (arcs[:, :, 0] == 0).all()


def test_forbidden_arcs():
    scores = torch.zeros(5, 5)
    allowed = torch.zeros(5, 5, dtype=torch.bool)
    for head, modifier in [(0, 2), (2, 1), (2, 3), (3, 4), (2, 4)]:
        allowed[head, modifier] = True
    structure = om.ProjectiveTree()
    assert structure.count(scores, mask=allowed) == 2
    assert sorted(structure.heads(structure.enumerate(scores, mask=allowed)).tolist()) == [[2, 0, 2, 2], [2, 0, 2, 3]]
    allowed[0, 2] = False
    assert structure.count(scores, mask=allowed) == 0


# Grammars.


def tiny_grammar(n_words=4, batch=()):
    def normal(*shape):
        return torch.randn(*batch, *shape, dtype=torch.float64)

    return om.Grammar(normal(2), normal(2, 3, 3), normal(n_words, 1))


def score_of(grammar, spans):
    """A derivation's score, from its spans alone."""
    symbol = {(i, j): s for i, j, s in spans}
    last = max(j for _, j in symbol)
    total = grammar.root[symbol[0, last]]
    for (i, j), s in symbol.items():
        if i == j:
            total = total + grammar.terms[i, s - 2]
        else:
            k = next(k for k in range(i, j) if (i, k) in symbol and (k + 1, j) in symbol)
            total = total + grammar.rules[s, symbol[i, k], symbol[k + 1, j]]
    return float(total)


def test_derivations_of_a_grammar():
    grammar = tiny_grammar()
    n = om.Pcfg().count(grammar)
    assert n == 5 * 2**3
    parses = om.Pcfg().trees(grammar, n + 1)
    assert len(parses) == n == len({tuple(parse.spans) for parse in parses})
    assert [p.score for p in parses] == sorted((p.score for p in parses), reverse=True)
    for parse in parses:
        assert parse.score == pytest.approx(score_of(grammar, parse.spans))
    scores = torch.tensor([parse.score for parse in parses], dtype=torch.float64)
    torch.testing.assert_close(om.Pcfg().max(grammar), scores.logsumexp(0))
    torch.testing.assert_close(om.Pcfg().max(grammar, om.Hard()), scores[0])


@pytest.mark.slow
def test_sampled_derivations():
    grammar = tiny_grammar(3)
    generator = torch.Generator().manual_seed(0)
    drawn = om.Pcfg().sample_trees(grammar, n_samples=4000, generator=generator)
    value = om.Pcfg().max(grammar)
    for parse in om.Pcfg().trees(grammar, 8):
        assert parse.score == pytest.approx(score_of(grammar, parse.spans))
        frequency = sum(other.spans == parse.spans for other in drawn) / len(drawn)
        assert frequency == pytest.approx(float((parse.score - value).exp()), abs=0.04)


def test_batches_of_derivations():
    grammar = tiny_grammar(4, (2,))
    lengths = torch.tensor([4, 1])
    first, second = om.Pcfg().trees(grammar, 2, lengths=lengths)
    assert len(first) == 2 and second == []  # one word has no derivation in Chomsky's normal form
    assert om.Pcfg().max(grammar, lengths=lengths)[1] == -torch.inf
    assert [len(row) for row in om.Pcfg().sample_trees(grammar, n_samples=3, lengths=lengths)] == [3, 0]


def test_counts_of_rules_may_be_shared():
    """x (y y) x and its mirror image use the same rules: under a sparse Ω their probability is not one number."""
    grammar = tiny_grammar()
    with pytest.raises(ValueError, match="several derivations share"):
        every = om.Pcfg().enumerate(grammar)
        om.Pcfg().log_prob(grammar, every, om.SquaredNorm())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tree.max(torch.zeros(3, 4, 1)), ValueError, r"\(\.\.\., N, N, L\)"),
        (lambda: tree.max(torch.zeros(3, 3)), ValueError, r"\(\.\.\., N, N, L\)"),
        (lambda: tree.max(torch.zeros(3, 3, 1, dtype=torch.long)), TypeError, "floating point"),
        (lambda: tree.max(torch.zeros(2, 3, 3, 1), lengths=torch.tensor([0, 3])), ValueError, "between 1 and 3"),
        (lambda: tree.max(torch.zeros(2, 3, 3, 1), lengths=torch.tensor([4, 3])), ValueError, "between 1 and 3"),
        (lambda: om.ProjectiveTree().max(torch.zeros(3, 4)), ValueError, r"N \+ 1"),
        (lambda: om.ProjectiveTree().max(torch.zeros(1, 1)), ValueError, "artificial root"),
        (lambda: om.ProjectiveTree().max([[0.0]]), TypeError, "Tensor"),
        (lambda: om.ProjectiveTree().max(torch.zeros(4, 4), mask=torch.ones(4, 4)), TypeError, "boolean"),
        (lambda: om.Pcfg().max(torch.zeros(2)), TypeError, "Grammar"),
        (
            lambda: om.Pcfg().max(om.Grammar(torch.zeros(2), torch.zeros(2, 3, 3), torch.zeros(4, 2))),
            ValueError,
            r"NT \+ T",
        ),
        (lambda: om.Pcfg().trees(tiny_grammar(), 0), ValueError, "at least 1"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_grammars_without_sentences():
    nothing = om.Grammar(torch.zeros(0, 2), torch.zeros(2, 3, 3), torch.zeros(0, 3, 1))
    assert om.Pcfg().trees(nothing) == [] and om.Pcfg().sample_trees(nothing, n_samples=2) == []
