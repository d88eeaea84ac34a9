"""Structures with adversarial scores: every row of the tests' tables against lists of all members and plain recursions.

A case takes a structure of the table, random lengths, scores with large scales, offsets, −inf, masks and NaN, a type,
an Ω, and the compiled or the PyTorch kernels. The members are listed from their definition and scored with exact sums;
the recursion is the textbook's. All methods of the structure are compared with these.

    python tests/fuzz/run.py structures --seed 0 --seconds 60

`try_case(seed, number)` runs one case again.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from structure_cases import CASES, ORACLE_CASES, OracleCase, StructureCase, like, parts_of

import omegamax as om
from omegamax import routing

tried = n_cases = 0

OMEGAS: list[Any] = [
    om.Hard(),
    om.Shannon(),
    om.Shannon(),
    om.SquaredNorm(),
    om.Tsallis(1.5),
    om.Tsallis(1.2),
    om.SquaredPNorm(1.5),
    om.NormEntropy(2.0),
    om.Scaled(om.Shannon(), 0.3),
    om.Scaled(om.SquaredNorm(), 3.0),
]
SCALES = [0.0, 1e-3, 1.0, 1.0, 10.0, 1e3]
OFFSETS = [0.0, 0.0, 1e4, -4.2e7, 1e9]
DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16]
N_BEST = 3


class Item(NamedTuple):
    """One item of a case: its scores as float64 numbers, and what they say about every member."""

    parts: tuple[np.ndarray, ...]
    lengths: tuple[int, ...]
    members: list[tuple[np.ndarray, ...]]  # those that use no part of score −inf
    scores: np.ndarray  # of these


class Case(NamedTuple):
    """A structure with its potentials, as drawn."""

    row: StructureCase | OracleCase
    potentials: Any
    options: dict[str, Any]
    items: list[Item]
    spoiled: int | None  # the item that holds a NaN
    omega: Any
    dtype: torch.dtype
    native: bool
    largest: float  # size of a finite score

    def __str__(self) -> str:
        kernels = "native" if self.native else "reference"
        return f"{self.row.name}, {self.omega}, {self.dtype}, {kernels}, scores up to {self.largest:.3g}"


def fuzz(seed: int, seconds: float) -> list[str]:
    """Tries cases for about that many seconds; one string per failure."""
    global tried, n_cases
    tried = n_cases = 0
    failures: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        failures += try_case(seed, tried)
        tried = n_cases = tried + 1
    return failures


def try_case(seed: int, number: int) -> list[str]:
    """The failures of one case."""
    rng = np.random.default_rng([seed, number])
    case = _draw(rng)
    with _kernels(case.native):
        try:
            wrong = list(_failures(case, rng))
        except Exception as error:  # a case must not end the others
            wrong = [f"raised {type(error).__name__}: {error}"]
    return [f"{each} in try_case({seed}, {number}): {case}" for each in wrong]


@contextlib.contextmanager
def _kernels(native: bool) -> Iterator[None]:
    """With the compiled kernels or without them."""
    known = routing.native
    routing.native = known if native else None
    try:
        yield
    finally:
        routing.native = known


# What is drawn.


def _draw(rng: np.random.Generator) -> Case:
    row: Any = rng.choice(np.array([*CASES, *ORACLE_CASES], dtype=object))
    dtype: torch.dtype = DTYPES[rng.integers(len(DTYPES))]
    drawn = row.draw(torch.Generator().manual_seed(int(rng.integers(2**31))), len(row.lengths))
    parts = [_disturbed(rng, part, number == 0).to(dtype) for number, part in enumerate(parts_of(drawn))]
    lengths = _lengths(rng, row)
    options: dict[str, Any] = {}
    if lengths[0]:
        axes = tuple(torch.tensor(axis) for axis in zip(*lengths))
        options["lengths"] = axes[0] if len(axes) == 1 else axes
    allowed = torch.ones_like(parts[0], dtype=torch.bool)
    if rng.random() < 0.3:
        allowed = torch.from_numpy(rng.random(parts[0].shape) < 0.85)
        options["mask"] = allowed
    exact = [torch.where(allowed, parts[0], -torch.inf), *parts[1:]]
    items = [_item(row, [part[i].double().numpy() for part in exact], lengths[i]) for i in range(len(lengths))]
    spoiled = _spoil(rng, parts, items) if rng.random() < 0.2 else None
    finite = [part[part.isfinite()].abs().double() for part in exact]
    largest = max([0.0, *(float(part.max()) for part in finite if part.numel())])
    is_program = isinstance(row, StructureCase)
    omega = OMEGAS[rng.integers(len(OMEGAS))] if is_program else om.Shannon()
    native = routing.native is not None and rng.random() < 0.6
    return Case(row, like(drawn, parts), options, items, spoiled, omega, dtype, bool(native), largest)


def _disturbed(rng: np.random.Generator, part: torch.Tensor, first: bool) -> torch.Tensor:
    """Scores at another scale, with an offset on all or on some entries, and with −inf; what is −inf stays so."""
    part = part * torch.where(part == -torch.inf, 1.0, SCALES[rng.integers(len(SCALES))])
    share = rng.choice([1.0, 0.1])
    part = part + OFFSETS[rng.integers(len(OFFSETS))] * torch.from_numpy(rng.random(part.shape) < share)
    if first and rng.random() < 0.4:
        part = torch.where(torch.from_numpy(rng.random(part.shape) < 0.15), -torch.inf, part)
    return part


def _lengths(rng: np.random.Generator, row: Any) -> list[tuple[int, ...]]:
    """Returns the lengths of the table, shuffled among the items or repeated."""
    return [row.lengths[rng.integers(len(row.lengths))] for _ in row.lengths]


def _item(row: Any, parts: list[np.ndarray], lengths: tuple[int, ...]) -> Item:
    zeros = tuple(np.where(part == -np.inf, part, 0.0) for part in parts)  # members may depend on what is forbidden
    allowed = [
        y for y in row.members(zeros, *lengths) if not any((p[q != 0] == -np.inf).any() for p, q in zip(parts, y))
    ]
    return Item(tuple(parts), lengths, allowed, np.array([_score(parts, y) for y in allowed]))


def _score(parts: Any, member: Any) -> float:
    """<parts, member>, rounded once."""
    return math.fsum(float(x) for p, y in zip(parts, member) for x in (p[y != 0] * y[y != 0]).ravel())


def _spoil(rng: np.random.Generator, parts: list[torch.Tensor], items: list[Item]) -> int | None:
    """Writes a NaN where a member of an item has something; the number of the item."""
    number = int(rng.integers(len(items)))
    if not items[number].members:
        return None
    used = np.flatnonzero(items[number].members[0][0])
    if not len(used):
        return None
    parts[0] = parts[0].clone()
    parts[0][number].view(-1)[int(rng.choice(used))] = torch.nan
    return number


# What is compared.


def _failures(case: Case, rng: np.random.Generator) -> Iterator[str]:
    structure, potentials, options = case.row.structure, case.potentials, case.options
    if isinstance(structure, om.FactorGraph) and not isinstance(case.row, StructureCase):
        return  # with cycles: its relaxation is not the hull of the members
    yield from _check_map(case, structure.map(potentials, **options))
    smooth = isinstance(case.row, StructureCase) or isinstance(structure, om.Arborescence)
    if smooth:
        value = structure.max(potentials, case.omega, **options).double()
        weights = _numpy(structure.argmax(potentials, case.omega, **options))
        for number, item in enumerate(case.items):
            own = [part[number] for part in weights]
            if number == case.spoiled:
                if not value[number].isnan() or not any(np.isnan(part).any() for part in own):
                    yield f"item {number}: a NaN score gives the value {float(value[number])}"
                continue
            yield from _check_smoothed(case, number, item, float(value[number]), own)
        yield from _check_samples(case, int(rng.integers(2**31)))
    if isinstance(case.row, StructureCase):
        yield from _check_lists(case)
        if case.dtype is torch.float64 and case.spoiled is None:
            yield from _check_hessian(case)
    moderate = case.dtype is torch.float64 and case.largest < 1e3 and not isinstance(structure, om.FactorGraph)
    if moderate and rng.random() < 0.5:
        yield from _check_sparsemap(case)


def _tolerance(case: Case) -> float:
    """Returns how much weights may change when sums of scores are rounded once, in the type that the sweeps promise."""
    gamma = case.omega.gamma if isinstance(case.omega, om.Scaled) else 1.0
    if case.dtype is torch.bfloat16:
        return 2e-2 + 1e-6 * min(case.largest, 2e4) / gamma
    if case.dtype is torch.float32:
        return 2e-5 + 1e-6 * min(case.largest, 2e4) / gamma + 1e-14 * case.largest / gamma
    return 1e-7 + 1e-13 * case.largest / gamma


def _value_tolerance(case: Case) -> float:
    relative = {torch.bfloat16: 1e-2, torch.float32: 1e-6, torch.float64: 1e-12}[case.dtype]
    return _tolerance(case) + 20 * relative * max(1.0, case.largest)


def _check_map(case: Case, found: Any) -> Iterator[str]:
    arrays = _numpy(found)
    for number, item in enumerate(case.items):
        own = tuple(part[number] for part in arrays)
        if number == case.spoiled:
            if not any(np.isnan(part).any() for part in own):
                yield f"item {number}: the best structure of scores with NaN is not NaN"
        elif not item.members:
            if any(part.any() for part in own):
                yield f"item {number}: something was found where nothing is feasible"
        elif _key(own) not in {_key(y) for y in item.members}:
            yield f"item {number}: the best structure is no member"
        elif _score(item.parts, own) < item.scores.max() - _value_tolerance(case):
            yield f"item {number}: the best structure scores {_score(item.parts, own)}, another {item.scores.max()}"


def _check_smoothed(case: Case, number: int, item: Item, value: float, weights: list[np.ndarray]) -> Iterator[str]:
    if not item.members:
        if value != -math.inf or any(part.any() for part in weights):
            yield f"item {number}: nothing is feasible, but the value is {value}"
        return
    expected, expectation = _expected(case, item)
    if not abs(value - expected) <= _value_tolerance(case):
        yield f"item {number}: the value is {value}, not {expected}"
    if expectation is not None:
        error = max(float(np.abs(ours - theirs).max()) for ours, theirs in zip(weights, expectation))
        if not error <= _tolerance(case) * max(1.0, max(float(part.max()) for part in expectation)):
            yield f"item {number}: the weights are off by {error:.3g}"


def _expected(case: Case, item: Item) -> tuple[float, list[np.ndarray] | None]:
    """The value, and under Shannon the expected member: from the list there, from the recursion elsewhere."""
    omega, gamma = (case.omega.inner, case.omega.gamma) if isinstance(case.omega, om.Scaled) else (case.omega, 1.0)
    if isinstance(omega, om.Shannon):
        top = item.scores.max()
        powers = np.exp((item.scores - top) / gamma)
        mean = [np.tensordot(powers / powers.sum(), np.stack(each), 1) for each in zip(*item.members)]
        return top + gamma * math.log(math.fsum(powers)), mean

    def smooth_max(numbers: Any) -> float:
        row = torch.tensor(numbers, dtype=torch.float64)
        return float(case.omega.max(row)) if len(numbers) else -math.inf

    return case.row.recursion(smooth_max, item.parts, *item.lengths), None


def _check_samples(case: Case, seed: int) -> Iterator[str]:
    structure = case.row.structure
    generator = torch.Generator().manual_seed(seed)
    drawn = structure.sample(case.potentials, case.omega, n_samples=2, generator=generator, **case.options)
    for number, item in enumerate(case.items):
        for sample in range(2):
            own = tuple(part[sample, number] for part in _numpy(drawn))
            if number == case.spoiled:
                if not any(np.isnan(part).any() for part in own):
                    yield f"item {number}: a sample of scores with NaN is not NaN"
            elif item.members and _key(own) not in {_key(y) for y in item.members}:
                yield f"item {number}: a sample is no member"


def _check_lists(case: Case) -> Iterator[str]:
    structure, potentials, options = case.row.structure, case.potentials, case.options
    best = structure.topk(potentials, N_BEST, **options)
    support = structure.support(potentials, case.omega, limit=1000, **options)
    counts = structure.count(potentials, **options)
    weights = _numpy(structure.argmax(potentials, case.omega, **options))
    listed, probabilities = _numpy(support.structures), support.probabilities.double().numpy()
    for number, item in enumerate(case.items):
        scores = best.scores[number].double().numpy()
        if number == case.spoiled:
            if not (np.isnan(scores).all() and np.isnan(probabilities[number]).all()):
                yield f"item {number}: lists of scores with NaN are not NaN"
            continue
        if counts[number] != len(item.members):
            yield f"item {number}: {counts[number]} structures were counted, not {len(item.members)}"
        expected = np.full(N_BEST, -np.inf)
        expected[: min(N_BEST, len(item.scores))] = np.sort(item.scores)[::-1][:N_BEST]
        with np.errstate(invalid="ignore"):
            off = np.where(expected == scores, 0.0, np.abs(expected - scores))
        if not off.max() <= _value_tolerance(case):
            yield f"item {number}: the best scores are {scores}, not {expected}"
        if item.members:
            total = math.fsum(probabilities[number])
            mean = [np.tensordot(probabilities[number], part[number], 1) for part in listed]
            error = max(float(np.abs(ours - part[number]).max()) for ours, part in zip(mean, weights))
            size = max(1.0, *(float(part[number].max()) for part in weights))
            if abs(total - 1) > 1e-2 or not error <= _tolerance(case) * size + 1e-5:
                yield f"item {number}: the support has probability {total}, and a mean that is off by {error:.3g}"
    yield from _check_log_prob(case)


def _check_log_prob(case: Case) -> Iterator[str]:
    """Checks the best members, under Shannon, where no two derivations have the same parts."""
    if not isinstance(case.omega, om.Shannon) or case.spoiled is not None or any(not i.members for i in case.items):
        return
    if any(max(Counter(map(_key, item.members)).values()) > 1 for item in case.items):
        return
    best = case.row.structure.map(case.potentials, **case.options)
    found = case.row.structure.log_prob(case.potentials, best, case.omega, **case.options).double()
    for number, item in enumerate(case.items):
        score = _score(item.parts, [part[number] for part in _numpy(best)])
        expected = score - _expected(case, item)[0]
        if not abs(float(found[number]) - expected) <= _value_tolerance(case) + 0.01 * abs(expected):
            yield f"item {number}: log_prob is {float(found[number])}, not {expected}"


def _check_hessian(case: Case) -> Iterator[str]:
    """Products with the Hessian are symmetric."""
    leaves = [part.clone().requires_grad_() for part in parts_of(case.potentials)]
    weights = parts_of(case.row.structure.argmax(like(case.potentials, leaves), case.omega, **case.options))
    if not any(part.requires_grad for part in weights):
        return
    generator = torch.Generator().manual_seed(0)
    u, v = ([torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in leaves] for _ in range(2))
    products = []
    for one, other in ((u, v), (v, u)):
        moved = torch.autograd.grad(weights, leaves, one, retain_graph=True, allow_unused=True)
        products.append(sum(float((d * o).sum()) for d, o in zip(moved, other) if d is not None))
    if not abs(products[0] - products[1]) <= 1e-6 * max(1.0, abs(products[0])) + 1e-12 * case.largest:
        yield f"the Hessian is not symmetric: {products[0]} and {products[1]}"


def _check_sparsemap(case: Case) -> Iterator[str]:
    """No member is better than the mean at the scores minus the mean."""
    structure = case.row.structure
    found = structure.sparsemap(case.potentials, **case.options)
    arrays = _numpy(found.marginals)
    for number, item in enumerate(case.items):
        own = [part[number] for part in arrays]
        if number == case.spoiled or not item.members:
            continue
        n = structure.n_regularized
        regularized = len(own) if n is None else n
        g = [p - (m if i < regularized else 0) for i, (p, m) in enumerate(zip(item.parts, own))]
        gap = max(_score(g, y) for y in item.members) - _score(g, own)
        if not gap <= 1e-7 * max(1.0, case.largest) ** 2:
            yield f"item {number}: the gap of SparseMAP is {gap:.3g}"


def _numpy(structures: Any) -> list[np.ndarray]:
    return [part.detach().double().numpy() for part in parts_of(structures)]


def _key(parts: Any) -> bytes:
    return b"".join(np.asarray(part, dtype=np.float64).tobytes() for part in parts)
