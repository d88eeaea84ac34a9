"""Non-projective trees: MAP, matrix-tree sums at any scale, derivatives, samples; against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from structure_cases.laws import dot, members
from structure_cases.non_projective import CASES, drawn, expected
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

trees = pytest.mark.parametrize("case", CASES, ids=str)
SCALES = [1.0, 10.0, 300.0, 1000.0, 1e4]


def product(case, potentials, direction):
    leaf = potentials.clone().requires_grad_()
    marginals = case.structure.argmax(leaf, **case.options())
    return torch.autograd.grad(marginals, leaf, direction)[0]


@trees
def test_counts(case):
    for item, lengths in enumerate(case.lengths):
        found = len(members(case, case.potentials(), item))
        assert found == case.n_members(*lengths)
        value = case.structure.max(torch.zeros_like(case.potentials()), **case.options())[item]
        assert value.exp().item() == pytest.approx(found)


@trees
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("forbidden", [0.0, 0.3, 0.6])
@pytest.mark.thinned(3)
def test_everything_at_any_scale(case, scale, forbidden, backend):
    for seed in range(3):
        potentials = drawn(case, seed, scale, forbidden)
        direction = torch.randn_like(potentials)
        value = case.structure.max(potentials, **case.options())
        marginals = case.structure.argmax(potentials, **case.options())
        hard = case.structure.max(potentials, om.Hard(), **case.options())
        best = case.structure.map(potentials, **case.options())
        along = product(case, potentials, direction)
        entropy = case.structure.entropy(potentials, **case.options())
        for item in range(len(case.lengths)):
            known = expected(case, potentials, item)
            if known is None:
                assert value[item] == -torch.inf and hard[item] == -torch.inf
                assert (marginals[item] == 0).all() and (best[item] == 0).all() and (along[item] == 0).all()
                continue
            every, p, total, scores = known
            tolerance = 2e-15 * max(scale, 10)
            assert value[item].item() == pytest.approx(total, rel=1e-14, abs=1e-13)
            np.testing.assert_allclose(marginals[item], np.tensordot(p, every, 1), rtol=0, atol=10 * tolerance)
            assert hard[item].item() == pytest.approx(scores.max(), rel=1e-13)
            assert dot((best[item].numpy(),), (potentials[item].numpy(),)) == pytest.approx(scores.max(), rel=1e-13)
            moves = np.tensordot(every, direction[item].numpy(), 2)
            covariance = np.tensordot(p * (moves - p @ moves), every, 1)
            np.testing.assert_allclose(along[item], covariance, rtol=0, atol=50 * tolerance)
            assert entropy[item].item() == pytest.approx(
                -(p[p > 0] * np.log(p[p > 0])).sum(), abs=50 * tolerance * scale
            )


@trees
@pytest.mark.parametrize("scale", [1.0, 10.0, 1000.0, 1e4])
def test_float32(case, scale, backend):
    narrow = drawn(case, 0, scale, 0.2, torch.float32)
    wide = narrow.double()
    value = case.structure.max(narrow, **case.options())
    assert value.dtype == torch.float32
    assert torch.equal(value, case.structure.max(wide, **case.options()).float())  # computed in double precision
    marginals = case.structure.argmax(narrow, **case.options())
    assert torch.equal(marginals, case.structure.argmax(wide, **case.options()).float())
    assert torch.equal(
        case.structure.map(narrow, **case.options()).double(), case.structure.map(wide, **case.options())
    )


@trees
def test_small_probabilities_keep_their_digits(case, backend):
    """A cycle that hardly any arc enters: determinants lose it, and ratios of small probabilities stay right."""
    potentials = torch.zeros_like(case.potentials())
    potentials[:, 1, 2] = potentials[:, 2, 1] = 40.0
    potentials[:, 0, 1] = -30.0
    for scale in (1.0, 20.0):
        marginals = case.structure.argmax(scale * potentials, **case.options())
        for item in range(len(case.lengths)):
            every, p, _, _ = expected(case, scale * potentials, item)
            np.testing.assert_allclose(marginals[item], np.tensordot(p, every, 1), rtol=1e-11 * scale)


@trees
@pytest.mark.thinned(2)
def test_derivatives(case, backend):
    leaf = case.potentials(1).requires_grad_()

    def value(x):
        return case.structure.max(x, **case.options())

    def marginals(x):
        return case.structure.argmax(x, **case.options())

    fast = {"fast_mode": backend == "reference"}
    assert gradcheck(value, leaf, **fast) and gradcheck(marginals, leaf, **fast) and gradgradcheck(value, leaf, **fast)
    for function in (value, marginals):
        assert gradcheck(function, leaf, check_forward_ad=True, check_backward_ad=False, **fast)
    hard = case.structure.max(leaf, om.Hard(), **case.options())
    (gradient,) = torch.autograd.grad(hard.sum(), leaf)
    assert torch.equal(gradient, case.structure.map(leaf, **case.options()))
    assert gradcheck(lambda x: case.structure.entropy(x, **case.options()), leaf, **fast)
    assert gradcheck(lambda x: case.structure.kl(x, 2 * x, **case.options()), leaf, **fast)


@trees
def test_torch_func(case, backend):
    potentials = case.potentials()
    value = lambda x: case.structure.max(x, **case.options()).sum()  # noqa: E731
    marginals = case.structure.argmax(potentials, **case.options())
    torch.testing.assert_close(torch.func.grad(value)(potentials), marginals)
    direction = torch.randn_like(potentials)
    _, along = torch.func.jvp(value, (potentials,), (direction,))
    torch.testing.assert_close(along, (marginals * direction).sum())


@trees
def test_a_third_derivative_raises(case):
    leaf = case.potentials().requires_grad_()
    weights = case.structure.argmax(leaf, **case.options())
    (first,) = torch.autograd.grad(weights.square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate once"):
        first.sum().backward()


@trees
def test_measures(case):
    first, second = case.potentials(1), case.potentials(2)
    kl = case.structure.kl(first, second, **case.options())
    gold = case.structure.map(second, **case.options())
    log_prob = case.structure.log_prob(first, gold, **case.options())
    for item in range(len(case.lengths)):
        _, p, total, _ = expected(case, first, item)
        _, q, _, _ = expected(case, second, item)
        assert kl[item].item() == pytest.approx((p * (np.log(p) - np.log(q))).sum(), abs=1e-12)
        score = dot((gold[item].numpy(),), (first[item].numpy(),))
        assert log_prob[item].item() == pytest.approx(score - total)
    assert case.structure.prob(first, gold, **case.options()).max() <= 1


@trees
def test_temperature(case):
    potentials = case.potentials()
    value = case.structure.max(potentials, om.Scaled(om.Shannon(), 0.5), **case.options())
    torch.testing.assert_close(value, 0.5 * case.structure.max(2 * potentials, **case.options()))


@trees
def test_ties_are_trees(case, backend):
    for potentials in (torch.zeros(5, 5), torch.randn(40, 5, 5).round()):
        best = case.structure.map(potentials)
        again = case.structure.map(potentials.clone())
        assert torch.equal(best, again)
        heads = case.structure.heads(best)
        assert ((heads == 0).sum(-1) == 1).all() or not case.structure.single_root
        assert torch.equal(case.structure.from_heads(heads), best)
        score = (best * potentials).sum((-1, -2))
        torch.testing.assert_close(score, case.structure.max(potentials, om.Hard()))


@trees
def test_huge_scores(case, backend):
    potentials = torch.where(case.potentials() > 0, 1e30, -1e30)
    assert torch.isfinite(case.structure.max(potentials, **case.options())).all()
    marginals = case.structure.argmax(potentials, **case.options())
    assert (marginals >= 0).all() and (marginals <= 1).all()
    best = case.structure.max(potentials, om.Hard(), **case.options())
    for item in range(len(case.lengths)):
        scores = [dot(y, (potentials[item].numpy(),)) for y in members(case, potentials, item)]
        assert best[item].item() == pytest.approx(max(scores), rel=1e-12)


@trees
def test_one_score_that_is_none(case, backend):
    clean = case.potentials()
    for wrong in (torch.nan, torch.inf):
        potentials = clean.clone()
        potentials[0, 1, 2] = wrong
        for omega in (om.Hard(), om.Shannon()):
            assert case.structure.max(potentials, omega, **case.options()).isnan().tolist() == [True, False, False]
            found = case.structure.argmax(potentials, omega, **case.options())
            assert torch.equal(found[1:], case.structure.argmax(clean, omega, **case.options())[1:])
    ignored = clean.clone()
    ignored[:, :, 0] = torch.nan
    ignored.diagonal(dim1=1, dim2=2).fill_(torch.nan)
    for omega in (om.Hard(), om.Shannon()):
        torch.testing.assert_close(
            case.structure.argmax(ignored, omega, **case.options()),
            case.structure.argmax(clean, omega, **case.options()),
        )


@trees
def test_shapes(case, backend):
    potentials = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    lengths = torch.tensor([[3, 2, 1], [1, 2, 3]])
    value = case.structure.max(potentials, lengths=lengths)
    assert value.shape == (2, 3)
    turned = potentials.transpose(-1, -2).contiguous().transpose(-1, -2)
    torch.testing.assert_close(case.structure.argmax(turned), case.structure.argmax(potentials))
    torch.testing.assert_close(case.structure.max(potentials[1, 0], lengths=lengths[1, 0]), value[1, 0])
    for dtype in (torch.float16, torch.bfloat16):
        half = case.structure.max(potentials.to(dtype))
        assert half.dtype == dtype
        torch.testing.assert_close(
            half.double(), case.structure.max(potentials.to(dtype).double()), rtol=1e-2, atol=1e-2
        )
    none = potentials[:0]
    assert case.structure.max(none).shape == (0, 3) and case.structure.map(none).shape == none.shape
    masked = case.structure.max(potentials, mask=torch.zeros(4, 4, dtype=torch.bool))
    assert (masked == -torch.inf).all()


@pytest.mark.parametrize("single_root", [True, False])
def test_one_word(single_root, backend):
    tree = om.Arborescence(single_root)
    potentials = torch.tensor([[5.0, 2.0], [7.0, 9.0]])
    assert tree.max(potentials) == 2.0 and tree.entropy(potentials) == 0
    only = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    for found in (tree.map(potentials), tree.argmax(potentials), tree.sample(potentials)[0]):
        assert torch.equal(found, only)


@given(st.integers(2, 9), st.integers(0, 10_000), st.floats(0.0, 0.8), st.booleans())
def test_projective_trees_are_no_better(n, seed, forbidden, single_root):
    """All projective trees are among them, whatever is forbidden."""
    generator = torch.Generator().manual_seed(seed)
    potentials = torch.randn(n + 1, n + 1, generator=generator, dtype=torch.float64)
    potentials[torch.rand(n + 1, n + 1, generator=generator) < forbidden] = -torch.inf
    more, fewer = om.Arborescence(single_root), om.ProjectiveTree(single_root)
    for omega in (om.Hard(), om.Shannon()):
        assert more.max(potentials, omega) >= fewer.max(potentials, omega) - 1e-9
    marginals = more.argmax(potentials)
    feasible = more.max(potentials) > -torch.inf
    assert feasible == (more.max(potentials, om.Hard()) > -torch.inf)
    torch.testing.assert_close(marginals[:, 1:].sum(0), feasible.double().expand(n))
    assert (marginals[potentials == -torch.inf] == 0).all() and (marginals >= 0).all()
    if single_root and feasible:
        assert marginals[0].sum() == pytest.approx(1)


def test_large_graphs_against_a_determinant():
    potentials = torch.randn(3, 81, 81, dtype=torch.float64)
    weights = potentials.exp()[:, 1:, 1:].clone()
    weights.diagonal(dim1=1, dim2=2).zero_()
    laplacian = torch.diag_embed(weights.sum(1)) - weights
    root = potentials[:, 0, 1:].exp()
    any_roots = torch.linalg.slogdet(laplacian + torch.diag_embed(root)).logabsdet
    torch.testing.assert_close(om.Arborescence(False).max(potentials), any_roots, rtol=1e-12, atol=0)
    laplacian[:, 0] = root  # Koo et al.
    torch.testing.assert_close(
        om.Arborescence().max(potentials), torch.linalg.slogdet(laplacian).logabsdet, rtol=1e-12, atol=0
    )


def test_sparsemap():
    tree = om.Arborescence()
    potentials = torch.randn(2, 6, 6, dtype=torch.float64)
    found = tree.sparsemap(potentials)
    assert (found.gap < 1e-9).all()
    torch.testing.assert_close(found.marginals[:, :, 1:].sum(1), torch.ones(2, 5, dtype=torch.float64))


def test_errors():
    tree = om.Arborescence()
    with pytest.raises(ValueError, match="sparsemap"):
        tree.max(torch.zeros(3, 3), om.SquaredNorm())
    with pytest.raises(ValueError, match="Shannon"):
        tree.sample(torch.zeros(3, 3), om.SquaredNorm())
    with pytest.raises(ValueError, match="room for the root and a word"):
        tree.max(torch.zeros(1, 1))
    with pytest.raises(TypeError, match="heads must be integers"):
        tree.from_heads(torch.zeros(3))
    with pytest.raises(ValueError, match="n_samples"):
        tree.sample(torch.zeros(3, 3), n_samples=0)
    for absent in ("topk", "support", "enumerate", "backpointers"):
        assert not hasattr(tree, absent)
