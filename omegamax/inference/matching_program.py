"""The best matching of every item: compiled, or one item at a time in NumPy (inference/assignment.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.assignment import assign
from omegamax.inference.program import Parts, Program, State, Swept


class Matched(NamedTuple):
    """The best matching of every item, and the prices of csrc/assignment.hpp where nothing may stay alone."""

    value: Tensor  # (batch,): −inf where there is none, NaN where scores are
    columns: Tensor  # (batch, rows): the column of each row, −1 for none
    prices: Tensor  # (batch, larger of rows and columns), float64: of the larger side; zero beyond the lengths


@dataclass(frozen=True, eq=False)
class MatchingProgram(Program):
    """Pairs (batch, R, C), alone or with the scores of rows and of columns that stay alone. Its Ω is Hard."""

    lengths: tuple[Tensor, Tensor]  # (batch,) rows and columns, on the CPU
    n_parts: int

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """The state: value and columns."""
        found = best_matching(parts, self.lengths)
        return found.value, (found.value.clone(), found.columns)  # the state has no derivative, the value has

    def marginals(self, parts: Parts, state: State) -> Swept:
        """The matching, 0/1."""
        value, columns = state
        pairs = parts[0]
        n_rows, n_columns = pairs.shape[1:]
        matched = (columns >= 0).unsqueeze(-1).to(pairs.dtype)
        found = [torch.zeros_like(pairs).scatter_(-1, columns.clamp(min=0).unsqueeze(-1), matched)]
        if self.n_parts > 1:
            exists = (value > -torch.inf).unsqueeze(-1)
            for size, length, axis in zip((n_rows, n_columns), self.lengths, (-1, -2)):
                here = torch.arange(size) < length.unsqueeze(-1)
                found.append(((found[0].sum(axis) == 0) & here.to(pairs.device) & exists).to(pairs.dtype))
        return Swept(_spoiled_with(value, tuple(found)), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """The best matching does not move; where it is NaN, so is its derivative."""
        return Swept(_spoiled_with(state[0], tuple(torch.zeros_like(part) for part in parts)), (), ())


def best_matching(parts: Parts, lengths: tuple[Tensor, Tensor]) -> Matched:
    """Jonker & Volgenant's algorithm on every item."""
    pairs = parts[0]
    n_items, n_rows, n_columns = pairs.shape
    if not routing.in_native_memory(*parts):
        return _one_by_one(parts, lengths)
    value = pairs.new_empty(n_items)
    columns = torch.empty(n_items, n_rows, dtype=torch.long)
    prices = torch.zeros(n_items, max(n_rows, n_columns), dtype=torch.float64)
    memory = [part.contiguous() for part in parts]
    per_axis = [length.contiguous() for length in lengths]
    size = max(n_rows, n_columns) if len(parts) == 1 else n_rows + n_columns
    routing.native.matching_best(
        pairs.element_size(),
        routing.address(memory[0]),
        *(routing.address(part) for part in memory[1:]),
        *((0, 0) if len(parts) == 1 else ()),
        *(routing.address(length) for length in per_axis),
        routing.address(value),
        routing.address(columns),
        routing.address(prices),
        n_rows,
        n_columns,
        n_items,
        size * size * 4,  # roughly the cost of an item
        torch.get_num_threads(),
    )
    return Matched(value, columns, prices)


def _one_by_one(parts: Parts, lengths: tuple[Tensor, Tensor]) -> Matched:
    host = [part.detach().cpu().double().numpy() for part in parts]
    n_items, n_rows, n_columns = host[0].shape
    value = np.full(n_items, -np.inf)
    columns = np.full((n_items, n_rows), -1)
    prices = np.zeros((n_items, max(n_rows, n_columns)))
    for item, (r, c) in enumerate(zip(lengths[0].tolist(), lengths[1].tolist())):
        pairs, *alone = host[0][item, :r, :c], *(part[item, :n] for part, n in zip(host[1:], (r, c)))
        if not all((part < np.inf).all() for part in (pairs, *alone)):  # NaN does not compare
            value[item] = np.nan
            continue
        turned = not alone and r > c
        found = assign(-with_alone(pairs, *alone) if alone else -pairs.T if turned else -pairs)
        if found is None:
            continue
        if turned:
            columns[item, found.columns] = np.arange(c)
        else:
            columns[item, :r] = np.where(found.columns[:r] < c, found.columns[:r], -1)
        prices[item, : max(r, c)] = found.prices[: max(r, c)]
        value[item] = _score(pairs, alone, columns[item, :r])
    device = parts[0].device
    return Matched(
        torch.from_numpy(value).to(device, parts[0].dtype),
        torch.from_numpy(columns).to(device),
        torch.from_numpy(prices).to(device),
    )


def with_alone(pairs: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Rows + columns on both sides: staying alone is a partner of one's own, and these partners meet at no cost."""
    r, c = pairs.shape
    whole = np.full((r + c, r + c), -np.inf)
    whole[:r, :c], whole[r:, c:] = pairs, 0
    whole[np.arange(r), c + np.arange(r)] = row
    whole[r + np.arange(c), np.arange(c)] = column
    return whole


def _score(pairs: np.ndarray, alone: list[np.ndarray], columns: np.ndarray) -> float:
    """Added up in the order of the compiled kernel."""
    total = 0.0
    for row, column in enumerate(columns.tolist()):
        total += pairs[row, column] if column >= 0 else alone[0][row] if alone else 0.0
    for column in range(pairs.shape[1] if alone else 0):
        total += alone[1][column] if column not in columns else 0.0
    return float(total)


def _spoiled_with(value: Tensor, parts: Parts) -> Parts:
    """NaN throughout the items whose value is NaN."""
    spoiled = value.isnan()
    if not bool(spoiled.any()):
        return parts
    return tuple(torch.where(spoiled.reshape(-1, *(1,) * (part.dim() - 1)), torch.nan, part) for part in parts)
