"""The edit distance of sequences of symbols: the cheapest way to turn one into the other, or a smoothed one.

It aligns with linear gaps (`GlobalAlignment` with open = extend): a deletion leaves an element of `a` unpaired, an
insertion one of `b`, and a pair of different symbols is a substitution. Levenshtein 1966; Wagner & Fischer 1974.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax import checks, routing
from omegamax.operators.hard import Hard
from omegamax.smoothmax import SmoothMax
from omegamax.structures.gapped_alignment import GappedScores, GlobalAlignment

_HARD = Hard()


@routing.in_float32
def edit_distance(
    a: Tensor,
    b: Tensor,
    *,
    insertion: float | Tensor = 1.0,
    deletion: float | Tensor = 1.0,
    substitution: float | Tensor = 1.0,
    lengths: Any = None,
    regularizer: SmoothMax = _HARD,
) -> Tensor:
    """Computes the cost of turning a (..., M) into b (..., N), integer symbols; one number per item.

    Costs are numbers, or tensors through which gradients flow: of one number, or tables indexed by symbols, (V,) for
    insertion and deletion and (V, V) for substitution, [from, to], the diagonal included. `lengths` is a pair of
    integer tensors (...), from 0 up. Under `Scaled(Shannon(), γ)` the distance is smooth: −γ log Σ exp(−cost/γ) over
    all alignments, each counted once.

    Arguments:
        a: integer symbols (..., M)
        b: integer symbols (..., N)
        insertion: the cost of an unpaired symbol of b
        deletion: the cost of an unpaired symbol of a
        substitution: the cost of a symbol of a that becomes another of b
        lengths: a pair of integer tensors (...)
        regularizer: Ω; `Hard()` gives the distance itself

    >>> kitten, sitting = (torch.tensor([ord(c) for c in word]) for word in ("kitten", "sitting"))
    >>> edit_distance(kitten, sitting)
    tensor(3.)
    """
    batch = _check(a, b)
    dtype = _dtype(insertion, deletion, substitution)
    a, b = (symbols.long().expand(*batch, -1) for symbols in (a, b))  # bytes would index tables as a mask
    m, n = a.shape[-1], b.shape[-1]
    found = checks.check_structure_lengths("edit_distance", batch, lengths, (m, n), least=0)
    given = [length.reshape(batch) for length in found]
    known = [torch.arange(size) < length.unsqueeze(-1) for size, length in zip((m, n), given)]
    a, b = (torch.where(k.to(s.device), s, 0) for k, s in zip(known, (a, b)))  # padding may be no symbol at all
    for name, cost, axes, read in (
        ("insertion", insertion, 1, (b,)),
        ("deletion", deletion, 1, (a,)),
        ("substitution", substitution, 2, (a, b)),
    ):
        _check_table(name, cost, axes, read)
    changed = _substitution(substitution, a, b, dtype)
    # Both get a first element more, paired for free and never unpaired, so that a sequence may be empty.
    match = pad(-changed, (1, 0, 1, 0), value=-torch.inf)
    first = torch.zeros(m + 1, n + 1, dtype=torch.bool, device=a.device)
    first[0, 0] = True
    match = torch.where(first, 0.0, match)
    left, right = (
        pad(-_per_symbol(cost, symbols, dtype), (1, 0), value=-torch.inf)
        for cost, symbols in ((deletion, a), (insertion, b))
    )
    scores = GappedScores(match, left, left, right, right)
    return 0 - GlobalAlignment().max(scores, regularizer, lengths=tuple(length + 1 for length in given))


def _dtype(*costs: float | Tensor) -> torch.dtype:
    """Returns the type of the costs that have one; whole numbers have any type."""
    floating = [cost.dtype for cost in costs if isinstance(cost, Tensor) and cost.is_floating_point()]
    return functools.reduce(torch.promote_types, floating) if floating else torch.get_default_dtype()


def _per_symbol(cost: float | Tensor, symbols: Tensor, dtype: torch.dtype) -> Tensor:
    cost = torch.as_tensor(cost, dtype=dtype, device=symbols.device)
    return cost[symbols] if cost.dim() == 1 else cost.expand(symbols.shape)


def _substitution(cost: float | Tensor, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    cost = torch.as_tensor(cost, dtype=dtype, device=a.device)
    if cost.dim() == 2:
        return cost[a.unsqueeze(-1), b.unsqueeze(-2)]
    return torch.where(a.unsqueeze(-1) == b.unsqueeze(-2), 0.0, cost)


def _check_table(name: str, cost: float | Tensor, axes: int, symbols: tuple[Tensor, ...]) -> None:
    """Checks that a cost is one number, or a table with a place for every symbol along each axis."""
    if not isinstance(cost, Tensor) or cost.dim() == 0:
        return
    if cost.dim() != axes:
        expected = "(V,)" if axes == 1 else "(V, V)"
        raise ValueError(
            f"edit_distance: {name} must be one number or a table {expected}, got shape {tuple(cost.shape)}; index it "
            "by symbols"
        )
    for size, looked_up in zip(cost.shape, symbols):
        if looked_up.numel() and not (int(looked_up.min()) >= 0 and int(looked_up.max()) < size):
            raise ValueError(
                f"edit_distance: {name} must have a place for every symbol, 0 to {size - 1}, got "
                f"{int(looked_up.min())} to {int(looked_up.max())}; renumber them"
            )


def _check(a: Tensor, b: Tensor) -> tuple[int, ...]:
    for name, symbols in (("a", a), ("b", b)):
        if not isinstance(symbols, Tensor) or symbols.is_floating_point() or symbols.dim() == 0:
            kind = f"{symbols.dtype}, {symbols.dim()} axes" if isinstance(symbols, Tensor) else type(symbols).__name__
            raise TypeError(
                f"edit_distance: {name} must be an integer Tensor (..., length), got {kind}; number the symbols"
            )
    return tuple(torch.broadcast_shapes(a.shape[:-1], b.shape[:-1]))
