"""Claims about time: ratios measured on this machine, now. No test depends on them."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_least, at_most
from omegamax.reproductions.numerical_checks import normal, seeded

_OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "sparsemax": om.sparsemax,
    "fusedmax": om.fusedmax,
    "oscarmax": om.oscarmax,
}
_NORMALIZERS: dict[str, om.SmoothMax] = {
    "softmax": om.Shannon(),
    "sparsemax": om.SquaredNorm(),
    "fusedmax": om.Fused(),
    "oscarmax": om.Oscar(),
    "sq-pnorm-max": om.SquaredPNorm(),
}


def of_operators(published: Published) -> Outcome:
    """Compares rows of 1024 and of 4096 scores: time n log n gives a ratio of 4.8, time n one of 4."""
    rows = []
    for name, operator in _OPERATORS.items():
        ratio = _forward(operator, 4096) / _forward(operator, 1024)
        rows.append(at_most(f"{name}: forward, 4096 scores over 1024", 4.8, ratio, 2.0))
    for name, operator in _OPERATORS.items():
        ratio = _backward(operator, 4096) / _backward(operator, 1024)
        rows.append(at_most(f"{name}: backward, 4096 scores over 1024", 4.0, ratio, 2.0))
    return Outcome(rows)


def _forward(operator: Callable[[Tensor], Tensor], n: int) -> float:
    scores = normal(64, n).float()
    return _seconds(lambda: operator(scores), 9)


def _backward(operator: Callable[[Tensor], Tensor], n: int) -> float:
    scores, direction = normal(64, n).float().requires_grad_(), normal(64, n, seed=1).float()
    weights = operator(scores)
    return _seconds(lambda: torch.autograd.grad(weights, scores, direction, retain_graph=True), 9)


def of_training(published: Published) -> Outcome:
    """Compares tokens per second of a small encoder–decoder under each attention with those under softmax."""
    times = {name: _training_step(normalizer) for name, normalizer in _NORMALIZERS.items()}
    dense, least = times.pop("softmax"), next(iter(published.values()))
    rows = [at_least(f"tokens per second, {name} over softmax", least, dense / taken) for name, taken in times.items()]
    return Outcome(rows)


def _training_step(normalizer: om.SmoothMax) -> float:
    """Times forward and backward passes: 16 sentences of 30 words, LSTMs of size 128, global attention."""
    with seeded():
        encoder, decoder = (nn.LSTM(128, 128, batch_first=True) for _ in range(2))
    attention = om.Attention(om.DotProduct(), normalizer=normalizer)
    source, target = normal(16, 30, 128).float(), normal(16, 30, 128, seed=1).float()
    parameters = [*encoder.parameters(), *decoder.parameters()]

    def step() -> None:
        states, last = encoder(source)
        queries, _ = decoder(target, last)
        torch.autograd.grad((attention(queries, states).output + queries).square().mean(), parameters)

    return _seconds(step, 7)


def of_programs(published: Published) -> Outcome:
    """Compares chains of 400 and of 1600 positions: the times of DP_Ω and its gradient grow as that of DP does."""
    rows = []
    smooth: dict[str, om.SmoothMax] = {"hard": om.Hard(), "entropy": om.Shannon(), "squared norm": om.SquaredNorm()}
    for name, omega in smooth.items():
        value, path = ([_program(method, omega, n) for n in (400, 1600)] for method in (om.Chain.max, om.Chain.argmax))
        rows.append(at_most(f"{name}: value, 1600 positions over 400", 4, value[1] / value[0], 2.0))
        rows.append(at_most(f"{name}: expected path, 1600 positions over 400", 4, path[1] / path[0], 2.0))
        rows.append(at_most(f"{name}: expected path over value (a constant)", 10, path[1] / value[1], 0.0))
    return Outcome(rows)


def _program(method: Callable[..., Tensor], omega: om.SmoothMax, n: int) -> float:
    potentials = normal(8, n, 10, 10)
    return _seconds(lambda: method(om.Chain(), potentials, omega))


def _seconds(function: Callable[[], object], runs: int = 5) -> float:
    """Returns the least time of several runs, after one that does not count: other work only makes a run longer."""
    function()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return min(taken)
