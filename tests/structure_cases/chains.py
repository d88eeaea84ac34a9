"""Chains, dense, factored and semi-Markov."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal


def chain_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for tags in itertools.product(range(theta.shape[-1]), repeat=n):
        y = np.zeros_like(theta)
        for place, tag in enumerate(tags):
            y[place, tags[place - 1] if place else 0, tag] = 1
        found.append((y,))
    return found


def chain_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values = [theta[0, 0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + theta[place, i, j] for i in tags]) for j in tags]
    return smooth_max(values)


def factored_members(parts: Parts, n: int) -> list[Parts]:
    found = []
    for tags in itertools.product(range(parts[0].shape[-1]), repeat=n):
        emissions, transitions, start, end = (np.zeros_like(part) for part in parts)
        for place, tag in enumerate(tags):
            emissions[place, tag] = 1
            if place:
                transitions[tags[place - 1], tag] += 1
        start[tags[0]] = end[tags[-1]] = 1
        found.append((emissions, transitions, start, end))
    return found


def factored_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, transitions, start, end = parts
    tags = range(len(start))
    values = [start[j] + emissions[0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + transitions[i, j] + emissions[place, j] for i in tags]) for j in tags]
    return smooth_max([values[j] + end[j] for j in tags])


def draw_factored(generator: torch.Generator, batch: int) -> Any:
    emissions, transitions = normal(generator, batch, 4, 3), normal(generator, batch, 3, 3)
    return om.Chain.from_emissions(emissions, transitions, normal(generator, batch, 3), normal(generator, batch, 3))


def semi_markov_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    k, c = theta.shape[1], theta.shape[-1]
    found = []
    for cuts in itertools.product([0, 1], repeat=n - 1):
        ends = [*(place for place, cut in enumerate(cuts) if cut), n - 1]
        durations = np.diff([-1, *ends])
        if max(durations) > k:
            continue
        for tags in itertools.product(range(c), repeat=len(ends)):
            y = np.zeros_like(theta)
            for number, (last, duration, tag) in enumerate(zip(ends, durations, tags)):
                y[last, duration - 1, tags[number - 1] if number else 0, tag] = 1
            found.append((y,))
    return found


def semi_markov_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values: list[list[float]] = []
    for last in range(n):
        here = []
        for j in tags:
            scores = []
            for k in range(min(theta.shape[1], last + 1)):
                if k == last:
                    scores.append(theta[last, k, 0, j])
                else:
                    scores += [values[last - k - 1][i] + theta[last, k, i, j] for i in tags]
            here.append(smooth_max(scores))
        values.append(here)
    return smooth_max(values[n - 1])


def semi_markov_count(n: int, k: int = 2, c: int = 2) -> int:
    """f(n) = c Σ_d f(n − d): the first segment, then the rest."""
    ways = [1]
    for m in range(1, n + 1):
        ways.append(c * sum(ways[m - d] for d in range(1, min(k, m) + 1)))
    return ways[n]


CASES = [
    StructureCase(
        "chain",
        om.Chain(),
        lambda g, b: normal(g, b, 4, 3, 3),
        chain_members,
        chain_recursion,
        lambda n: 3**n,
        [(4,), (1,), (3,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "factored chain",
        om.Chain(),
        draw_factored,
        factored_members,
        factored_recursion,
        lambda n: 3**n,
        [(3,), (1,), (4,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "semi-Markov",
        om.SemiMarkov(2),
        lambda g, b: normal(g, b, 4, 2, 2, 2),
        semi_markov_members,
        semi_markov_recursion,
        semi_markov_count,
        [(4,), (1,), (3,)],
        largest_degree=4,
        most_heads=5,
    ),
]
