"""Chains, trees and alignments."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from omegamax.compat import softdtw as our_softdtw
from omegamax.compat import torch_struct as our_struct
from omegamax.compat import torchcrf as our_crf
from omegamax.reproductions.upstream.case import Finding, find
from omegamax.structures import SakoeChiba, soft_dtw


def _numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def crf_holes() -> list[Finding]:
    """Three positions, the second masked: the probabilities of all tags of the two others."""
    emissions, mask = 2 * _numbers(3, 1, 2), torch.tensor([[True], [False], [True]])

    def total(kind: Any) -> float:
        with torch.random.fork_rng(devices=[]):
            layer = kind(2).double()
        for number, parameter in enumerate(layer.parameters()):
            parameter.data = _numbers(*parameter.shape, seed=number)
        found = [
            layer(emissions, torch.tensor([[a], [0], [b]]), mask).exp()
            for a, b in itertools.product(range(2), repeat=2)
        ]
        return float(torch.stack(found).sum().detach())

    def theirs() -> float:
        from torchcrf import CRF

        return total(CRF)

    return [
        find(
            "sum of all probabilities",
            "1",
            theirs,
            lambda: total(our_crf.CRF),
            lambda found: abs(found - 1) < 1e-9,
            lambda found: f"{found:.4f}",
        )
    ]


def large_scores() -> list[Finding]:
    """Two large scores, one of them that of the report, among usual ones, in float32."""
    scores = (20 * _numbers(1, 5, 5, seed=3)).float()
    scores[0, 1, 2], scores[0, 0, 1] = 807687.0625, 503211.3
    exact = float(our_struct.DependencyCRF(scores.double()).log_prob(our_struct.DependencyCRF(scores).argmax))

    def log_prob(package: Any) -> float:
        dist = package.DependencyCRF(scores.clone().requires_grad_())
        best = our_struct.DependencyCRF(scores).argmax
        return float(dist.log_prob(best).detach())

    def theirs() -> float:
        import torch_struct

        return log_prob(torch_struct)

    def right(found: float) -> bool:
        return abs(found - exact) < 1e-3

    return [find("log-probability of the best tree", _g(exact), theirs, lambda: log_prob(our_struct), right, _g)]


def semi_markov_batches() -> list[Finding]:
    """The longest item of a batch, beside itself alone."""
    scores = _numbers(2, 6, 4, 2, 2)

    def difference(package: Any) -> float:
        batch = package.SemiMarkovCRF(scores.clone(), lengths=torch.tensor([7, 3])).partition
        alone = package.SemiMarkovCRF(scores[:1].clone(), lengths=torch.tensor([7])).partition
        return float((batch[0] - alone[0]).abs().detach())

    def theirs() -> float:
        import torch_struct

        return difference(torch_struct)

    return [
        find(
            "log-partition in the batch − alone",
            "0",
            theirs,
            lambda: difference(our_struct),
            lambda found: found < 1e-9,
            _g,
        )
    ]


def matrix_tree() -> list[Finding]:
    """Two words: the trees are root → 1 → 2 and root → 2 → 1, so the sum has two terms."""
    findings = []
    for scale in (1.0, 1000.0):
        scores = (scale * torch.tensor([[[0.3, -0.9], [0.4, -1.1]]])).double()
        (first_root, first_to_second), (second_to_first, second_root) = scores[0]
        trees = torch.stack([first_root + first_to_second, second_root + second_to_first])
        exact = float(torch.logsumexp(trees, 0))

        def theirs(scores: Tensor = scores) -> float:
            import torch_struct

            return float(torch_struct.NonProjectiveDependencyCRF(scores).partition)

        def ours(scores: Tensor = scores) -> float:
            return float(our_struct.NonProjectiveDependencyCRF(scores).partition)

        def right(found: float, exact: float = exact) -> bool:
            return abs(found - exact) < 1e-9 * max(1, abs(exact))

        findings.append(find(f"log-partition, scores × {scale:g}", _g(exact), theirs, ours, right, _g))
    return findings


def soft_dtw_second_derivatives() -> list[Finding]:
    """The squared norm of the gradient, differentiated along a direction, beside finite differences."""
    x, y, direction = _numbers(1, 4, 2), _numbers(1, 5, 2, seed=1), _numbers(1, 4, 2, seed=2)

    def penalty(layer: Any, points: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(layer(points, y).sum(), points, create_graph=True)
        return grad.square().sum()

    def error(layer: Any) -> float:
        leaf = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(penalty(layer, leaf), leaf)
        step = 1e-5
        ends = [penalty(layer, (x + s * step * direction).requires_grad_()).detach() for s in (1, -1)]
        return float(abs((ends[0] - ends[1]) / (2 * step) - (grad * direction).sum()))

    def theirs() -> float:
        from tslearn.metrics import SoftDTWLossPyTorch

        return error(SoftDTWLossPyTorch(gamma=0.5))

    return [
        find(
            "error of the second derivative",
            "0",
            theirs,
            lambda: error(our_softdtw.SoftDTWLossPyTorch(gamma=0.5)),
            lambda found: found < 1e-6,
            lambda found: "below 1e-06" if found < 1e-6 else _g(found),
        )
    ]


def soft_dtw_unequal() -> list[Finding]:
    """The divergence of series of 5 and 4 points."""
    x, y = _numbers(1, 5, 1), _numbers(1, 4, 1, seed=1)
    plain = [float(soft_dtw(a, b)[0]) for a, b in ((x, y), (x, x), (y, y))]
    exact = plain[0] - (plain[1] + plain[2]) / 2

    def theirs() -> float:
        from tslearn.metrics import SoftDTWLossPyTorch

        return float(SoftDTWLossPyTorch(normalize=True)(x, y))

    def ours() -> float:
        return float(our_softdtw.SoftDTWLossPyTorch(normalize=True)(x, y))

    return [find("divergence", _g(exact), theirs, ours, lambda found: abs(found - exact) < 1e-5, _g)]


def soft_dtw_bandwidth() -> list[Finding]:
    """Series of 15 and 12 points in a band of width 1."""
    x, y = _numbers(1, 15, 5), _numbers(1, 12, 5, seed=1)

    def theirs() -> float:
        from soft_dtw_cuda import SoftDTW

        return float(SoftDTW(False, gamma=0.1, bandwidth=1)(x, y))

    def ours() -> float:
        return float(soft_dtw(x, y, 0.1, band=SakoeChiba(1))[0])

    return [find("cost", "finite", theirs, ours, lambda found: abs(found) < torch.inf, _g)]


def _g(number: float) -> str:
    return f"{number:.6g}"
