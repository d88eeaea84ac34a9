"""Every check of inputs. A message says who speaks, what was expected, what came, and what to do."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch
from torch import Tensor

from omegamax.operator_table import STRENGTH, Parameter
from omegamax.warning import warn as warn

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_floating(who: str, scores: Any, *, name: str = "scores") -> None:
    """Checks that scores are a dense floating-point tensor."""
    if not isinstance(scores, Tensor):
        raise TypeError(
            f"{who}: {name} must be a Tensor, got {type(scores).__name__}; wrap them with torch.tensor(...)"
        )
    if scores.dtype not in _FLOATS:
        raise TypeError(f"{who}: {name} must be floating point, got {scores.dtype}; convert them with {name}.float()")
    if scores.layout is not torch.strided:
        raise TypeError(f"{who}: {name} must be dense, got layout {scores.layout}; convert them with {name}.to_dense()")


def check_scores(who: str, scores: Any, *, name: str = "scores") -> None:
    """Checks that scores are a dense floating-point tensor with at least one axis."""
    check_floating(who, scores, name=name)
    if scores.dim() == 0:
        raise ValueError(f"{who}: {name} must have at least one axis, got a 0-d tensor; use {name}.reshape(1)")


def check_dim(who: str, scores: Tensor, dim: Any) -> None:
    """Checks that `dim` is an axis of scores."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"{who}: dim must be an int, got {type(dim).__name__}; name one axis of scores")
    if not -scores.dim() <= dim < scores.dim():
        raise ValueError(
            f"{who}: dim must lie in [{-scores.dim()}, {scores.dim() - 1}] for scores of shape "
            f"{tuple(scores.shape)}, got {dim}; the last axis is dim=-1"
        )


_TRUE_MARKS = "True marks the positions that may receive weight"


def check_mask(who: str, scores: Tensor, mask: Any, *, onto: str = "scores", fix: str = _TRUE_MARKS) -> None:
    """Checks that `mask` is a boolean tensor that broadcasts to scores; True marks what may receive weight."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"{who}: mask must be a boolean Tensor, got {type(mask).__name__}; use torch.tensor(mask)")
    if mask.dtype is not torch.bool:
        raise TypeError(
            f"{who}: mask must be boolean, got {mask.dtype}; {_TRUE_MARKS}, so an additive mask is `mask > -inf`"
        )
    padded = (1,) * (scores.dim() - mask.dim()) + tuple(mask.shape)
    if len(padded) != scores.dim() or any(m not in (1, s) for m, s in zip(padded, scores.shape)):
        raise ValueError(f"{who}: mask must broadcast to {onto} {tuple(scores.shape)}, got {tuple(mask.shape)}; {fix}")


def as_lengths(lengths: Any) -> Any:
    """Converts lengths from a number, a list, a tuple or a NumPy array to a tensor; anything else stays as it is."""
    if lengths is None or isinstance(lengths, Tensor):
        return lengths
    if isinstance(lengths, (list, tuple)) and not lengths:
        return torch.zeros(0, dtype=torch.long)
    try:
        return torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError):
        return lengths  # a later check raises


def check_lengths(who: str, batch_shape: tuple[int, ...], lengths: Any) -> Tensor:
    """Checks that lengths are integers, one per item of the leading batch axes; returns them as a tensor."""
    lengths = as_lengths(lengths)
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype is torch.bool:
        kind = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
        raise TypeError(
            f"{who}: lengths must be an integer Tensor or a list of integers, got {kind}; use torch.tensor([...])"
        )
    if tuple(lengths.shape) != tuple(batch_shape[: lengths.dim()]):
        raise ValueError(
            f"{who}: lengths must match the leading batch axes {tuple(batch_shape)}, got {tuple(lengths.shape)}; "
            "give one length per batch item"
        )
    return lengths


def _check_number(
    who: str, name: str, number: Any, holds: bool, expected: str, fix: str, *, kind: str = "a number or a Tensor"
) -> None:
    if not _is_number(number):
        raise TypeError(f"{who}: {name} must be {kind}, got {type(number).__name__}; {fix}")
    if not holds:
        raise ValueError(f"{who}: {name} must be {expected}, got {number}; {fix}")


def _is_number(number: Any) -> bool:
    if isinstance(number, (int, float, torch.SymInt, torch.SymFloat)):
        return not isinstance(number, bool)
    return isinstance(number, numbers.Real)  # NumPy's


def plain(value: Any) -> Any:
    """Converts a number of NumPy to one of Python, whose arithmetic is double; anything else stays as it is."""
    if isinstance(value, (float, int, Tensor)):  # the usual case, quickly
        return value
    return float(value) if isinstance(value, numbers.Real) else value


def check_parameter(who: str, parameter: Parameter, value: Any) -> None:
    """Checks for a number in the range of the parameter, or a floating tensor, which is read only if that is cheap."""
    if type(value) is float and parameter.least < value < parameter.most:  # the usual case, quickly
        return
    if value is None and parameter.default is None:
        return
    name, expected, fix = parameter.name, parameter.expected, parameter.fix
    if not isinstance(value, Tensor) or not parameter.may_be_tensor:
        kind = "a number or a Tensor" if parameter.may_be_tensor else "a number"
        holds = _is_number(value) and parameter.holds(value, value)
        _check_number(who, name, value, holds, expected, fix, kind=kind)
        return
    if not value.is_floating_point():
        raise TypeError(f"{who}: {name} must be floating point, got {value.dtype}; convert it with .float()")
    if is_readable(value) and value.numel() > 0:  # elsewhere an invalid entry makes its row NaN
        low, high = (float(bound) for bound in value.detach().aminmax())
        if not parameter.holds(low, high):
            wrong = high if low >= parameter.least and not parameter.holds(high, high) else low
            raise ValueError(f"{who}: {name} must be {expected}, got an entry {wrong}; {fix}")


def is_readable(tensor: Tensor) -> bool:
    """Says whether reading the values costs nothing: they are not traced, transformed, fake, or on another device."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if torch._C._len_torch_dispatch_stack():  # a mode may make a fake tensor of whatever is computed
        return False
    return type(tensor) in (Tensor, torch.nn.Parameter) and tensor.is_cpu


