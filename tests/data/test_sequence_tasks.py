"""The generated sequences mean what their names say, read token by token."""

import pytest
import torch

from omegamax.data.sequence_tasks import IGNORED, N_READS, N_SYMBOLS, SEQUENCE_TASKS


def draw(task, length, n_examples=20, seed=0):
    return SEQUENCE_TASKS[task].draw(n_examples, length, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [8, 10, 64, 1024])
@pytest.mark.parametrize("task", SEQUENCE_TASKS)
def test_shapes_and_the_vocabulary(task, length):
    tokens, targets = draw(task, length)
    assert tokens.shape == targets.shape == (20, length)
    size = SEQUENCE_TASKS[task].vocabulary_size
    assert int(tokens.min()) >= 0 and int(tokens.max()) < size
    wanted = targets[targets != IGNORED]
    assert int(wanted.min()) >= 0 and int(wanted.max()) < size
    assert (targets != IGNORED).any(-1).all()  # every example asks something


@pytest.mark.parametrize("task", SEQUENCE_TASKS)
def test_a_target_is_the_token_that_follows(task):
    tokens, targets = draw(task, 32)
    if task == "two-back":  # what it asks is not what follows
        return
    following, wanted = targets[:, :-1], targets[:, :-1] != IGNORED
    assert torch.equal(following[wanted], tokens[:, 1:][wanted])


@pytest.mark.parametrize("task", SEQUENCE_TASKS)
def test_the_seed_decides(task):
    assert torch.equal(draw(task, 32).tokens, draw(task, 32).tokens)
    assert not torch.equal(draw(task, 32).tokens, draw(task, 32, seed=1).tokens)


@pytest.mark.parametrize(
    ("task", "answer"),
    [("copy", list), ("reverse", lambda x: x[::-1]), ("sort", sorted)],
    ids=["copy", "reverse", "sort"],
)
def test_the_answer_after_the_bar(task, answer):
    for tokens, targets in zip(*(part.tolist() for part in draw(task, 24))):
        assert tokens[12] == N_SYMBOLS  # the bar
        assert targets[12:] == answer(tokens[:12])
        assert set(targets[:12]) == {IGNORED}


def test_two_back():
    for tokens, targets in zip(*(part.tolist() for part in draw("two-back", 24))):
        assert targets[:2] == [IGNORED] * 2 and targets[2:] == tokens[:-2]


def test_flip_flop():
    reads = 0
    for tokens, targets in zip(*(part.tolist() for part in draw("flip-flop", 40))):
        assert tokens[0] == 2 and tokens[-2] == 3
        written = None
        for instruction, bit, wanted, after in zip(tokens[::2], tokens[1::2], targets[::2], targets[1::2]):
            assert after == IGNORED and bit in (0, 1) and instruction in (2, 3, 4)
            written = bit if instruction == 2 else written
            assert wanted == (written if instruction == 3 else IGNORED)
            assert instruction != 3 or bit == written
            reads += instruction == 3
    assert reads > 20  # more than the last of each


@pytest.mark.parametrize("length", [8, 64, 1024])
def test_recall(length):
    n = length - 2 * min(N_READS, length // 4)
    for tokens, targets in zip(*(part.tolist() for part in draw("recall", length))):
        keys, values = tokens[:n:2], tokens[1:n:2]
        for key, value in zip(keys, values):
            assert (key >= 2 * N_SYMBOLS and value < N_SYMBOLS) or (
                N_SYMBOLS <= key < 2 * N_SYMBOLS and N_SYMBOLS <= value < 2 * N_SYMBOLS
            )
        assert set(targets[:n]) == {IGNORED}
        for question, wanted in zip(tokens[n::2], targets[n::2]):
            (place,) = [i for i, key in enumerate(keys) if key == question]  # it was there once
            assert values[place] == wanted
