"""Row operators on adversarial rows: every instruction set and the reference, both types, any layout, against oracles.

A case draws an operator with its parameter, a block of rows of one length and a layout. Its weights are compared with
`oracles.exact_rows` and `oracles.multiplier`, rows that hold NaN or +inf must be NaN throughout, and neither layout,
nor number of threads, nor the neighbours of a row may change a bit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from oracles import exact_rows, multiplier
from torch import Tensor

from omegamax import routing
from omegamax.kernels.entmax import entmax
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.groupmax import groupmax
from omegamax.kernels.hardmax import hardmax
from omegamax.kernels.isotonic import isotonic
from omegamax.kernels.normmax import normmax
from omegamax.kernels.oscarmax import oscarmax
from omegamax.kernels.owl import prox_owl
from omegamax.kernels.prox_group import prox_group
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.sqpnormmax import sqpnormmax
from omegamax.kernels.tv1d import prox_tv1d

routing.slowness_reported = True  # the slow kernels are run on purpose

n_cases = 0

EXACT = 40  # columns up to which quadratic problems are solved in rational numbers
LENGTHS = [
    1,
    2,
    3,
    5,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    100,
    127,
    128,
    129,
    130,
    200,
    255,
    257,
    512,
    513,
    1023,
    1025,
]
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Operator(NamedTuple):
    kernel: Any
    draw: Callable[[np.random.Generator, int], tuple]  # columns -> the parameters
    oracle: Callable[..., Any]  # (finite row, kept positions, parameters) -> its solution
    simplex: bool = True  # weights, with a value; -inf means removed
    loss: Callable[..., float] = lambda *_: 1.0  # by how much the problem itself magnifies rounding


# ---------------------------------------------------------------- what is drawn


def _alpha(draw: np.random.Generator, _: int) -> tuple[float]:
    kind = draw.integers(6)
    tiny = 10.0 ** -draw.uniform(0, 16)
    return (float([1 + tiny, draw.uniform(1, 2), 1.5 + tiny * draw.choice([-0.5, 0.5]), 2 + tiny * draw.choice([-1, 1]),
                   draw.uniform(2, 3), draw.choice([1, 1.5, 2])][kind]),)  # fmt: skip


def _strength(draw: np.random.Generator, _: int = 0) -> float:
    return float(draw.choice([0, 10.0 ** draw.uniform(-8, 1), 10.0 ** draw.uniform(-3, 0), 10.0 ** draw.uniform(0, 7)]))


def _groups(draw: np.random.Generator, columns: int) -> tuple[Tensor, float]:
    n_groups = int(draw.integers(1, columns + 1)) if draw.integers(2) else max(columns // 4, 1)
    groups = np.unique(draw.integers(n_groups, size=columns), return_inverse=True)[1]
    return torch.from_numpy(np.sort(groups) if draw.integers(2) else groups), _strength(draw)


def _owl_weights(draw: np.random.Generator, columns: int) -> tuple[Tensor]:
    weights = np.sort(draw.exponential(size=columns))[::-1] * draw.choice([1e-3, 0.1, 1.0])
    return (torch.from_numpy(weights.astype(np.float32).astype(np.float64)),)


def _scores(draw: np.random.Generator, count: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Rows of every unpleasant kind, as numbers of the dtype."""
    rows = []
    info = torch.finfo(dtype)
    for _ in range(count):
        x = draw.normal(size=columns) * 10.0 ** draw.uniform(-4, 2)
        kind = draw.integers(14)
        if kind == 0:
            x = np.full(columns, draw.choice([0.0, 1.0, -3.0, 1e30, -1e30, 1e-40]))
        elif kind == 1:
            x = np.round(x)
        elif kind == 2:
            x = x * 1e-42 if dtype is torch.float32 else x * 1e-310
        elif kind == 3:
            x = draw.choice([-1e30, 1e30, 0.0, 1.0], size=columns)
        elif kind == 4:
            x[draw.random(columns) < 0.5] = info.min
        elif kind == 5:
            x = x + draw.choice([-1.0, 1.0]) * 10.0 ** draw.uniform(1, 7)
        elif kind == 6:
            x = 1 + info.eps * draw.integers(-3, 4, size=columns)
        elif kind == 7:
            x = np.where(draw.random(columns) < 0.05, 10 * x, 0.01 * x)
        elif kind == 8:
            x[draw.integers(columns)] = 1e4
        x = x.astype(np.float32 if dtype is torch.float32 else np.float64)
        if kind in (9, 10):
            x[draw.random(columns) < draw.choice([0.1, 0.5, 0.95])] = -np.inf
        elif kind == 11:
            x[:] = 0.01 * x if draw.integers(2) else 0
            x[draw.integers(columns)] = draw.choice([np.nan, np.inf])
        elif kind == 12:
            x[draw.integers(columns)] = draw.choice([np.nan, np.inf, -np.inf])
        rows.append(torch.from_numpy(x))
    return torch.stack(rows)


