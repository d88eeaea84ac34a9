"""Whole networks with a memory against NumPy: every formula of both papers again, slot by slot, from the parameters."""

import numpy as np
import pytest
import torch

import omegamax as om

BITS, HIDDEN, SLOTS, WIDTH, READS, STEPS = 4, 5, 6, 3, 2, 7
FAINT = 1e-6


def softmax(scores):
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def sparsemax(scores):
    """Finds the threshold by bisection."""
    low, high = scores.max() - 1, scores.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(scores - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(scores - low, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def cosines(memory, key):
    lengths = [np.sqrt(slot @ slot + FAINT) * np.sqrt(key @ key + FAINT) for slot in memory]
    return np.array([slot @ key / length for slot, length in zip(memory, lengths)])


def lstm_step(weights, x, h, c):
    gates = weights["lstm.weight_ih"] @ x + weights["lstm.bias_ih"] + weights["lstm.weight_hh"] @ h
    i, f, g, o = (gates + weights["lstm.bias_hh"]).reshape(4, HIDDEN)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def linear(weights, name, x):
    return weights[f"memory.{name}.weight"] @ x + weights[f"memory.{name}.bias"]


class Turing:
    """Equations 2 to 9 of Graves, Wayne & Danihelka (2014)."""

    def __init__(self, weights, normalizer):
        self.parameters, self.normalizer = weights, normalizer
        self.memory = np.zeros((SLOTS, WIDTH))
        self.write_at, self.read_at = np.eye(SLOTS)[0], [np.eye(SLOTS)[0]] * READS

    def point(self, raw, before):
        key, sharpness, gate = np.tanh(raw[:WIDTH]), softplus(raw[WIDTH]), sigmoid(raw[WIDTH + 1])
        shifts, power = self.normalizer(raw[WIDTH + 2 : WIDTH + 5]), 1 + softplus(raw[WIDTH + 5])
        content = self.normalizer(sharpness * cosines(self.memory, key))  # equations 5 and 6
        gated = gate * content + (1 - gate) * before  # 7
        moved = np.zeros(SLOTS)
        for i in range(SLOTS):  # 8
            for j in range(SLOTS):
                for s in (-1, 0, 1):
                    if (i - j - s) % SLOTS == 0:
                        moved[i] += gated[j] * shifts[s + 1]
        return moved**power / (moved**power).sum()  # 9

    def step(self, h):
        self.write_at = self.point(linear(self.parameters, "writing.project", h), self.write_at)
        content = linear(self.parameters, "content", h)
        erase, add = sigmoid(content[:WIDTH]), np.tanh(content[WIDTH:])
        for i in range(SLOTS):
            self.memory[i] = self.memory[i] * (1 - self.write_at[i] * erase) + self.write_at[i] * add  # 3 and 4
        raw = linear(self.parameters, "reading.project", h).reshape(READS, -1)
        self.read_at = [self.point(one, before) for one, before in zip(raw, self.read_at)]
        return np.concatenate([sum(w[i] * self.memory[i] for i in range(SLOTS)) for w in self.read_at])  # 2


class DNC:
    """The methods section of Graves et al. (2016): usage, allocation, links, precedence and read modes."""

    def __init__(self, weights, normalizer):
        self.parameters, self.normalizer = weights, normalizer
        self.memory, self.links = np.zeros((SLOTS, WIDTH)), np.zeros((SLOTS, SLOTS))
        self.usage, self.precedence, self.write_at = np.zeros((3, SLOTS))
        self.read_at = np.zeros((READS, SLOTS))

    def content(self, key, strength):
        return self.normalizer((1 + softplus(strength)) * cosines(self.memory, key))

    def step(self, h):
        per_read = linear(self.parameters, "of_reads", h).reshape(READS, -1)
        key, strength, erase, add, allocating, writing = np.split(
            linear(self.parameters, "of_write", h), np.cumsum([WIDTH, 1, WIDTH, WIDTH, 1])
        )
        for i in range(SLOTS):
            kept = 1.0
            for r in range(READS):
                kept *= 1 - sigmoid(per_read[r, WIDTH + 1]) * self.read_at[r, i]
            self.usage[i] = (self.usage[i] + self.write_at[i] - self.usage[i] * self.write_at[i]) * kept
        allocation, left = np.zeros(SLOTS), 1.0
        for slot in sorted(range(SLOTS), key=lambda i: self.usage[i]):
            allocation[slot] = (1 - self.usage[slot]) * left
            left *= self.usage[slot]
        gate = sigmoid(allocating)
        self.write_at = sigmoid(writing) * (gate * allocation + (1 - gate) * self.content(key, strength[0]))
        for i in range(SLOTS):
            self.memory[i] = self.memory[i] * (1 - self.write_at[i] * sigmoid(erase)) + self.write_at[i] * add
            for j in range(SLOTS):
                kept = 1 - self.write_at[i] - self.write_at[j]
                self.links[i, j] = i != j and kept * self.links[i, j] + self.write_at[i] * self.precedence[j]
        self.precedence = (1 - self.write_at.sum()) * self.precedence + self.write_at
        for r in range(READS):
            backward, onward = self.links.T @ self.read_at[r], self.links @ self.read_at[r]
            modes = softmax(per_read[r, WIDTH + 2 :])
            content = self.content(per_read[r, :WIDTH], per_read[r, WIDTH])
            self.read_at[r] = modes[0] * backward + modes[1] * content + modes[2] * onward
        return (self.read_at @ self.memory).ravel()


@torch.no_grad()
@pytest.mark.parametrize(("normalizer", "by_hand"), [(om.Shannon(), softmax), (om.SquaredNorm(), sparsemax)], ids=str)
@pytest.mark.parametrize("kind", [Turing, DNC])
def test_a_sequence(kind, normalizer, by_hand):
    sizes = {"n_slots": SLOTS, "width": WIDTH, "n_reads": READS, "normalizer": normalizer}
    if kind is Turing:
        memory = om.attention.TuringMemory(HIDDEN, **sizes, shift_normalizer=normalizer)
    else:
        memory = om.attention.DNCMemory(HIDDEN, **sizes)
    model = om.attention.MemoryController(BITS, 2, memory).double()
    for parameter in model.parameters():
        parameter.copy_(2 * torch.randn_like(parameter))  # so that gates and weights are far from even
    inputs = torch.randn(1, STEPS, BITS, dtype=torch.float64)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    other, expected = kind(weights, by_hand), []
    h, c, reads = np.zeros(HIDDEN), np.zeros(HIDDEN), np.zeros(READS * WIDTH)
    for x in inputs[0].numpy():
        h, c = lstm_step(weights, np.concatenate([x, reads]), h, c)
        reads = other.step(h)
        expected.append(weights["out.weight"] @ np.concatenate([h, reads]) + weights["out.bias"])
    outputs, state = model(inputs)
    np.testing.assert_allclose(outputs[0], expected, atol=1e-9)
    np.testing.assert_allclose(state.memory.memory[0], other.memory, atol=1e-9)
    np.testing.assert_allclose(state.memory.read_weights[0], other.read_at, atol=1e-9)
    if kind is DNC:
        np.testing.assert_allclose(state.memory.links[0], other.links, atol=1e-9)
        np.testing.assert_allclose(state.memory.usage[0], other.usage, atol=1e-9)
