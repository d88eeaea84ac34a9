"""Batches: every example once, of like length, found again from seed and epoch, for any number of processes."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omegamax.data.batches import BATCHES_PER_POOL, epoch_batches, n_batches, split_batch

LENGTHS = st.lists(st.integers(0, 30), max_size=300)
SIZES = st.integers(1, 40)
SEEDS = st.integers(0, 2**40)


@given(LENGTHS, SIZES, SEEDS, st.integers(0, 1000))
def test_every_example_once_and_at_most_one_batch_not_full(lengths, size, seed, epoch):
    batches = epoch_batches(lengths, batch_size=size, seed=seed, epoch=epoch)
    assert sorted(at for batch in batches for at in batch) == list(range(len(lengths)))
    assert len(batches) == n_batches(len(lengths), size)
    assert all(1 <= len(batch) <= size for batch in batches)
    assert sum(len(batch) < size for batch in batches) <= 1


@given(LENGTHS, SIZES, SEEDS, st.integers(0, 1000))
def test_the_same_seed_and_epoch_give_the_same_batches(lengths, size, seed, epoch):
    first, second = (epoch_batches(lengths, batch_size=size, seed=seed, epoch=epoch) for _ in range(2))
    assert first == second


@given(st.lists(st.integers(0, 30), min_size=1, max_size=300), SIZES, SEEDS)
def test_within_a_pool_lengths_of_batches_do_not_overlap(lengths, size, seed):
    batches = epoch_batches(lengths, batch_size=size, seed=seed, epoch=0)
    if len(batches) <= BATCHES_PER_POOL:
        spans = sorted((min(lengths[at] for at in batch), max(lengths[at] for at in batch)) for batch in batches)
        assert all(low <= high for (_, low), (high, _) in itertools.pairwise(spans))


def test_a_second_length_orders_examples_whose_first_is_equal():
    pairs = [(at % 3, at % 7) for at in range(100)]
    batches = epoch_batches(pairs, batch_size=5, seed=0, epoch=0)
    spans = sorted((min(pairs[at] for at in batch), max(pairs[at] for at in batch)) for batch in batches)
    assert all(low <= high for (_, low), (high, _) in itertools.pairwise(spans))


@given(LENGTHS, SIZES, SEEDS)
def test_one_length_may_stand_alone_or_in_a_tuple(lengths, size, seed):
    alone, wrapped = (
        epoch_batches(given, batch_size=size, seed=seed, epoch=0)
        for given in (lengths, [(length,) for length in lengths])
    )
    assert alone == wrapped


def test_epochs_and_seeds_differ():
    lengths = [at % 7 for at in range(100)]
    seen = {
        str(epoch_batches(lengths, batch_size=10, seed=seed, epoch=epoch)) for seed in range(3) for epoch in range(3)
    }
    assert len(seen) == 9


def test_batches_come_in_random_order_of_length():
    lengths = list(range(1000))
    means = [sum(batch) / len(batch) for batch in epoch_batches(lengths, batch_size=20, seed=0, epoch=0)]
    assert means != sorted(means)
    assert means != sorted(means, reverse=True)


@given(st.lists(st.integers(), max_size=20), st.integers(1, 30))
def test_parts_are_the_whole_and_even(batch, n_parts):
    parts = split_batch(batch, n_parts)
    assert len(parts) == n_parts
    assert sorted(at for part in parts for at in part) == sorted(batch)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


class Lengths(list):
    """Counts how often it is made an array, which takes long for large data."""

    n_arrays = 0

    def __array__(self, dtype=None, copy=None):
        self.n_arrays += 1
        return np.array(list(self), dtype)


def test_lengths_are_read_once_however_many_pools_there_are():
    lengths = Lengths([at % 7 for at in range(3 * BATCHES_PER_POOL)])
    epoch_batches(lengths, batch_size=1, seed=0, epoch=0)
    assert lengths.n_arrays == 1
