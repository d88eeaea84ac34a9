"""The loss at a structure (a path, a tree, an alignment) that is given by its parts.

    L(θ; y) = max_Ω(θ) + Ω(y) − <θ, y>          ∇L = argmax_Ω(θ) − y

Ω(y) vanishes at a structure for every Ω that vanishes at corners; for SparseMAP it is ½‖y‖².
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.inference.program import Parts
from omegamax.losses.row_evaluation import non_negative
from omegamax.smoothmax import SmoothMax
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.labels import labelled_parts
from omegamax.structures.membership import Entries, is_member, sum_of
from omegamax.structures.problem import Problem
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.smoothing import smoothed_value, smoothing_of
from omegamax.structures.sparsemap import SparseMAP
from omegamax.structures.structure import Structure


def structure_of(smooth: SmoothMax) -> Structure | None:
    """Returns the structure of a `Smoothed` or a `SparseMAP`, and None for a smoothed maximum of rows."""
    found = getattr(smooth, "structure", None)
    return found if isinstance(found, Structure) else None


def losses_at_structure(
    who: str,
    smooth: Any,
    scores: Any,
    target: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    positions: Any = None,
    target_edges: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Computes losses (*batch) of potentials at structures of their shape, at labels, or at marginals with a known Ω.

    With `check`, a target that is not a structure, or that uses a part of score −inf, raises. Without it, a target that
    uses a part of score −inf has an infinite loss.
    """
    problem = smooth.structure.bind(scores, lengths, mask, positions)
    given = _parts_of_target(who, problem, scores, target)
    entries = tuple(Entries.of(part) for part in given)
    whole = all(bool((each.values == each.values.round()).all()) for each in entries)
    vertex = whole or _counts_fractions(problem)
    certain = is_labels(scores, target) and problem.structure.any_labels_fit
    if vertex and not certain and (check or not whole):
        member = is_member(problem, given, entries)
        vertex = bool(member.all())
        if whole and not vertex:
            wrong, name = int((~member).nonzero()[0]), type(problem.structure).__name__
            raise ValueError(
                f"{who}: the target must be a structure of {name}, got something else in item {wrong}; make it with a "
                "constructor of the structure, with the same lengths"
            )
    score = sum_of(entries, problem.parts)
    if check and bool((score == -torch.inf).any()):
        raise ValueError(
            f"{who}: the target must be allowed by its scores, got one that uses a part of score -inf in item "
            f"{int((score == -torch.inf).nonzero()[0])}; unmask the part, or leave the item out"
        )
    value = value_of_problem(smooth, problem, scores, lengths, mask)
    if not (vertex and _vanishes(smooth)):
        options: dict[str, Any] = {} if target_edges is None else {"target_edges": target_edges}
        if isinstance(smooth, Smoothed) and not _vanishes(smooth):
            options |= {"scores": scores, "mask": mask}
        if positions is not None:
            options["positions"] = positions
        value = value + smooth.omega(problem.in_user_shape(given), lengths=lengths, **options).reshape(value.shape)
    return problem.per_item(torch.where(value == -torch.inf, torch.inf, non_negative(value - score)))


def value_of_problem(smooth: Any, problem: Problem, scores: Any, lengths: Any, mask: Any) -> Tensor:
    """Computes max_Ω (batch,) without rounding it to the type of the scores: two large numbers will be subtracted."""
    if isinstance(smooth, Smoothed):
        return smoothed_value(problem, smoothing_of(type(problem.structure).__name__, smooth.regularizer))
    if isinstance(smooth, SparseMAP):
        return problem.structure.sparsemap_parts(problem.compacted(), smooth.max_iter, smooth.atol)[1]
    return smooth.max(scores, lengths=lengths, mask=mask).reshape(-1)


def is_labels(scores: Any, target: Any) -> bool:
    """Says whether a target holds labels: integers with fewer axes than the (first) scores."""
    like = scores[0] if isinstance(scores, tuple) and scores else scores
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        return False
    return target.dtype is not torch.bool and isinstance(like, Tensor) and target.dim() < like.dim()


def _parts_of_target(who: str, problem: Problem, scores: Any, target: Any) -> Parts:
    if is_labels(scores, target):
        return labelled_parts(who, problem, target)
    given = (target,) if isinstance(target, Tensor) else tuple(target)
    if any(not isinstance(part, Tensor) for part in given):
        raise TypeError(
            f"{who}: target must be a structure in the form of the scores, or an integer Tensor of "
            f"{problem.structure.labels_are or 'labels'}, got {type(target).__name__}; make it with a constructor "
            "such as Chain.from_tags"
        )
    like = problem.parts[0]
    found, before = problem.as_parts(who, tuple(part.to(like) for part in given))
    if before:
        raise ValueError(
            f"{who}: target must have the batch axes of the scores {problem.batch_shape}, got {before} before them; "
            "give one structure per item"
        )
    return found


def _vanishes(smooth: Any) -> bool:
    """Says whether Ω is zero at every structure."""
    return isinstance(smooth, Smoothed) and smoothing_of("loss", smooth.regularizer).regularizer.zero_at_corners


def _counts_fractions(problem: Problem) -> bool:
    """Says whether a structure may hold fractions, as an alignment with weighted steps does."""
    if not isinstance(problem.structure, DynamicProgram):
        return False
    scales = [component.scales for component in problem.lattice.components]
    return any(scale is not None and bool((scale != scale.round()).any()) for scale in scales)
