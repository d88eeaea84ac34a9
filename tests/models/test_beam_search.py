"""Beam search against all sequences, greedy search, and a plain search of one item at a time."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import omegamax as om
from omegamax.models import beam_search

END = 0


def table(n_items, n_tokens, seed, sharpness=1.5):
    """A model that looks at the last two tokens: log-probabilities [item, before last, last]."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n_items, n_tokens + 1, n_tokens + 1, n_tokens, generator=generator)
    return (sharpness * scores).log_softmax(-1)


def search(log_probs, *, n_beams, max_length, **options):
    n_items, _, start, _ = (size - (place == 2) for place, size in enumerate(log_probs.shape))
    items = torch.arange(n_items).repeat_interleave(n_beams)

    def step(token, state):
        before = state[1]
        return log_probs[items, before, token], (state[0] + 1, token)

    state = (torch.zeros(n_items, 1), torch.full((n_items,), start))
    return beam_search(
        step, state, n_items=n_items, n_beams=n_beams, start=start, end=END, max_length=max_length, **options
    )


def outputs(found, item):
    return [
        (tuple(tokens[:length].tolist()), score)
        for tokens, length, score in zip(found.tokens[item], found.lengths[item].tolist(), found.scores[item].tolist())
        if score > -math.inf
    ]


def every_output(log_probs, max_length, length_penalty):
    """All sequences that end, and all that are as long as can be, with their scores."""
    n_tokens = log_probs.shape[-1]
    words = [()]
    for length in range(1, max_length + 1):
        words += itertools.product(range(1, n_tokens), repeat=length)
    found = {}
    for word in words:
        tokens = [*word, END] if len(word) < max_length else list(word)
        before, last, total = n_tokens, n_tokens, 0.0
        for token in tokens:
            total += log_probs[before, last, token].item()
            before, last = last, token
        found[word] = total / len(tokens) ** length_penalty
    return found


@given(seed=st.integers(0, 1000), length_penalty=st.sampled_from([0.0, 0.7, 1.0]))
def test_a_wide_beam_is_exact(seed, length_penalty):
    log_probs = table(2, 3, seed)
    n_beams = 27
    found = search(log_probs, n_beams=n_beams, max_length=3, length_penalty=length_penalty)
    for item in range(2):
        expected = every_output(log_probs[item], 3, length_penalty)
        best = sorted(expected.items(), key=lambda pair: -pair[1])[:n_beams]
        got = outputs(found, item)
        assert [word for word, _ in got] == [word for word, _ in best]
        assert [score for _, score in got] == pytest.approx([score for _, score in best], rel=1e-5)


@given(seed=st.integers(0, 1000))
def test_one_beam_is_greedy(seed):
    log_probs = table(4, 5, seed)
    found = search(log_probs, n_beams=1, max_length=6)
    for item in range(4):
        word, before, last = [], 5, 5
        while len(word) < 6:
            token = int(log_probs[item, before, last].argmax())
            if token == END:
                break
            word.append(token)
            before, last = last, token
        assert outputs(found, item)[0][0] == tuple(word)


def plain_search(log_probs, n_beams, max_length, length_penalty):
    """The same rules for one item, with lists."""
    start = log_probs.shape[-1]
    alive, ended = [((start, start), 0.0)], []
    for length in range(1, max_length + 1):
        grown = [
            ((*tokens, token), total + log_probs[tokens[-2], tokens[-1], token].item())
            for tokens, total in alive
            for token in range(start)
        ]
        grown = sorted(grown, key=lambda pair: -pair[1])[: 2 * n_beams]
        for tokens, total in grown[:n_beams]:
            if tokens[-1] == END or length == max_length:
                ended.append((tuple(t for t in tokens[2:] if t != END), total / length**length_penalty))
        ended = sorted(ended, key=lambda pair: -pair[1])[:n_beams]
        alive = [(tokens, total) for tokens, total in grown if tokens[-1] != END][:n_beams]
        if len(ended) == n_beams:
            break
    return ended


@given(seed=st.integers(0, 1000), n_beams=st.integers(1, 5), length_penalty=st.sampled_from([0.0, 1.0]))
def test_items_do_not_disturb_each_other(seed, n_beams, length_penalty):
    log_probs = table(3, 4, seed)
    found = search(log_probs, n_beams=n_beams, max_length=5, length_penalty=length_penalty)
    for item in range(3):
        expected = plain_search(log_probs[item], n_beams, 5, length_penalty)
        got = outputs(found, item)
        assert [word for word, _ in got] == [word for word, _ in expected]
        assert [score for _, score in got] == pytest.approx([score for _, score in expected], rel=1e-5)


