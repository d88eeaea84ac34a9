"""The native searches, sums and samplers of non-projective trees equal their twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.arborescences import wilson
from omegamax.inference.arborescences.matrix_tree import MatrixTreeProgram
from omegamax.kernels.structures.best_arborescence import best_heads

pytestmark = pytest.mark.skipif(routing.native is None, reason="needs the native kernels")

roots = pytest.mark.parametrize("single_root", [True, False], ids=["single root", "any roots"])
KINDS = ["normal", "whole", "constant", "half forbidden", "sparse", "×1000", "×1e30"]
kinds = pytest.mark.parametrize("kind", KINDS)


def draw(kind, batch, n):
    scores = torch.randn(batch, n + 1, n + 1, dtype=torch.float64)
    if kind in ("half forbidden", "sparse"):
        scores[torch.rand_like(scores) < (0.5 if kind == "half forbidden" else 0.8)] = -torch.inf
    scale = {"whole": 1.0, "×1000": 1e3, "×1e30": 1e30}.get(kind, 1.0)
    return scores.round() if kind == "whole" else torch.zeros_like(scores) if kind == "constant" else scale * scores


def some_lengths(n):
    return torch.tensor([n, 1, max(1, n // 2), max(1, n - 1), n, n])


def by_both(monkeypatch, run):
    found = run()
    with monkeypatch.context() as patch:
        patch.setattr(routing, "native", None)
        return found, run()


@roots
@kinds
@pytest.mark.thinned(3)
def test_the_same_best_tree(single_root, kind, arch, monkeypatch):
    tree = om.Arborescence(single_root)
    for n in (1, 2, 3, 7, 8, 9, 17, 33):
        scores, lengths = draw(kind, 6, n), some_lengths(n)

        def run():
            return tree.map(scores, lengths=lengths), tree.max(scores, om.Hard(), lengths=lengths)  # noqa: B023

        (native, value), (twin, twin_value) = by_both(monkeypatch, run)
        assert torch.equal(native, twin)
        torch.testing.assert_close(value, twin_value, rtol=1e-14, atol=1e-14)
        narrow = scores.float()
        assert torch.equal(tree.map(narrow, lengths=lengths).double(), tree.map(narrow.double(), lengths=lengths))


@roots
@kinds
@pytest.mark.slow
def test_the_same_sums(single_root, kind, arch, monkeypatch):
    tolerance = {"×1000": 1e-9, "×1e30": 1e-9}.get(kind, 1e-12)
    for n in (1, 2, 3, 7, 8, 9, 16, 23):
        scores, lengths = draw(kind, 6, n), some_lengths(n)
        native, twin = by_both(monkeypatch, sweeps(MatrixTreeProgram(single_root, lengths), scores))
        for ours, theirs in zip(native, twin):
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def sweeps(program, scores):
    direction = (torch.randn_like(scores),)

    def run():
        value, state = program.value((scores,))
        found = [program.marginals((scores,), state), program.tangent((scores,), state, direction)]
        return value, *(swept.parts[0] for swept in found)

    return run


@roots
@pytest.mark.parametrize("kind", ["normal", "half forbidden", "×1000"])
@pytest.mark.parametrize("limit", [0, 5, 10_000])
@pytest.mark.slow
def test_the_same_samples(single_root, kind, limit, arch, monkeypatch):
    """From the same numbers: walks, heads one after the other, and both."""
    monkeypatch.setattr(wilson, "max_steps", lambda size: limit)
    scores = draw(kind, 3, 6)
    lengths = torch.tensor([6, 2, 5])
    tree = om.Arborescence(single_root)

    def run():
        return tree.sample(scores, n_samples=6, generator=torch.Generator().manual_seed(1), lengths=lengths)

    native, twin = by_both(monkeypatch, run)
    assert torch.equal(native, twin)


@roots
def test_logarithms_equal_numbers(single_root, arch):
    """Where plain numbers just fit and where they just do not, the results agree: the range is the only difference."""
    for scale in (90.0, 110.0, 130.0, 150.0):
        scores = scale * torch.randn(4, 13, 13, dtype=torch.float64).clamp(-2, 2)
        tree = om.Arborescence(single_root)
        far = scores.clone()
        far[:, 1, 2] = scores[:, 1, 2].clamp(max=-5000.0)  # hopeless, and out of range: the whole item moves to logs
        near = scores.clone()
        near[:, 1, 2] = -torch.inf
        torch.testing.assert_close(tree.max(far), tree.max(near), rtol=1e-13, atol=0)
        torch.testing.assert_close(tree.argmax(far), tree.argmax(near), rtol=1e-9, atol=1e-12)


@roots
def test_the_sum_tends_to_the_best(single_root, arch):
    """Elimination has no subtraction, so it holds in the limit too: γ log Z(θ / γ) → the best score."""
    scores = torch.randn(3, 31, 31, dtype=torch.float64)
    tree = om.Arborescence(single_root)
    smooth = tree.max(scores, om.Scaled(om.Shannon(), 1e-7))
    torch.testing.assert_close(smooth, tree.max(scores, om.Hard()), rtol=0, atol=1e-5)
    torch.testing.assert_close(tree.argmax(scores, om.Scaled(om.Shannon(), 1e-7)), tree.map(scores), rtol=0, atol=1e-6)


@roots
def test_threads_do_not_matter(single_root, arch):
    scores = torch.randn(40, 20, 20)
    tree = om.Arborescence(single_root)

    def compute():
        samples = tree.sample(scores, generator=torch.Generator().manual_seed(0))
        return tree.max(scores), tree.argmax(scores), tree.map(scores), samples

    same_with_any_threads(compute, (1, 1, 3))


def test_a_tie_goes_to_the_lowest_node():
    assert best_heads(np.zeros((4, 4)), False).tolist() == [0, 0, 0]
    theta = np.zeros((4, 4))
    theta[0] = -1
    assert (
        om.Arborescence.heads(om.Arborescence().map(torch.from_numpy(theta))).tolist()
        == best_heads(theta, True).tolist()
    )
