"""The best assignment of rows to columns, one item at a time: the specification of csrc/selections/assignment.hpp.

    minimise  Σ_i costs[i, column(i)]   over one-to-one maps of rows into columns,  rows ≤ columns

It is found by shortest augmenting paths with prices v of columns (Jonker & Volgenant, Computing 1987; Crouse, IEEE TAES
2016 for rectangular problems). Throughout, an assigned pair has the lowest costs − v of its row, and free columns have
the price v = 0 unless all columns will be taken; an assignment of all rows is then optimal. +inf forbids. Ties go to
the lowest index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_FREE = -1


class Assignment(NamedTuple):
    """An optimal assignment and the prices that prove it."""

    columns: np.ndarray  # (rows,): the column of each row
    prices: np.ndarray  # (columns,): costs − prices is lowest, in each row, at its column


def assign(costs: np.ndarray) -> Assignment | None:
    """Finds the optimal columns of the rows; None where every assignment needs a forbidden pair."""
    search = _Search(costs)
    if not search.take_cheapest():
        return None
    for row in [row for row, column in enumerate(search.column) if column == _FREE]:
        if not search.augment(row):
            return None
    return Assignment(np.array(search.column), search.price)


class _Search:
    def __init__(self, costs: np.ndarray) -> None:
        self.costs = costs
        self.column = [_FREE] * costs.shape[0]  # lists, because single entries of them are read often
        self.owner = [_FREE] * costs.shape[1]
        self.price = np.zeros(costs.shape[1])

    def take_cheapest(self) -> bool:
        """Starts with each column at its cheapest cost, if all columns will be taken, and pairs it with that row."""
        n_rows, n_columns = self.costs.shape
        if n_rows < n_columns:
            return True
        self.price = self.costs.min(0)
        if self.price.max() == np.inf:
            return False
        for column, row in enumerate(self.costs.argmin(0).tolist()):
            if self.column[row] == _FREE:
                self.column[row], self.owner[column] = column, row
        return True

    def augment(self, start: int) -> bool:
        """Makes the cheapest chain of changes that gives a free row a column (Dijkstra's algorithm); updates prices."""
        distance = self.costs[start] - self.price
        ahead = distance.copy()  # inf for the columns that are reached
        came_from = np.full(len(distance), start)
        free = np.array([column for column, row in enumerate(self.owner) if row == _FREE], dtype=np.intp)
        reached: list[int] = []
        while True:
            column = int(ahead.argmin())
            level = ahead[column]
            if level == np.inf:
                return False
            nearest_free = int(free[ahead[free].argmin()])
            if ahead[nearest_free] == level:
                break
            reached.append(column)
            row = self.owner[column]
            slack = (self.costs[row, column] - self.price[column]) - level
            through = self.costs[row] - self.price
            through -= slack
            np.maximum(through, level, out=through)
            shorter = through < distance  # never where a column is reached: its distance is at most the level
            distance[shorter] = through[shorter]
            ahead[shorter] = through[shorter]
            ahead[column] = np.inf
            came_from[shorter] = row
        self.price[reached] += distance[reached] - level
        column = nearest_free
        while True:
            row = int(came_from[column])
            before = self.column[row]
            self.column[row], self.owner[column] = column, row
            if row == start:
                return True
            column = before