# ---------------------------------------------------------------- what is right


def _exact(row: np.ndarray) -> bool:
    return len(row) <= EXACT or float(np.abs(row).max()) > 1e8


def _numbers(row: np.ndarray) -> list[Any]:
    return [Fraction(float(x)) for x in row] if _exact(row) else list(row.astype(np.longdouble))


def _number(parameter: float, row: np.ndarray) -> Any:
    return Fraction(parameter) if _exact(row) else np.longdouble(parameter)


def _first_largest(row: np.ndarray, _: np.ndarray) -> np.ndarray:
    weights = np.zeros(len(row))
    weights[row.argmax()] = 1
    return weights


def _prox_group(row: np.ndarray, _: np.ndarray, groups: Tensor, strength: float) -> np.ndarray:
    row, labels = row.astype(np.longdouble), groups.numpy()
    norm = np.sqrt(np.array([(row[labels == g] ** 2).sum() for g in range(labels.max() + 1)]))[labels]
    return np.where(norm > strength, row * (1 - strength / np.where(norm > 0, norm, 1)), 0)


# The two-sided loss of a strong group penalty: p_g is a difference of norms as large as the strength.
OPERATORS = {
    "softmax": Operator(softmax, lambda *_: (), lambda row, _: exact_rows.entmax(row, 1.0)),
    "sparsemax": Operator(sparsemax, lambda *_: (), lambda row, _: exact_rows.project_simplex(_numbers(row))),
    "hardmax": Operator(hardmax, lambda *_: (), _first_largest),
    "entmax": Operator(
        entmax,
        _alpha,
        lambda row, _, alpha: exact_rows.entmax(row, alpha),
        loss=lambda alpha: 1.0 if alpha <= 2 else 1e16 ** (1 - 1 / (alpha - 1)),
    ),
    "sqpnormmax": Operator(
        sqpnormmax,
        lambda draw, _: (float(draw.choice([1.5, 2.0, draw.uniform(1.1, 2), 1.1])),),
        lambda row, _, p: multiplier.sqpnormmax(row, p),
    ),
    "normmax": Operator(
        normmax,
        lambda draw, _: (float(draw.choice([2.0, draw.uniform(1.01, 2), draw.uniform(2, 10), 3.0])),),
        lambda row, _, alpha: multiplier.normmax(row, alpha),
        loss=lambda alpha: 1.0 if alpha <= 2 else 1e16 ** (1 - 1 / (alpha - 1)),
    ),
    "fusedmax": Operator(
        fusedmax,
        lambda draw, _: (_strength(draw),),
        lambda row, _, strength: exact_rows.fusedmax(_numbers(row), _number(strength, row)),
        loss=lambda strength: 1 + strength,
    ),
    "oscarmax": Operator(
        oscarmax,
        lambda draw, columns: (_strength(draw) / draw.choice([1, columns]) if draw.integers(3) else None,),
        lambda row, _, strength: exact_rows.oscarmax(
            _numbers(row), _number(min(0.01, 1 / len(row)) if strength is None else float(strength), row)
        ),
        loss=lambda strength: 1 + (strength or 0),
    ),
    "groupmax": Operator(
        groupmax,
        _groups,
        lambda row, kept, groups, strength: multiplier.groupmax(row, groups.numpy()[kept], strength),
        loss=lambda groups, strength: 1 + strength,
    ),
    "prox_tv1d": Operator(
        prox_tv1d,
        lambda draw, _: (_strength(draw),),
        lambda row, _, strength: exact_rows.total_variation(_numbers(row), _number(strength, row)),
        simplex=False,
    ),
    "isotonic": Operator(isotonic, lambda *_: (), lambda row, _: exact_rows.isotonic(_numbers(row)), simplex=False),
    "prox_owl": Operator(
        prox_owl,
        _owl_weights,
        lambda row, _, weights: exact_rows.prox_owl(_numbers(row), [_number(float(w), row) for w in weights]),
        simplex=False,
    ),
    "prox_group": Operator(prox_group, _groups, _prox_group, simplex=False),
}


def _expected(operator: Operator, row: np.ndarray, parameters: tuple) -> np.ndarray:
    """The solution of one row, in double; NaN where the row has none."""
    kept = np.flatnonzero(row > -np.inf) if operator.simplex else np.arange(len(row))
    out = np.zeros(len(row))
    if np.isnan(row).any() or np.isposinf(row).any() or np.isneginf(row[kept]).any():
        return out + np.nan
    if len(kept):
        out[kept] = np.array(operator.oracle(row[kept], kept, *parameters), dtype=np.float64)
    return out


# ---------------------------------------------------------------- one case


