"""Which examples make a batch: a function of seed, epoch and lengths alone, so that a resumed run finds its place.

Examples are shuffled, cut into pools of many batches, sorted by length within a pool, and cut into batches, which are
shuffled again: a batch has examples of similar length, so little is padding, and every epoch has another order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BATCHES_PER_POOL = 50  # more means less padding, and batches that resemble each other more from epoch to epoch


def epoch_batches(
    lengths: Sequence[int] | Sequence[Sequence[int]], *, batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Returns the batches of one epoch as positions in `lengths`: each example once, all batches full but at most one.

    An example may have several lengths, such as those of its target and its source. Then the first one decides, and the
    next ones order examples that are equal in it.

    >>> batches = epoch_batches([3, 9, 3, 8, 2], batch_size=2, seed=0, epoch=1)
    >>> sorted(map(len, batches))
    [1, 2, 2]
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    all_lengths = np.asarray(lengths)
    batches: list[list[int]] = []
    size = batch_size * BATCHES_PER_POOL
    for start in range(0, len(order), size):
        pool = order[start : start + size]
        # lexsort takes the most important key last, and leaves equal examples in their order.
        pool = pool[np.lexsort(np.atleast_2d(all_lengths[pool].T)[::-1])]
        batches += [pool[at : at + batch_size].tolist() for at in range(0, len(pool), batch_size)]
    return [batches[at] for at in random.permutation(len(batches))]


def n_batches(n_examples: int, batch_size: int) -> int:
    """Returns how many batches an epoch has."""
    return -(-n_examples // batch_size)


def split_batch(batch: Sequence[int], n_parts: int) -> list[list[int]]:
    """Deals a batch out into parts whose sizes differ by at most one; with few examples some parts are empty.

    It is dealt out like cards, so that each part has short and long examples, and processes finish together.

    >>> split_batch([5, 6, 7, 8, 9], 2)
    [[5, 7, 9], [6, 8]]
    """
    return [list(batch[part::n_parts]) for part in range(n_parts)]
