"""Hopfield memory: the published energy, descent, and exact retrieval within the margin."""

import math

import pytest
import torch

import omegamax as om
from omegamax.attention import HopfieldMemory

SUBSET = om.SparseMAP(om.Subset(2))
MEMORIES = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.NormEntropy(3.0), om.Fused(0.1), SUBSET]


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_under_shannon_it_is_the_published_formula():
    query, patterns, gamma = numbers(2, 3, 4), numbers(2, 5, 4, seed=1), 0.5
    memory = HopfieldMemory(gamma=gamma)
    scores = query @ patterns.mT / gamma
    torch.testing.assert_close(memory(query, patterns).output, scores.softmax(-1) @ patterns)
    lse = gamma * scores.logsumexp(-1)
    largest = patterns.square().sum(-1).amax(-1, keepdim=True)
    expected = -lse + query.square().sum(-1) / 2 + gamma * math.log(5) + largest / 2
    torch.testing.assert_close(memory.energy(query, patterns), expected)


@pytest.mark.parametrize("normalizer", MEMORIES, ids=lambda omega: type(omega).__name__)
def test_updates_never_raise_the_energy(normalizer):
    patterns, query = numbers(2, 6, 4, seed=2), 2 * numbers(2, 3, 4, seed=3)
    memory = HopfieldMemory(normalizer=normalizer, gamma=0.7)
    for _ in range(4):
        new = memory(query, patterns).output
        before, after = memory.energy(query, patterns), memory.energy(new, patterns)
        assert (after <= before + 1e-10).all()
        if normalizer.sums_to_one:
            assert (after >= -1e-10).all()
        query = new
    leaf = numbers(2, 3, 4, seed=4).requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(leaf, patterns).sum(), leaf)
    torch.testing.assert_close(slope, leaf - memory(leaf, patterns).output)


@pytest.mark.parametrize("normalizer", [om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(3.0), om.SquaredPNorm(1.5)])
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_retrieval_is_exact_just_inside_the_margin_and_not_outside(normalizer, gamma):
    """Queries q with <q, x_1> − <q, x_2> a little above and a little below the margin."""
    memory = HopfieldMemory(normalizer=normalizer, gamma=gamma)
    patterns = torch.eye(4, dtype=torch.double)
    for factor, exact in ((1.001, True), (0.999, False)):
        query = torch.tensor([[factor * memory.margin(), 0.0, 0.0, -1.0]], dtype=torch.double)
        found = memory(query, patterns)
        assert bool(memory.retrieves_exactly(query, patterns)) is exact
        assert bool((found.weights[0, 0] - 1).abs() < 1e-12 and (found.weights[0, 1:] == 0).all()) is exact
        assert torch.allclose(found.output, patterns[:1], atol=1e-12) is exact


@pytest.mark.parametrize("normalizer", [om.SquaredNorm(), om.Tsallis(1.5), SUBSET])
def test_the_condition_tells_which_queries_are_retrieved_in_one_step(normalizer):
    patterns, query = 2 * numbers(8, 16, seed=5), numbers(200, 16, seed=6)
    memory = HopfieldMemory(normalizer=normalizer, gamma=2.0)
    k = 2 if normalizer is SUBSET else 1
    weights = memory(query, patterns).weights
    exact = memory.retrieves_exactly(query, patterns)
    assert exact.any() and not exact.all()
    ones = ((weights > 1 - 1e-9).sum(-1) == k) & ((weights < 1e-9).sum(-1) == 8 - k)
    assert torch.equal(ones, exact)
    output = memory(query, patterns).output[exact]
    best = (query @ patterns.T).topk(k, -1).indices[exact]
    torch.testing.assert_close(output, patterns[best].sum(1))


def test_shannon_never_retrieves_exactly_and_hard_always_does():
    patterns, query = numbers(5, 4), numbers(3, 4, seed=1)
    assert HopfieldMemory().margin() == math.inf and not HopfieldMemory().retrieves_exactly(query, patterns).any()
    hard = HopfieldMemory(normalizer=om.Hard())
    assert hard.margin() == 0 and hard.retrieves_exactly(query, patterns).all()
    torch.testing.assert_close(hard(query, patterns).output, patterns[(query @ patterns.T).argmax(-1)])
    assert HopfieldMemory(normalizer=om.Scaled(om.SquaredNorm(), 0.5), gamma=2.0).margin() == 1.0
    with pytest.raises(ValueError, match="whose margin is known, got Fused"):
        HopfieldMemory(normalizer=om.Fused(0.1)).margin()


@pytest.mark.parametrize("normalizer", [om.Shannon(), om.SquaredNorm()])
def test_masked_patterns_are_removed(normalizer):
    memory = HopfieldMemory(normalizer=normalizer, gamma=0.5, n_steps=3)
    query, patterns = numbers(2, 3, 4), numbers(2, 5, 4, seed=1)
    dirty = patterns.clone()
    dirty[1, 3:] = torch.nan
    lengths = torch.tensor([5, 3])
    found, energy = memory(query, dirty, lengths=lengths), memory.energy(query, dirty, lengths=lengths)
    alone = memory(query[1:], patterns[1:, :3])
    torch.testing.assert_close(found.output[1:], alone.output)
    torch.testing.assert_close(energy[1:], memory.energy(query[1:], patterns[1:, :3]))
    none = torch.tensor([True, False]).reshape(2, 1, 1)
    assert (memory(query, patterns, mask=none).output[1] == 0).all()
    assert (memory.energy(query, patterns, mask=none)[1] == torch.inf).all()
    exact = memory.retrieves_exactly(query, patterns, mask=none)
    assert not exact[1].any()


def test_values_are_read_at_the_end_and_everything_differentiates():
    memory = HopfieldMemory(normalizer=om.Tsallis(1.5), gamma=0.8, n_steps=2)
    query, patterns, values = numbers(1, 2, 3), numbers(1, 4, 3, seed=1), numbers(1, 4, 2, seed=2)
    twice = HopfieldMemory(normalizer=om.Tsallis(1.5), gamma=0.8)
    step = twice(query, patterns).output
    torch.testing.assert_close(memory(query, patterns, values).output, twice(step, patterns, values).output)
    leaves = [each.requires_grad_() for each in (query, patterns, values)]
    assert torch.autograd.gradcheck(lambda *given: memory(*given).output, leaves)


def test_wrong_normalizers_say_what_to_do():
    with pytest.raises(ValueError, match="must be a SmoothMax on the patterns of one query"):
        HopfieldMemory(normalizer=om.Sinkhorn())
    with pytest.raises(ValueError, match="n_steps"):
        HopfieldMemory(n_steps=0)
    with pytest.raises(ValueError, match="gamma must be a number, got a Tensor"):
        HopfieldMemory(normalizer=om.SquaredNorm(), gamma=torch.tensor(1.0)).margin()