_GAMMA = Parameter(
    "gamma", 1.0, "temperature", 0.0, "positive and finite", "smaller is closer to the hard maximum",
    may_equal_least=False,
)  # fmt: skip


def check_gamma(who: str, gamma: Any) -> None:
    check_parameter(who, _GAMMA, gamma)


def check_strength(who: str, strength: Any) -> None:
    check_parameter(who, STRENGTH, strength)


def check_finite(who: str, name: str, number: Any, fix: str) -> None:
    holds = _is_number(number) and -math.inf < number < math.inf
    _check_number(who, name, number, holds, "finite", fix, kind="a number")


def check_above(who: str, bound: Any, start: Any) -> None:
    """Checks for two numbers, the second above the first."""
    for name, number in (("bound", bound), ("start", start)):
        finite = _is_number(number) and -math.inf < number < math.inf
        _check_number(who, name, number, finite, "finite", "begin a little above the bound", kind="a number")
    if not start > bound:
        raise ValueError(f"{who}: start must exceed {bound} to be learnable, got {start}; begin a little above it")


def check_row_parameter(who: str, name: str, parameter: Any, scores: Tensor, *, onto: str = "scores") -> None:
    """Checks that a tensor parameter broadcasts against scores and has size one along the row."""
    if not isinstance(parameter, Tensor) or parameter.dim() == 0:
        return
    shape = tuple(parameter.shape)
    padded = (1,) * (scores.dim() - len(shape)) + shape
    fits = len(padded) == scores.dim() and shape[-1] == 1
    if not fits or any(a not in (1, b) for a, b in zip(padded, scores.shape)):
        raise ValueError(
            f"{who}: {name} must broadcast against {onto} {tuple(scores.shape)} with size 1 along the row, "
            f"got {shape}; for one {name} per head of (batch, heads, queries, keys) give it the shape (heads, 1, 1)"
        )


