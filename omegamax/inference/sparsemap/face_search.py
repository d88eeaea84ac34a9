"""Runs the SparseMAP solver for a batch: the compiled one, or its specification in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.sparsemap.active_set import OracleAnswer, Outcome, Search, search
from omegamax.inference.sparsemap.oracle import Oracle
from omegamax.kernels.structures.sparsemap import (
    Certificate,
    Options,
    Start,
    solve_with_compiled_oracle,
    solve_with_function,
)
from omegamax.kernels.structures.structure_kernel import has_native


def find(oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor) -> Certificate:
    """Solves SparseMAP for scores (batch, parts): plain float64 memory."""
    if not has_native():
        return _find_in_step(oracle, options, start, wants_face, scores)
    given: Any = {"n_regularized": oracle.n_regularized, "options": options, "start": start, "face": wants_face}
    if oracle.compiled is None:
        return solve_with_function(oracle.best, scores, **given)
    return solve_with_compiled_oracle(oracle.compiled, scores, **given)


def _find_in_step(
    oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor
) -> Certificate:
    """Runs all searches side by side, so that one call of the oracle serves many items."""
    rows, searches = scores.numpy(), {}
    for item, row in enumerate(rows):
        known = [] if start is None else list(zip(start.vertices[item].numpy(), start.probabilities[item].tolist()))
        searches[item] = search(
            row,
            oracle.n_regularized,
            max_calls=options.max_iter,
            atol=options.atol,
            wants_face=wants_face,
            start=known,
        )
    outcomes: dict[int, Outcome] = {}
    questions = {item: next(one) for item, one in searches.items()}
    while questions:
        items = torch.tensor(list(questions))
        values, vertices = oracle.best(items, torch.from_numpy(np.stack(list(questions.values()))))
        answers = zip(list(questions), values.tolist(), vertices.numpy())
        questions = {}
        for item, value, vertex in answers:
            _advance(searches[item], OracleAnswer(value, vertex.copy()), item, questions, outcomes)
    return _gathered([outcomes[item] for item in range(len(rows))], scores, wants_face)


def _advance(
    one: Search, answer: OracleAnswer, item: int, questions: dict[int, np.ndarray], outcomes: dict[int, Outcome]
) -> None:
    try:
        questions[item] = one.send(answer)
    except StopIteration as done:
        outcomes[item] = done.value


def _gathered(outcomes: list[Outcome], scores: Tensor, wants_face: bool) -> Certificate:
    n_items, n_parts = scores.shape
    width = max([0, *(len(o.vertices) for o in outcomes)])
    probabilities, factor = np.zeros((n_items, width)), np.zeros((n_items, width if wants_face else 0, width))
    factor[:] = np.eye(width)[: factor.shape[1]]
    nothing = (np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64))
    listed = [nothing]
    for item, outcome in enumerate(outcomes):
        n = len(outcome.vertices)
        probabilities[item, :n] = outcome.probabilities
        for number, vertex in enumerate(outcome.vertices):
            (used,) = np.nonzero(vertex)
            listed.append((item * n_parts + used, vertex[used], np.full(len(used), item * width + number)))
        if n and wants_face:
            factor[item, :n, :n] = outcome.factor
    places, values, owners = zip(*listed)
    return Certificate(
        torch.tensor([int(o.ending) for o in outcomes], dtype=torch.int64),
        torch.tensor([o.gap for o in outcomes], dtype=torch.float64),
        torch.tensor([o.n_calls for o in outcomes], dtype=torch.int64),
        torch.tensor([len(o.vertices) for o in outcomes], dtype=torch.int64),
        torch.from_numpy(probabilities),
        torch.from_numpy(np.concatenate(places)),
        torch.from_numpy(np.concatenate(values)),
        torch.from_numpy(np.concatenate(owners)),
        torch.from_numpy(factor),
    )