def sparse_table(n_items, n_tokens, seed):
    """Most log-probabilities are -inf: sparsemax of random scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = 1.5 * torch.randn(n_items, n_tokens + 1, n_tokens + 1, n_tokens, generator=generator)
    return om.sparsemax(scores, dim=-1).log()


@given(
    seed=st.integers(0, 1000),
    n_beams=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 0.7, 1.0]),
    sparse=st.booleans(),
)
def test_what_is_proved_is_true(seed, n_beams, length_penalty, sparse):
    """Against all sequences: nothing outside of the result is better than the bound, or than a best one that is proved.

    A complete search has found the n best of all.
    """
    log_probs = (sparse_table if sparse else table)(3, 4, seed)
    found = search(log_probs, n_beams=n_beams, max_length=4, length_penalty=length_penalty)
    for item in range(3):
        expected = every_output(log_probs[item], 4, length_penalty)
        possible = sorted((score for score in expected.values() if score > -math.inf), reverse=True)
        got = outputs(found, item)
        if found.optimal[item]:
            assert got[0][1] == pytest.approx(possible[0], rel=1e-5)
        if found.complete[item]:
            assert sparse
            assert [score for _, score in got] == pytest.approx(possible[:n_beams], rel=1e-5)
        worst = got[-1][1] if len(got) == n_beams else -math.inf
        for word, score in expected.items():  # what is better than the worst of the result is in it, or below the bound
            if score > worst + 1e-4 and word not in [each for each, _ in got]:
                assert score <= found.bounds[item].item() + 1e-4


def test_sparse_searches_are_often_proved_and_dense_ones_rarely():
    n_complete = {}
    for make in (sparse_table, table):
        found = search(make(200, 4, 0), n_beams=4, max_length=4)
        n_complete[make] = int(found.complete.sum())
        assert (found.optimal | ~found.complete).all()
    assert n_complete[table] == 0 and n_complete[sparse_table] > 20


def test_a_penalty_of_states_is_added_to_scores():
    """The state holds how often token 1 was written; each time costs 5."""
    log_probs = table(1, 3, 3)[0]

    def step(token, state):
        before, n_ones = state
        n_ones = n_ones + (token == 1)
        return log_probs[before, token], (token, n_ones), "more, which is not looked at"

    state = (torch.tensor([3]), torch.zeros(1))
    found = beam_search(
        step, state, n_items=1, n_beams=30, start=3, end=END, max_length=3, penalty=lambda state: -5.0 * state[1]
    )
    expected = every_output(log_probs, 3, 1.0)
    # the last token of a sequence that is cut was never given to the step
    cost = {word: score - 5 * sum(token == 1 for token in word[:2]) for word, score in expected.items()}
    best = sorted(cost.items(), key=lambda pair: -pair[1])
    assert outputs(found, 0)[0][0] == best[0][0]
    assert [score for _, score in outputs(found, 0)] == pytest.approx([score for _, score in best][:30], rel=1e-4)


class Chosen:
    """A state that knows by itself how rows are taken."""

    def __init__(self, rows):
        self.rows = rows

    def select(self, rows):
        return Chosen(self.rows[rows])


def test_a_state_may_select_its_rows():
    log_probs = table(2, 4, 5)
    plain = search(log_probs, n_beams=2, max_length=4)
    items = torch.arange(2).repeat_interleave(2)

    def step(token, state):
        return log_probs[items, state[1].rows, token], (state[0], Chosen(token))

    state = (torch.zeros(2), Chosen(torch.full((2,), 4)))
    found = beam_search(step, state, n_items=2, n_beams=2, start=4, end=END, max_length=4)
    assert torch.equal(found.tokens, plain.tokens) and torch.equal(found.bounds, plain.bounds)


def test_more_beams_find_what_greedy_search_misses():
    """The best first token leads nowhere."""
    log_probs = torch.full((1, 4, 4, 3), -9.0)
    log_probs[0, 3, 3, 1], log_probs[0, 3, 3, 2] = math.log(0.6), math.log(0.4)
    log_probs[0, 3, 1, :] = math.log(1 / 3)
    log_probs[0, 3, 2, END] = log_probs[0, 2, 2, END] = 0.0
    assert outputs(search(log_probs, n_beams=1, max_length=3), 0)[0][0] != (2,)
    assert outputs(search(log_probs, n_beams=2, max_length=3), 0)[0][0] == (2,)


def test_ties_go_to_the_lower_tokens():
    uniform = torch.zeros(2, 4, 4, 3).log_softmax(-1)
    found = search(uniform, n_beams=3, max_length=2, length_penalty=0.0)
    assert [word for word, _ in outputs(found, 0)] == [(), (1,), (1, 1)]
    assert [word for word, _ in outputs(found, 1)] == [word for word, _ in outputs(found, 0)]


def test_there_may_be_fewer_outputs_than_beams():
    log_probs = torch.full((1, 3, 3, 2), -math.inf)
    log_probs[..., 1] = 0.0
    found = search(log_probs, n_beams=3, max_length=2)
    assert outputs(found, 0) == [((1, 1), 0.0)]
    assert (found.lengths[0, 1:] == 0).all()


def test_nan_is_never_the_best():
    log_probs = table(1, 3, 0)
    log_probs[..., 2] = math.nan
    found = search(log_probs, n_beams=2, max_length=3)
    assert not (found.tokens == 2).any() and not found.scores.isnan().any()


def test_bad_counts_are_refused():
    with pytest.raises(ValueError, match="n_beams must be at least 1"):
        search(table(1, 3, 0), n_beams=0, max_length=2)


class Elements(TorchDispatchMode):
    """Counts the elements of all tensors that operations return."""

    def __init__(self):
        super().__init__()
        self.n_made = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.n_made += sum(each.numel() for each in tree_leaves(made) if isinstance(each, torch.Tensor))
        return made


def test_room_for_more_tokens_costs_nothing_where_outputs_are_short():
    """After 1 comes 2, ..., then 0, which ends: ten steps, however many are allowed."""

    def step(token, state):
        return torch.eye(10)[(token + 1) % 10].log(), state

    made = {}
    for max_length in (20, 2000):
        with Elements() as count:
            beam_search(step, torch.zeros(3), n_items=3, n_beams=2, start=0, end=END, max_length=max_length)
        made[max_length] = count.n_made
    assert made[2000] - made[20] <= 2 * 3 * 2 * 2000  # the answer, filled up once
