"""SparseMAP: the expected structure under a squared norm on the whole polytope, as a few structures.

    max_{μ in conv(Y)}  <scores, μ> − ½ ‖μ‖²

Unlike a local Ω inside the recursion (`Smoothed`) this needs only the best structure for given scores, so it exists for
every structure. Extra scores (transitions, gaps) take part in the choice and are not regularised.
Niculae, Martins, Blondel & Cardie, ICML 2018.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.program import Parts
from omegamax.inference.sparsemap.active_set import Ending
from omegamax.inference.sparsemap.oracle import BestVertices, Oracle, flatten, unflatten
from omegamax.inference.sparsemap.sparsemap import DifferentiableSolution, solve_sparsemap
from omegamax.kernels.structures.sparsemap import Options, Start
from omegamax.operators.hard import Hard
from omegamax.smoothmax import SmoothMax, ValueAndWeights
from omegamax.structures.problem import Problem

if TYPE_CHECKING:
    from omegamax.structures.structure import Structure

MAX_ITER = 10_000


class SparseMAPSolution(NamedTuple):
    """A sparse distribution over structures, and its mean."""

    marginals: Any  # (*batch, *event): the expected structure; differentiable
    structures: Any  # (*batch, found, *event), the most probable first; zeros where an item has fewer than others
    probabilities: Tensor  # (*batch, found); zero there; differentiable
    gap: Tensor  # (*batch,) float64: at most this much below the optimum
    n_iterations: Tensor  # (*batch,): how often the best structure was searched for
    lengths: tuple[Tensor, ...]  # (*batch,) per axis that has a length: those it was found for
    origin: Tensor  # (*batch,) int64: stands for the type and the settings of the structure that it was found for
    positions: Tensor | None = None  # (*batch, N): those it was found for; None where they are those of the lengths


def sparsemap(problem: Problem, *, start: Any, max_iter: int, atol: float) -> SparseMAPSolution:
    """Finds the distribution and its mean."""
    found = _solve(problem, start, max_iter, atol)
    device = found.marginals.device
    certificate = found.certificate
    chosen = certificate.probabilities > 0
    width = max(1, int(chosen.sum(1).max())) if problem.n_items else 1
    order = certificate.probabilities.argsort(stable=True, dim=1, descending=True)
    probabilities = torch.where(chosen, found.probabilities, 0).gather(1, order)[:, :width]
    if probabilities.shape[1] < width:
        probabilities = torch.nn.functional.pad(probabilities, (0, width - probabilities.shape[1]))
    listed = _listed(found, order, width, sum([part.shape[1:].numel() for part in problem.parts]))
    wrong = (certificate.endings == Ending.NOT_A_NUMBER).to(device)
    probabilities = torch.where(wrong.unsqueeze(1), torch.nan, probabilities)
    listed = torch.where(wrong.repeat_interleave(width).unsqueeze(1), torch.nan, listed)
    like = tuple([part.new_empty(0, *part.shape[1:]) for part in problem.parts])
    batch = problem.batch_shape
    return SparseMAPSolution(
        problem.in_user_shape(unflatten(found.marginals, problem.parts)),
        problem.in_user_shape(unflatten(listed, like), after=(width,)),
        problem.per_item(probabilities, after=(width,)),
        torch.where(wrong, torch.nan, certificate.gaps.to(device)).reshape(batch),
        certificate.n_calls.to(device).reshape(batch),
        tuple([length.reshape(batch) for length in problem.lengths]),
        torch.full(batch, fingerprint(problem.structure)),
        None if problem.kept is None else problem.kept.mask.reshape(*batch, -1).clone(),
    )


def sparsemap_marginals_and_value(problem: Problem, max_iter: int, atol: float = 0.0) -> tuple[Parts, Tensor]:
    """Finds the mean and the smoothed maximum (batch,), without the list of structures."""
    found = _solve(problem, None, max_iter, atol)
    return unflatten(found.marginals, problem.parts), found.value


def _solve(problem: Problem, start: Any, max_iter: int, atol: float) -> DifferentiableSolution:
    who = f"{type(problem.structure).__name__}.sparsemap"
    checks.check_count(who, "max_iter", max_iter)
    checks.check_gap(who, "atol", atol)
    known = None if start is None else _start(who, problem, start)
    found = solve_sparsemap(oracle_of(problem), flatten(problem.parts), Options(max_iter, atol), known)
    endings, gaps = found.certificate.endings, found.certificate.gaps
    if bool((endings == Ending.BAD_ORACLE).any()):
        raise ValueError(
            f"{who}: the oracle must return a best structure, got one that scores {-float(gaps.min()):.3g} less than "
            "the mean of those it returned before; check its argmax, and that −inf scores forbid"
        )
    stopped = endings == Ending.NOT_CONVERGED
    if bool(stopped.any()):
        n_calls = int(found.certificate.n_calls[stopped].max())
        when, fix = f"max_iter={max_iter} calls", "raise max_iter, or accept the gap with atol"
        if n_calls < max_iter:
            when, fix = f"{n_calls} calls", "the value no longer rises in float64, so accept the gap with atol"
        checks.warn(
            f"{who}: stopped after {when} with a gap of {float(gaps[stopped].max()):.3g}, tolerance {atol:.3g} beyond "
            f"rounding; {fix}",
        )
    return found


def oracle_of(problem: Problem) -> Oracle:
    """Returns the MAP of the structure in the form that the solver calls."""
    structure = problem.structure

    def best(items: Tensor, rows: Tensor) -> BestVertices:
        lengths = tuple(length[items] for length in problem.lengths)
        like = tuple(part.new_empty((0, *part.shape[1:]), dtype=torch.float64) for part in problem.parts)
        some = replace(problem, parts=unflatten(rows, like), lengths=lengths, batch_shape=(len(items),))
        program = structure.program(some, Hard())
        with torch.no_grad():
            values, state = program.value_before_marginals(some.parts)
            return BestVertices(values, flatten(program.marginals(some.parts, state).parts))

    n_components = len(problem.parts) if structure.n_regularized is None else structure.n_regularized
    n_regularized = sum([part.shape[1:].numel() for part in problem.parts[:n_components]])
    return Oracle(best, structure.oracle(problem), n_regularized)


def _start(who: str, problem: Problem, start: Any) -> Start:
    if not isinstance(start, SparseMAPSolution):
        raise TypeError(
            f"{who}: start must be what sparsemap returned before, got {type(start).__name__}; keep it whole"
        )
    width = start.probabilities.shape[-1]
    given = (start.structures,) if isinstance(start.structures, Tensor) else tuple(start.structures)
    expected = [(*problem.batch_shape, width, *part.shape[1:]) for part in problem.parts]
    if [tuple(g.shape) for g in given] != expected:
        raise ValueError(
            f"{who}: start must be of the same shapes as the potentials, expected {expected}, got "
            f"{[tuple(g.shape) for g in given]}; start anew where the batch has changed"
        )
    merged = [g.detach().reshape(-1, *part.shape[1:]) for g, part in zip(given, problem.parts)]
    if problem.kept is not None:
        merged[0] = problem.kept.in_front(merged[0], torch.arange(problem.n_items).repeat_interleave(width))
    rows = flatten(tuple(merged))
    probabilities = start.probabilities.detach().double().reshape(-1, width).cpu()
    for before, now in zip(start.lengths, problem.lengths):  # structures of other lengths cannot be used
        probabilities = torch.where((before.reshape(-1) == now).unsqueeze(1), probabilities, 0)
    if start.positions is not None or problem.kept is not None:  # and neither can those of other positions
        place = torch.arange(problem.sizes[0][0])
        old = place < start.lengths[0].reshape(-1, 1) if start.positions is None else start.positions
        new = place < problem.lengths[0].unsqueeze(1) if problem.kept is None else problem.kept.mask
        agree = (old.reshape(new.shape) == new).all(1, keepdim=True)
        probabilities = torch.where(agree, probabilities, 0)
    vertices = rows.reshape(problem.n_items, width, -1).cpu()
    if bool((start.origin != fingerprint(problem.structure)).any()):
        _check_vertices(who, problem, vertices, probabilities)
    return Start(vertices, probabilities)


def _check_vertices(who: str, problem: Problem, vertices: Tensor, probabilities: Tensor) -> None:
    """Refuses vertices that are no structures here: they would be averaged in, and no gap would show it."""
    from omegamax.structures.membership import Entries, is_member  # which imports this file

    items, numbers = (probabilities > 0).nonzero(as_tuple=True)
    like = tuple([part.new_empty(0, *part.shape[1:]) for part in problem.parts])
    parts = unflatten(vertices[items, numbers].to(problem.parts[0].device), like)
    lengths = tuple([length[items] for length in problem.lengths])
    some = replace(problem, parts=parts, lengths=lengths, batch_shape=(len(items),))
    member = is_member(some, parts, tuple([Entries.of(part) for part in parts]))
    if not bool(member.all()):
        raise ValueError(
            f"{who}: start must hold structures of {problem.structure}, got others in item "
            f"{int(items[~member.cpu()][0])}; start with what the same structure returned"
        )


def fingerprint(structure: Any) -> int:
    """Computes a number of the type and the settings: equal structures have the same, others hardly ever."""
    digest = hashlib.blake2b(digest_size=8)
    _describe(structure, digest.update)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _describe(thing: Any, write: Callable[[bytes], Any]) -> None:
    write(type(thing).__qualname__.encode() + b"(")
    if isinstance(thing, Tensor):
        write(f"{thing.dtype} {tuple(thing.shape)}".encode())
        write(thing.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif is_dataclass(thing):
        for field in fields(thing):
            _describe(getattr(thing, field.name), write)
    elif isinstance(thing, (tuple, list)):
        for each in thing:
            _describe(each, write)
    elif thing is None or isinstance(thing, (bool, int, float, str)):
        write(repr(thing).encode())
    else:
        write(_number(thing))  # a function, for example; a copy of it counts as another
    write(b")")


def _number(thing: Any) -> bytes:
    """Returns a number that no other object has or will have, unlike its `id`; always a new one if it has no hash."""
    try:
        return _NUMBERS.setdefault(thing, uuid.uuid4().bytes)
    except TypeError:
        return uuid.uuid4().bytes


_NUMBERS: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()


def _listed(found: DifferentiableSolution, order: Tensor, width: int, n_parts: int) -> Tensor:
    """Writes out the first `width` vertices of every item in this order: (batch · width, parts)."""
    certificate = found.certificate
    n_items, all_wide = certificate.probabilities.shape
    item = certificate.owners // max(1, all_wide)
    number = order.argsort(1).reshape(-1)[certificate.owners]
    shown = (number < width) & (certificate.probabilities.reshape(-1)[certificate.owners] > 0)
    rows = (item * width + number)[shown]
    places = certificate.places[shown] - item[shown] * n_parts
    listed = certificate.values.new_zeros(n_items * width, n_parts)
    return listed.index_put((rows, places), certificate.values[shown])


@dataclass(frozen=True, eq=False)
class SparseMAP(SmoothMax):
    """max and argmax of a structure under ½ ‖μ‖² on its polytope: `structure.sparsemap` as one object.

    The norm is not shifted: Ω is ½ (number of parts) at a structure, not 0. On the simplex this is sparsemax. Methods
    take `mask`, `lengths` and `positions` as those of the structure do.

    Arguments:
        structure: what is chosen among
        max_iter: how often the best structure is searched for at most, for each item
        atol: the gap at which the search may end; above 0 the value is too small by at most so much, and the mean lies
            within √(2 atol) of the exact one, which is enough for training and much faster where scores are small
    """

    structure: Structure
    max_iter: int = MAX_ITER
    atol: float = 0.0

    def __post_init__(self) -> None:
        from omegamax.structures.structure import check_structure  # which imports this file

        check_structure("SparseMAP", self.structure)
        checks.check_gap("SparseMAP", "atol", self.atol)

    @property
    def event_ndim(self) -> int:  # type: ignore[override]
        return self.structure.event_ndim

    def max(self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None) -> Tensor:
        """Computes the smoothed maximum; its gradient is `argmax`."""
        problem = self.structure.bind(scores, lengths, mask, positions).compacted()
        return problem.per_item(self.structure.sparsemap_parts(problem, self.max_iter, self.atol)[1])

    def argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None) -> Any:
        """Computes the expected structure."""
        problem = self.structure.bind(scores, lengths, mask, positions).compacted()
        return problem.in_user_shape(self.structure.sparsemap_parts(problem, self.max_iter, self.atol)[0])

    def max_and_argmax(
        self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None
    ) -> ValueAndWeights:
        problem = self.structure.bind(scores, lengths, mask, positions).compacted()
        marginals, value = self.structure.sparsemap_parts(problem, self.max_iter, self.atol)
        return ValueAndWeights(problem.per_item(value), problem.in_user_shape(marginals))

    def omega(self, weights: Any, *, lengths: Any = None, positions: Any = None) -> Tensor:
        """Computes ½ ‖μ‖² over the regularised components."""
        problem = self.structure.bind(weights, lengths, positions=positions)
        n = self.structure.n_regularized
        regularized = (torch.where(part == -torch.inf, 0, part) for part in problem.parts[:n])  # forbidden: no weight
        norm = sum(part.square().flatten(1).sum(1) for part in regularized)
        return problem.per_item(0.5 * torch.as_tensor(norm))