@contextlib.contextmanager
def _running(how: str) -> Iterator[None]:
    """The reference kernels, or the native ones for an instruction set."""
    native = routing.native
    before = native.arch() if native is not None else None
    try:
        if how == "reference":
            routing.native = None
        elif native is not None:
            native.use_arch(how)
        yield
    finally:
        routing.native = native
        if native is not None:
            native.use_arch(before)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _solve(operator: Operator, x: Tensor, parameters: tuple) -> Tensor:
    found = operator.kernel(
        x, *(p.to(x.dtype) if isinstance(p, Tensor) and p.is_floating_point() else p for p in parameters)
    )
    return found[0] if isinstance(found, tuple) else found


def _laid_out(x: Tensor, layout: int) -> Tensor:
    """The same rows in other memory: as columns, every other element, or as they are."""
    if layout == 1:
        return x.t().contiguous().t()
    if layout == 2:
        return torch.stack((x, x), -1)[..., 0]
    return x


def _check(how: str, name: str, x: Tensor, expected: np.ndarray, parameters: tuple, layout: int) -> str | None:
    """What is wrong with this operator on these rows, or nothing."""
    operator, unit = OPERATORS[name], torch.finfo(x.dtype).eps
    weights = _solve(operator, _laid_out(x, layout), parameters)
    found = weights.double().numpy()
    if (np.isnan(found) != np.isnan(expected)).any():
        row = int((np.isnan(found) != np.isnan(expected)).any(-1).argmax())
        return f"row {row}: NaN in {np.isnan(found[row]).sum()} places, expected in {np.isnan(expected[row]).sum()}"
    scale = 1.0 if operator.simplex else _scale_of(x)
    bound = min(64 * unit * operator.loss(*parameters), 0.1 if unit > 1e-10 else 1e-3)
    if name == "entmax" and parameters[0] > 2:
        bound = max(bound, 1e-3)
    error = np.nan_to_num(np.abs(found - expected) / scale)
    if error.max() > bound:
        row = int(error.max(-1).argmax())
        return f"row {row}: weights off by {error.max():.2g}, allowed {bound:.2g}"
    if how != "reference":
        with _threads(1):
            alone = _solve(operator, x, parameters)
        if not torch.equal(alone.nan_to_num(7), weights.nan_to_num(7)):
            return "bits depend on the threads or on the layout"
        row = len(x) // 2
        one = _solve(operator, x[row : row + 1].clone(), parameters)
        if not torch.equal(one[0].nan_to_num(7), weights[row].nan_to_num(7)):
            return f"bits of row {row} depend on its neighbours"
    return None


def _scale_of(x: Tensor) -> np.ndarray:
    """The size of each row, in units of which proximal operators are compared: at least that of the normal numbers."""
    size = np.abs(x.double().nan_to_num(0, 0, 0).numpy()).max(-1, keepdims=True)
    return np.maximum(size, torch.finfo(x.dtype).tiny / torch.finfo(x.dtype).eps)


def cases(seed: int, number: int = 0) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Endless, from a case on: its description, and the check, which says what is wrong."""
    hows = ["reference"] if routing.native is None else [*routing.native.supported_archs(), "reference"]
    while True:
        draw = np.random.default_rng((seed, number))
        name = str(draw.choice(list(OPERATORS)))
        columns = int(draw.choice(LENGTHS)) if draw.integers(4) else int(draw.integers(1, 150))
        dtype = str(draw.choice(list(DTYPES)))
        operator, layout = OPERATORS[name], int(draw.integers(3))
        x = _scores(draw, int(draw.integers(1, 21) if columns <= 64 else draw.integers(1, 4)), columns, DTYPES[dtype])
        if not operator.simplex and dtype == "float64":
            x = torch.where(x.abs() < np.inf, x.clamp(-1e300, 1e300), x)  # sums of larger numbers are not finite
        parameters = operator.draw(draw, columns)
        expected = np.stack([_expected(operator, row, parameters) for row in x.numpy()])
        shown = ", ".join("default" if p is None else f"{p:.17g}" for p in parameters if not isinstance(p, Tensor))
        for how in hows:
            text = f"case {number}: {name}({shown}) {how} {dtype} {tuple(x.shape)} layout {layout}"

            def check(how: str = how, name: str = name, x: Tensor = x) -> str | None:
                with _running(how):
                    return _check(how, name, x, expected, parameters, layout)  # noqa: B023

            yield text, check
        number += 1


def fuzz(seed: int, seconds: float) -> list[str]:
    """Runs cases for the given time and returns the failures."""
    global n_cases
    end, failures = time.monotonic() + seconds, []
    with _threads(2):
        for text, check in cases(seed):
            if time.monotonic() > end:
                return failures
            n_cases += 1
            wrong = check()
            if wrong is not None:
                number = text.split(":")[0].removeprefix("case ")
                failures.append(f"{text}: {wrong} (again: cases({seed}, {number}) in tests/fuzz/rows.py)")
    return failures