def check_owl_weights(who: str, weights: Any, x: Any, dim: int) -> None:
    """Checks for one non-negative, non-increasing sequence as long as the row."""
    check_scores(who, x, name="x")
    check_dim(who, x, dim)
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{who}: weights must be a floating-point Tensor, got {kind}; use torch.tensor([...])")
    if tuple(weights.shape) != (x.shape[dim],):
        raise ValueError(
            f"{who}: weights must have shape ({x.shape[dim]},), got {tuple(weights.shape)}; give one weight per rank"
        )
    if weights.requires_grad:
        raise ValueError(
            f"{who}: weights must not require a gradient, got requires_grad=True; detach them, or use prox_oscar, "
            "whose strength learns"
        )
    if not is_readable(weights):
        return
    if weights.numel() and not (bool((weights.diff() <= 0).all()) and float(weights[-1]) >= 0):
        raise ValueError(
            f"{who}: weights must be non-negative and non-increasing, got {weights.tolist()}; sort them descending"
        )


def check_count(who: str, name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{who}: {name} must be an int, got {type(number).__name__}; ask for at least 1")
    if number < 1:
        raise ValueError(f"{who}: {name} must be at least 1, got {number}; ask for at least 1")


def check_tolerance(who: str, name: str, number: Any) -> None:
    holds, fix = _is_number(number) and 0 < number < math.inf, "leave it out for the accuracy of the scores' type"
    _check_number(who, name, number, holds, "positive and finite", fix, kind="a number")


def check_gap(who: str, name: str, number: Any) -> None:
    """Checks that a tolerance, of a gap or a residual, is a number that is not negative."""
    _check_number(
        who, name, number, _is_number(number) and number >= 0, "at least 0", "0 is the most exact", kind="a number"
    )


def check_counts(who: str, name: str, numbers: Tensor, most: int, fix: str) -> None:
    """Checks that integers lie between 0 and `most`. They are read only where that is cheap."""
    if numbers.numel() == 0 or not is_readable(numbers):
        return
    low, high = (int(bound) for bound in numbers.aminmax())
    if low < 0 or high > most:
        raise ValueError(f"{who}: {name} must lie between 0 and {most}, got {low} to {high}; {fix}")


def check_indices(who: str, name: str, indices: Any) -> None:
    """Checks for an integer tensor with at least one axis."""
    if not isinstance(indices, Tensor):
        raise TypeError(f"{who}: {name} must be an integer Tensor, got {type(indices).__name__}; use torch.tensor(...)")
    if indices.is_floating_point() or indices.dtype is torch.bool:
        raise TypeError(f"{who}: {name} must be integers, got {indices.dtype}; use .long()")
    if indices.dim() == 0:
        raise ValueError(f"{who}: {name} must have the shape (..., N), got a single number; use unsqueeze(0)")


def check_event(who: str, name: str, tensor: Any, event: tuple[int | None, ...], layout: str) -> None:
    """Checks for a floating tensor whose last axes have these sizes; None stands for any size from 1."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{who}: {name} must be a Tensor {layout}, got {type(tensor).__name__}; wrap it with torch.tensor"
        )
    if tensor.dtype not in _FLOATS:
        raise TypeError(f"{who}: {name} must be floating point, got {tensor.dtype}; convert it with .float()")
    shape = tuple(tensor.shape)
    found = shape[len(shape) - len(event) :]
    fits = len(shape) >= len(event)
    for wanted, size in zip(event, found):
        fits = fits and size >= 1 and wanted in (None, size)
    if not fits:
        raise ValueError(f"{who}: {name} must have the shape {layout}, no size zero, got {shape}; see help({who})")


def common_batch(who: str, components: tuple[tuple[Tensor, int], ...]) -> tuple[int, ...]:
    """Returns the batch shape that the components share by broadcasting."""
    shapes = [tuple(tensor.shape[: tensor.dim() - event_ndim]) for tensor, event_ndim in components]
    if len(shapes) == 1:
        return shapes[0]
    first = components[0][0]
    for tensor, _ in components:
        if tensor.device != first.device:
            raise TypeError(
                f"{who}: all potentials must be on one device, got {first.device} and {tensor.device}; move them with "
                ".to(...)"
            )
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        raise ValueError(
            f"{who}: the batch axes of the potentials must broadcast, got {shapes}; shared ones may have none"
        ) from None


def check_structure_lengths(
    who: str, batch_shape: tuple[int, ...], lengths: Any, limits: tuple[int, ...], *, least: int = 1
) -> tuple[Tensor, ...]:
    """Returns one CPU tensor (batch,) per axis that has a length, from `least` to the axis' size, the default."""
    given = (None,) * len(limits) if lengths is None else _per_axis(lengths, len(limits), batch_shape)
    if not limits and lengths is not None:
        raise ValueError(f"{who}: lengths must be None, got {type(lengths).__name__}; no axis of {who} has a length")
    if len(given) != len(limits):
        kind = "one Tensor" if len(limits) == 1 else f"{len(limits)} Tensors"
        raise ValueError(f"{who}: lengths must be {kind}, got {len(given)}; give one per axis that has a length")
    n_items = math.prod(batch_shape)
    found = []
    for each, limit in zip(given, limits):
        if each is None:
            found.append(torch.full((n_items,), limit, dtype=torch.long))
            continue
        each = as_lengths(each)
        if not isinstance(each, Tensor) or each.is_floating_point() or each.dtype is torch.bool:
            came = each.dtype if isinstance(each, Tensor) else type(each).__name__
            raise TypeError(
                f"{who}: lengths must be an integer Tensor or a list of integers, got {came}; use torch.tensor([...])"
            )
        if tuple(each.shape) != batch_shape:
            raise ValueError(
                f"{who}: lengths must have the batch shape {batch_shape}, got {tuple(each.shape)}; give one per item"
            )
        # This is a copy: the caller may change its own tensor before the backward pass.
        each = each.detach().to("cpu", torch.long, copy=True).reshape(-1)
        if n_items and not (int(each.min()) >= least and int(each.max()) <= limit):
            raise ValueError(
                f"{who}: lengths must lie between {least} and {limit}, got {int(each.min())} to {int(each.max())}; "
                "count the positions of each item, and drop empty ones"
            )
        found.append(each)
    return tuple(found)


def check_positions(who: str, batch_shape: tuple[int, ...], n_places: int, positions: Any, lengths: Any) -> Tensor:
    """Returns which positions (batch, N) of each item are kept, boolean and on the CPU."""
    if lengths is not None:
        raise ValueError(
            f"{who}: give lengths or positions, got both; positions say which of them there are, so mark what is "
            "beyond a length as False"
        )
    if not isinstance(positions, Tensor) or positions.dtype is not torch.bool:
        came = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
        raise TypeError(f"{who}: positions must be a boolean Tensor, got {came}; True marks a position that is kept")
    shape = (*batch_shape, n_places)
    padded = (1,) * (len(shape) - positions.dim()) + tuple(positions.shape)
    if len(padded) != len(shape) or any(p not in (1, s) for p, s in zip(padded, shape)):
        raise ValueError(
            f"{who}: positions must broadcast to {shape}, got {tuple(positions.shape)}; give one truth value per "
            "position of each item"
        )
    return positions.detach().to("cpu").expand(shape).reshape(math.prod(batch_shape), n_places)


def _per_axis(lengths: Any, n_axes: int, batch_shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns lengths for each axis that has them. A list for one axis is its lengths, or has them as its one entry."""
    if n_axes != 1:
        return (lengths,) if isinstance(lengths, Tensor) or not hasattr(lengths, "__len__") else tuple(lengths)
    whole = as_lengths(lengths)
    if isinstance(lengths, (list, tuple)) and len(lengths) == 1:
        fits = isinstance(whole, Tensor) and tuple(whole.shape) == batch_shape
        return (whole,) if fits else tuple(lengths)
    return (whole,)
