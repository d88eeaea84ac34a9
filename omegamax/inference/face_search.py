"""Where the SparseMAP solver ends, for a batch: by the compiled solver, or by its specification in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.active_set import Answer, Outcome, Search, search
from omegamax.inference.oracle import Oracle


class Options(NamedTuple):
    """When to stop."""

    max_iter: int  # calls of the oracle, per item
    atol: float  # of the gap, beyond rounding


class Start(NamedTuple):
    """Vertices known before: (batch, n, parts) with probabilities (batch, n)."""

    vertices: Tensor
    probabilities: Tensor


class Certificate(NamedTuple):
    """Where the solver ended. Entries are those of all vertices of all items, one after the other."""

    endings: Tensor  # (batch,): see `Ending`
    gaps: Tensor  # (batch,)
    n_calls: Tensor  # (batch,)
    n_vertices: Tensor  # (batch,)
    probabilities: Tensor  # (batch, width); zero for vertices that only span the face
    places: Tensor  # (entries,): in the flattened scores of the batch
    values: Tensor  # (entries,)
    owners: Tensor  # (entries,): vertex, numbered over (batch, width)
    factor: Tensor  # (batch, width, width): the Cholesky factor of G; empty where no face was wanted


def find(oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor) -> Certificate:
    """The certificate for scores (batch, parts): plain float64 memory."""
    if routing.native is not None and oracle.compiled is not None:
        return _find_compiled(oracle, options, start, wants_face, scores)
    if routing.native is not None:
        return _find_with_callback(oracle, options, start, wants_face, scores)
    return _find_in_step(oracle, options, start, wants_face, scores)


def _find_compiled(
    oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor
) -> Certificate:
    assert oracle.compiled is not None
    kind, sizes, integers, numbers = oracle.compiled
    integers = [routing.unwrapped(tensor) for tensor in integers]
    known = _known(start, scores)
    faces = routing.native.sparsemap(
        int(kind),
        sizes,
        [routing.address(tensor) for tensor in integers],
        0 if numbers is None else routing.address(routing.unwrapped(numbers)),
        routing.address(scores),
        *scores.shape,
        oracle.n_regularized,
        options.max_iter,
        options.atol,
        wants_face,
        [0 if array is None else array.ctypes.data for array in known],
        torch.get_num_threads(),
    )
    return _written(faces, scores, wants_face)


def _find_with_callback(
    oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor
) -> Certificate:
    asked, answer = torch.empty(scores.shape[1], dtype=torch.float64), torch.empty(scores.shape[1], dtype=torch.float64)

    def ask(item: int) -> int:
        values, vertices = oracle.best(torch.tensor([item]), asked.unsqueeze(0))
        value = float(values)
        if not -np.inf < value < np.inf:
            return -1 if value == -np.inf else -2
        answer.copy_(vertices[0])
        return 0

    known = _known(start, scores)
    faces = routing.native.sparsemap_with(
        ask,
        routing.address(asked),
        routing.address(answer),
        routing.address(scores),
        *scores.shape,
        oracle.n_regularized,
        options.max_iter,
        options.atol,
        wants_face,
        [0 if array is None else array.ctypes.data for array in known],
    )
    return _written(faces, scores, wants_face)


def _known(start: Start | None, scores: Tensor) -> list[np.ndarray | None]:
    """The start as the solver reads it: vertices per item; entries per vertex; places, values; probabilities."""
    if start is None:
        return [None] * 5
    vertices, probabilities = start.vertices.numpy(), start.probabilities.numpy()
    n_items, width = probabilities.shape
    items, numbers, places = np.nonzero(vertices)
    sizes = np.bincount(items * width + numbers, minlength=n_items * width)
    values = vertices[items, numbers, places]
    return [np.full(n_items, width), sizes, places.astype(np.int32), values, np.ascontiguousarray(probabilities)]


def _written(faces: Any, scores: Tensor, wants_face: bool) -> Certificate:
    n_items, n_parts = scores.shape
    width, n_entries = faces.width, faces.n_entries
    endings, n_calls, n_vertices = (torch.empty(n_items, dtype=torch.int64) for _ in range(3))
    places, owners = (torch.empty(n_entries, dtype=torch.int64) for _ in range(2))
    factor = scores.new_empty(n_items, width if wants_face else 0, width)
    probabilities, values = scores.new_empty(n_items, width), scores.new_empty(n_entries)
    gaps = scores.new_empty(n_items)
    found = Certificate(endings, gaps, n_calls, n_vertices, probabilities, places, values, owners, factor)
    addresses = [routing.address(tensor) for tensor in found]
    faces.write(*addresses[:-1], addresses[-1] if wants_face else 0, n_parts)
    return found


def _find_in_step(
    oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor
) -> Certificate:
    """All searches side by side, so that the oracle is asked for many items at once."""
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
            _advance(searches[item], Answer(value, vertex.copy()), item, questions, outcomes)
    return _gathered([outcomes[item] for item in range(len(rows))], scores, wants_face)


def _advance(
    one: Search, answer: Answer, item: int, questions: dict[int, np.ndarray], outcomes: dict[int, Outcome]
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
