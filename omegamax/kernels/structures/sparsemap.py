"""The compiled active-set solver of SparseMAP, in float64, for a batch.

    max_{μ in conv(Y)}  <θ, μ> + <η, ν> − ½ ‖μ‖²

Its specification is `inference/sparsemap/active_set.py`, which calls any oracle for the best vertex. The compiled
solver (csrc/sparsemap/) has oracles of its own for some structures, and calls a Python function for the others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import routing


class OracleKind(enum.IntEnum):
    """The compiled oracles, numbered as in csrc/sparsemap/oracle.hpp."""

    LATTICE = 0
    CHAIN = 1
    PROJECTIVE = 2
    CONSTITUENCY = 3
    ARBORESCENCE = 4
    MATCHING = 5
    SELECTION = 6


class CompiledOracle(NamedTuple):
    """A compiled oracle and the plain data it reads; csrc/sparsemap/program_oracles.hpp says what each kind expects."""

    kind: OracleKind
    sizes: list[int]
    integers: list[Tensor]  # int64, on the CPU, contiguous
    numbers: Tensor | None = None  # float64


class Options(NamedTuple):
    """The rule by which the solver stops."""

    max_iter: int  # calls of the oracle, per item
    atol: float  # of the gap, beyond rounding


class Start(NamedTuple):
    """Vertices known before: (batch, n, parts) with probabilities (batch, n)."""

    vertices: Tensor
    probabilities: Tensor


class Certificate(NamedTuple):
    """The solution of a batch. Entries are those of all vertices of all items, one after the other."""

    endings: Tensor  # (batch,): see `Ending`
    gaps: Tensor  # (batch,)
    n_calls: Tensor  # (batch,)
    n_vertices: Tensor  # (batch,)
    probabilities: Tensor  # (batch, width); zero for vertices that only span the face
    places: Tensor  # (entries,): in the flattened scores of the batch
    values: Tensor  # (entries,)
    owners: Tensor  # (entries,): vertex, numbered over (batch, width)
    factor: Tensor  # (batch, width, width): the Cholesky factor of G; empty where no face was wanted


def solve_with_compiled_oracle(
    oracle: CompiledOracle, scores: Tensor, *, n_regularized: int, options: Options, start: Start | None, face: bool
) -> Certificate:
    """Solves for scores (batch, parts), plain float64 memory; with `face` it also finds vertices that span the face."""
    integers = [routing.unwrapped(tensor) for tensor in oracle.integers]
    numbers = None if oracle.numbers is None else routing.unwrapped(oracle.numbers)
    known = _arrays(start)
    n_items, n_parts = scores.shape
    faces = routing.native.sparsemap(
        int(oracle.kind),
        oracle.sizes,
        routing.addresses(integers),
        0 if numbers is None else routing.address(numbers),
        routing.address(scores),
        n_items,
        n_parts,
        n_regularized,
        options.max_iter,
        options.atol,
        face,
        [array.ctypes.data for array in known] or _NO_START,
        torch.get_num_threads(),
    )
    return _certificate(faces, scores, face)


def solve_with_function(
    best: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    scores: Tensor,
    *,
    n_regularized: int,
    options: Options,
    start: Start | None,
    face: bool,
) -> Certificate:
    """Solves with an oracle in Python: `best(items, scores)` gives values (items,) and vertices (items, parts)."""
    asked, answer = torch.empty(scores.shape[1], dtype=torch.float64), torch.empty(scores.shape[1], dtype=torch.float64)

    def ask(item: int) -> int:
        values, vertices = best(torch.tensor([item]), asked.unsqueeze(0))
        value = float(values)
        if not -np.inf < value < np.inf:
            return -1 if value == -np.inf else -2
        answer.copy_(vertices[0])
        return 0

    known = _arrays(start)
    n_items, n_parts = scores.shape
    faces = routing.native.sparsemap_with(
        ask,
        routing.address(asked),
        routing.address(answer),
        routing.address(scores),
        n_items,
        n_parts,
        n_regularized,
        options.max_iter,
        options.atol,
        face,
        [array.ctypes.data for array in known] or _NO_START,
    )
    return _certificate(faces, scores, face)


_NO_START = [0] * 5


def _arrays(start: Start | None) -> list[np.ndarray]:
    """Returns a start as the solver reads it: vertices per item; entries per vertex; places; values; probabilities."""
    if start is None:
        return []
    vertices, probabilities = start.vertices.numpy(), start.probabilities.numpy()
    n_items, width = probabilities.shape
    items, numbers, places = np.nonzero(vertices)
    sizes = np.bincount(items * width + numbers, minlength=n_items * width)
    values = vertices[items, numbers, places]
    return [np.full(n_items, width), sizes, places.astype(np.int32), values, np.ascontiguousarray(probabilities)]


def _certificate(faces: Any, scores: Tensor, face: bool) -> Certificate:
    n_items, n_parts = scores.shape
    width, n_entries = faces.width, faces.n_entries
    found = Certificate(
        endings=torch.empty(n_items, dtype=torch.int64),
        gaps=scores.new_empty(n_items),
        n_calls=torch.empty(n_items, dtype=torch.int64),
        n_vertices=torch.empty(n_items, dtype=torch.int64),
        probabilities=scores.new_empty(n_items, width),
        places=torch.empty(n_entries, dtype=torch.int64),
        values=scores.new_empty(n_entries),
        owners=torch.empty(n_entries, dtype=torch.int64),
        factor=scores.new_empty(n_items, width if face else 0, width),
    )
    addresses = routing.addresses(found)
    faces.write(*addresses[:-1], addresses[-1] if face else 0, n_parts)
    return found
