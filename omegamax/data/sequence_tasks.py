"""Generated tasks on sequences of any length, which show whether a model goes on beyond the lengths of its training.

    copy        a b c | → a b c                 reverse     a b c | → c b a            sort   c a b | → a b c
    two-back    the token two places back, at every place
    flip-flop   the bit that was written last: writes, reads and bits to be ignored (Liu et al., NeurIPS 2023)
    recall      the value of a key that was seen once, among other pairs and as much noise as the length allows

Tokens are integers. The target at a place is the token that should follow it, or IGNORED. A length counts all tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

IGNORED = -100  # a place without a target, as torch.nn.functional.cross_entropy has it
N_SYMBOLS = 16  # letters of copy, reverse, sort and two-back; values of recall, and as many kinds of noise
N_KEYS = 64  # of recall
N_PAIRS = 16  # of keys and values, at most
N_READS = 8  # keys that recall asks for, at most
_IGNORE_SHARE = 0.8  # of the instructions of flip-flop; writes and reads share the rest


class SequenceExamples(NamedTuple):
    """Tokens, and the token that should follow each."""

    tokens: Tensor  # (examples, length), integers
    targets: Tensor  # (examples, length), integers; IGNORED where any token may follow


class SequenceTask(NamedTuple):
    """How examples of a task are drawn: `draw(n_examples, length, generator)`; lengths are even and at least 8."""

    vocabulary_size: int
    draw: Callable[[int, int, Generator], SequenceExamples]


def _copy(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    letters = _letters(n_examples, length // 2, generator)
    return _followed_by(letters, letters)


def _reverse(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    letters = _letters(n_examples, length // 2, generator)
    return _followed_by(letters, letters.flip(-1))


def _sort(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    letters = _letters(n_examples, length // 2, generator)
    return _followed_by(letters, letters.sort(-1).values)


def _letters(n_examples: int, n: int, generator: Generator) -> Tensor:
    return torch.randint(N_SYMBOLS, (n_examples, n), generator=generator)


def _followed_by(letters: Tensor, answer: Tensor) -> SequenceExamples:
    """Joins the letters, a bar and the answer; each token of the answer is the target of the place before it."""
    bar = torch.full_like(letters[:, :1], N_SYMBOLS)
    tokens = torch.cat([letters, bar, answer[:, :-1]], 1)
    return SequenceExamples(tokens, torch.cat([torch.full_like(letters, IGNORED), answer], 1))


def _two_back(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    tokens = _letters(n_examples, length, generator)
    targets = torch.full_like(tokens, IGNORED)
    targets[:, 2:] = tokens[:, :-2]
    return SequenceExamples(tokens, targets)


def _flip_flop(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    """Draws pairs of an instruction (2 writes, 3 reads, 4 ignores) and a bit; the first writes, the last reads."""
    n = length // 2
    write, read, ignore = 2, 3, 4
    draw = torch.rand(n_examples, n, generator=generator)
    instructions = torch.where(draw < _IGNORE_SHARE, ignore, torch.where(draw < (1 + _IGNORE_SHARE) / 2, write, read))
    instructions[:, 0], instructions[:, -1] = write, read
    bits = torch.randint(2, (n_examples, n), generator=generator)
    places = torch.where(instructions == write, torch.arange(n), 0).cummax(-1).values
    bits = torch.where(instructions == read, bits.gather(-1, places), bits)
    tokens = torch.stack([instructions, bits], -1).flatten(1)
    wanted = torch.where(instructions == read, bits, IGNORED)
    return SequenceExamples(tokens, torch.stack([wanted, torch.full_like(bits, IGNORED)], -1).flatten(1))


def _recall(n_examples: int, length: int, generator: Generator) -> SequenceExamples:
    """Draws pairs of a key and a value at random places of the noise, then some of the keys again with their values."""
    n_pairs = min(N_PAIRS, length // 4)
    n_reads = min(N_READS, n_pairs)
    n = length // 2 - n_reads  # pairs of tokens before the questions
    keys = torch.rand(n_examples, N_KEYS, generator=generator).argsort(-1)[:, :n_pairs] + 2 * N_SYMBOLS
    pairs = torch.stack([keys, _letters(n_examples, n_pairs, generator)], -1)
    context = torch.randint(N_SYMBOLS, 2 * N_SYMBOLS, (n_examples, n, 2), generator=generator)
    places = torch.rand(n_examples, n, generator=generator).argsort(-1)[:, :n_pairs]
    context.scatter_(1, places.unsqueeze(-1).expand(-1, -1, 2), pairs)
    asked = pairs[:, :n_reads]
    tokens = torch.cat([context, asked], 1).flatten(1)
    targets = torch.full_like(tokens, IGNORED)
    targets[:, -2 * n_reads :: 2] = asked[..., 1]
    return SequenceExamples(tokens, targets)


SEQUENCE_TASKS = {
    "copy": SequenceTask(N_SYMBOLS + 1, _copy),
    "reverse": SequenceTask(N_SYMBOLS + 1, _reverse),
    "sort": SequenceTask(N_SYMBOLS + 1, _sort),
    "two-back": SequenceTask(N_SYMBOLS, _two_back),
    "flip-flop": SequenceTask(5, _flip_flop),
    "recall": SequenceTask(2 * N_SYMBOLS + N_KEYS, _recall),
}
