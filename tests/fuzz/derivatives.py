"""Row operators in float64: temperatures, values, Jacobian products and learnable parameters.

A case draws an operator, a block of rows and a direction, and checks

    temperatures   argmax_γ(γ x) = argmax(x) and max_γ(γ x) = γ max(x) for γ from 2^-100 to 2^100, which rounds nothing
    values         max(x) = <p, x> − Ω(p) at p = argmax(x), and no random p' of the simplex does better
    products       J v = (argmax(x + h v) − argmax(x − h v)) / 2h, where both have the support of x; u·J v = v·J u
    parameters     the derivative of <c, argmax> and of max by α or strength, by differences
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import omegamax as om
from omegamax import routing

routing.slowness_reported = True  # without compiled kernels the reference is meant

n_cases = 0


class Family(NamedTuple):
    make: Callable[[Any], Any]  # parameter -> operator
    draw: Callable[[np.random.Generator], float | None]  # the parameter
    learnable: bool = False


FAMILIES = {
    "softmax": Family(lambda _: om.Shannon(), lambda _: None),
    "sparsemax": Family(lambda _: om.SquaredNorm(), lambda _: None),
    "entmax": Family(om.Tsallis, lambda draw: float(draw.uniform(1.05, 3)), learnable=True),
    "sqpnormmax": Family(om.SquaredPNorm, lambda draw: float(draw.uniform(1.1, 2))),
    "fusedmax": Family(om.Fused, lambda draw: float(10 ** draw.uniform(-3, 0)), learnable=True),
    "oscarmax": Family(om.Oscar, lambda draw: float(10 ** draw.uniform(-3, -0.5)), learnable=True),
}


def fuzz(seed: int, seconds: float) -> list[str]:
    """Cases until the time is over; a case can be repeated from the seed and its number."""
    global n_cases
    failures: list[str] = []
    end = time.monotonic() + seconds
    case = 0
    while time.monotonic() < end:
        draw = np.random.default_rng([seed, case])
        name = str(draw.choice(list(FAMILIES)))
        parameter = FAMILIES[name].draw(draw)
        columns = int(draw.choice([1, 2, 3, 5, 8, 17, 33, 70, 130, 300]))
        scores = torch.from_numpy(draw.normal(size=(4, columns)) * 10.0 ** draw.uniform(-2, 1))
        if draw.integers(3) == 0:
            scores = (scores * 2).round() / 2  # ties
        for check in (_temperatures, _values, _products, _parameters):
            try:
                found = check(FAMILIES[name], parameter, scores, draw)
            except Exception as error:  # a crash is a failure like others
                found = f"{type(error).__name__}: {error}"
            if found:
                failures.append(f"{name}({parameter}) {columns} columns, case {case}, {check.__name__[1:]}: {found}")
        case += 1
        n_cases += 1
    return failures


def _apart(what: str, a: Tensor, b: Tensor, tolerance: Tensor | float) -> str:
    over = (a - b).abs() - tolerance
    if bool((over <= 0).all()):
        return ""
    worst = int(over.nan_to_num(torch.inf).argmax())
    return f"{what} {a.flatten()[worst].item():.17g} against {b.flatten()[worst].item():.17g}"


def _temperatures(family: Family, parameter: float | None, scores: Tensor, draw: np.random.Generator) -> str:
    gamma = 2.0 ** int(draw.integers(-100, 101))
    plain = family.make(parameter)
    scaled = om.Scaled(plain, gamma=gamma)
    value = plain.max(scores)
    return _apart(f"weights at γ = {gamma}", scaled.argmax(scores * gamma), plain.argmax(scores), 1e-14) or _apart(
        f"value at γ = {gamma}", scaled.max(scores * gamma) / gamma, value, 1e-13 * (1 + value.abs())
    )


def _values(family: Family, parameter: float | None, scores: Tensor, draw: np.random.Generator) -> str:
    operator = family.make(parameter)
    value, weights = operator.max(scores), operator.argmax(scores)
    rounding = 1e-12 * (1 + scores.abs().amax(-1) + operator.omega(weights).abs())
    found = _apart("value", value, (weights * scores).sum(-1) - operator.omega(weights), rounding)
    other = torch.from_numpy(draw.dirichlet(np.full(scores.shape[-1], 0.3), size=len(scores)))
    other = 0.01 * other + 0.99 * weights if draw.integers(2) else other
    better = (other * scores).sum(-1) - operator.omega(other) - value
    return found or ("" if bool((better <= rounding).all()) else f"another point is better by {float(better.max())}")


def _pull(operator: Any, scores: Tensor, direction: Tensor) -> Tensor:
    leaf = scores.clone().requires_grad_()
    (product,) = torch.autograd.grad(operator.argmax(leaf), leaf, direction)
    return product


def _products(family: Family, parameter: float | None, scores: Tensor, draw: np.random.Generator) -> str:
    operator = family.make(parameter)
    u, v = (torch.from_numpy(draw.normal(size=scores.shape)) for _ in range(2))
    product = _pull(operator, scores, v)
    scale = 1 + product.abs().sum(-1)
    found = _apart("symmetry", (u * product).sum(-1), (v * _pull(operator, scores, u)).sum(-1), 1e-10 * scale)
    h = 1e-6
    high, low, here = operator.argmax(scores + h * v), operator.argmax(scores - h * v), operator.argmax(scores)
    # Only where nothing changes between the points: neither the support, nor which weights are equal.
    smooth = _same_pattern(here, high) & _same_pattern(here, low)
    curved = (high - 2 * here + low).abs().amax(-1) < 1e-9  # a second derivative that the difference does not see
    rows = smooth & curved
    return found or _apart("J v", product[rows], ((high - low) / (2 * h))[rows], 1e-4 * scale[rows].unsqueeze(-1))


def _same_pattern(a: Tensor, b: Tensor) -> Tensor:
    """Whether rows have one support, and the same weights are equal in both."""

    def equal(p: Tensor) -> Tensor:
        return p.unsqueeze(-1) == p.unsqueeze(-2)

    return ((a > 0) == (b > 0)).all(-1) & (equal(a) == equal(b)).flatten(-2).all(-1)


def _parameters(family: Family, parameter: float | None, scores: Tensor, draw: np.random.Generator) -> str:
    if not family.learnable or parameter is None:
        return ""
    h = 1e-6 * min(parameter, 1)
    along = torch.from_numpy(draw.normal(size=scores.shape))
    leaf = torch.tensor(parameter, dtype=torch.float64, requires_grad=True)
    operator = family.make(leaf)
    high, low, here = (family.make(parameter + step).argmax(scores) for step in (h, -h, 0))
    rows = _same_pattern(here, high) & _same_pattern(here, low)
    rows &= (high - 2 * here + low).abs().amax(-1) < 1e-9
    (slope,) = torch.autograd.grad((operator.argmax(scores) * along)[rows].sum(), leaf)
    expected = ((high - low) * along)[rows].sum() / (2 * h)
    scale = 1 + float((high - low).abs().sum()) / h
    found = _apart("the weights' slope", slope, expected, 1e-4 * scale)
    (slope,) = torch.autograd.grad(operator.max(scores).sum(), leaf)
    expected = (family.make(parameter + h).max(scores) - family.make(parameter - h).max(scores)).sum() / (2 * h)
    return found or _apart("the value's slope", slope, expected, 1e-4 * (1 + expected.abs()))
