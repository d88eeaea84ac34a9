"""Sequences of bits: drawn lines are valid and have the answers of plain Python, wrong lines are named."""

import numpy as np
import pytest

from omegamax.data.memory_tasks import draw_line, read_line, write_vectors


def answer_by_hand(task, line):
    words = line.split()
    if task == "copy":
        return words
    if task == "repeat-copy":
        *vectors, _, times = words
        return [f"{vector}0" for vector in vectors * int(times)] + ["0" * len(vectors[0]) + "1"]
    if task == "sort":
        return [vector for _, vector in sorted((-float(w.split(":")[0]), w.split(":")[1]) for w in words)]
    *items, _, asked = words
    return items[items.index(asked) + 1].split(",")


@pytest.mark.parametrize("task", ["copy", "repeat-copy", "recall", "sort"])
@pytest.mark.parametrize("length", [2, 7])
def test_answers(task, length):
    for seed in range(20):
        line = draw_line(task, length, np.random.default_rng(seed), bits=5, times=3, item_length=2)
        inputs, answer = read_line(task, line, bits=5)
        assert write_vectors(answer).split() == answer_by_hand(task, line)
        assert not inputs[len(inputs) - len(answer) :].any()  # nothing is shown during the answer
        n_shown = {"recall": 2 * length + 2}.get(task, length + 1)
        assert inputs.shape == (n_shown + len(answer), 7)
        if task == "recall":
            *items, _, asked = line.split()
            assert len(set(items)) == length and asked in items[:-1]


def test_marks_and_numbers():
    inputs, _ = read_line("repeat-copy", "01 11 x 3", bits=2)
    assert inputs[:3].tolist() == [[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, pytest.approx(0.3)]]
    inputs, _ = read_line("sort", "-0.5:01 0.25:11", bits=2)
    assert inputs[:3].tolist() == [[0, 1, 0, -0.5], [1, 1, 0, 0.25], [0, 0, 1, 0]]
    inputs, answer = read_line("recall", "01,00 11,10 ? 01,00", bits=2)
    assert inputs[:, 2].tolist() == [1, 0, 1, 0, 1, 0, 0, 0] and inputs[:, 3].tolist() == [0, 0, 0, 0, 1, 1, 0, 0]
    assert answer.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    ("task", "line", "said"),
    [
        ("copy", "", "copy: expected vectors of 3 bits, got ''"),
        ("copy", "011 01", "copy: expected vectors of 3 bits"),
        ("copy", "01２", "copy: expected vectors of 3 bits"),
        ("repeat-copy", "011", "expected vectors, x and a number of times"),
        ("repeat-copy", "011 x 0", "expected vectors, x and a number of times"),
        ("repeat-copy", "x 2", "expected vectors of 3 bits"),
        ("sort", "011", "expected a priority from -1 to 1"),
        ("sort", "nan:011", "expected a priority from -1 to 1"),
        ("sort", "2:011", "expected a priority from -1 to 1"),
        ("recall", "011 111 ? 000", "one of them that is there once and not last"),
        ("recall", "011 111 ? 111", "one of them that is there once and not last"),
        ("recall", "?", "one of them that is there once and not last"),
    ],
)
def test_wrong_lines(task, line, said):
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        read_line(task, line, bits=3)
