"""Integer labels that stand for gold structures: tags of a chain, heads of a tree, columns of a matching."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from omegamax import checks
from omegamax.inference.program import Parts
from omegamax.structures.problem import Problem


def labelled_parts(who: str, problem: Problem, labels: Any) -> Parts:
    """Returns the structures that labels (*batch, N) stand for, as parts (batch, *event)."""
    return problem.structure.parts_from_labels(problem, checked_labels(who, problem, labels))


def checked_labels(who: str, problem: Problem, labels: Any) -> Tensor:
    """Returns labels (*batch, N) with the batch axes merged, on the device of the potentials."""
    structure = problem.structure
    if structure.labels_are is None:
        raise TypeError(
            f"{who}: target must be a structure in the form of the scores, got labels, which {structure._name} does "
            "not have; make it with a constructor of the structure"
        )
    checks.check_indices(who, structure.labels_are, labels)
    expected = (*problem.batch_shape, structure.limits(problem.sizes)[0])
    if tuple(labels.shape) != expected:
        raise ValueError(
            f"{who}: {structure.labels_are} must have the shape {expected} of the potentials, got "
            f"{tuple(labels.shape)}; pad them and pass lengths"
        )
    return labels.to(problem.parts[0].device).reshape(problem.n_items, expected[-1])
