"""`compat.torchcrf` against sums over all sequences, and against pytorch-crf where it is installed."""

import itertools
import math

import pytest
import torch

from omegamax.compat.torchcrf import CRF


def make(n_tags=3, batch_first=False, seed=0):
    crf = CRF(n_tags, batch_first).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in crf.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return crf


def score(crf, emissions, tags):
    """The score of one sequence: emissions (n, C), tags a list."""
    total = crf.start_transitions[tags[0]] + crf.end_transitions[tags[-1]]
    total = total + sum(emissions[n, tag] for n, tag in enumerate(tags))
    return total + sum(crf.transitions[a, b] for a, b in itertools.pairwise(tags))


def log_likelihood(crf, emissions, tags):
    every = itertools.product(range(crf.num_tags), repeat=len(tags))
    return score(crf, emissions, tags) - torch.stack([score(crf, emissions, each) for each in every]).logsumexp(0)


def batch(n=4, items=2, n_tags=3):
    generator = torch.Generator().manual_seed(1)
    emissions = torch.randn(n, items, n_tags, generator=generator, dtype=torch.double)
    return emissions, torch.randint(n_tags, (n, items), generator=generator)


def test_initialisation_and_repr():
    crf = CRF(5)
    assert {name: tuple(p.shape) for name, p in crf.named_parameters()} == {
        "start_transitions": (5,),
        "end_transitions": (5,),
        "transitions": (5, 5),
    }
    assert all(p.abs().max() <= 0.1 for p in crf.parameters()) and repr(crf) == "CRF(num_tags=5)"
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match="num_tags must be a positive int"):
            CRF(wrong)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_log_likelihood_is_that_of_enumeration(n):
    crf, (emissions, tags) = make(), batch(n)
    expected = torch.stack([log_likelihood(crf, emissions[:, b], tags[:, b].tolist()) for b in range(2)])
    torch.testing.assert_close(crf(emissions, tags, reduction="none"), expected)
    torch.testing.assert_close(crf(emissions, tags), expected.sum())
    torch.testing.assert_close(crf(emissions, tags, reduction="mean"), expected.mean())
    torch.testing.assert_close(crf(emissions, tags, reduction="token_mean"), expected.sum() / (2 * n))


def test_batch_first_is_the_same():
    crf, (emissions, tags) = make(), batch()
    other = make(batch_first=True)
    torch.testing.assert_close(other(emissions.transpose(0, 1), tags.T), crf(emissions, tags))
    assert other.decode(emissions.transpose(0, 1)) == crf.decode(emissions)


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8])
def test_masked_positions_are_removed(kind):
    crf, (emissions, tags) = make(), batch(5, 4)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 1, 0, 0]], dtype=kind).T
    expected, best = [], []
    for b in range(4):
        kept = mask[:, b] != 0
        expected.append(log_likelihood(crf, emissions[kept, b], tags[kept, b].tolist()))
        every = list(itertools.product(range(3), repeat=int(kept.sum())))
        best.append(list(max(every, key=lambda each: score(crf, emissions[kept, b], each))))
    tags[mask == 0] = -100
    found = crf(emissions, tags, mask, reduction="none")
    torch.testing.assert_close(found, torch.stack(expected))
    torch.testing.assert_close(crf(emissions, tags, mask, "token_mean"), found.sum() / int((mask != 0).sum()))
    assert crf.decode(emissions, mask) == best


def test_an_empty_sequence_has_probability_one():
    crf, (emissions, tags) = make(), batch()
    emissions[:, 1] = torch.nan
    mask = torch.tensor([[True, False]] * 4)
    found = crf(emissions.requires_grad_(), tags, mask, reduction="none")
    assert found[1] == 0 and found[0] < 0
    (grad,) = torch.autograd.grad(found.sum(), emissions)
    assert (grad[:, 1] == 0).all() and grad.isfinite().all()
    assert crf.decode(emissions, mask)[1] == []


def test_it_learns_and_differentiates_twice():
    crf, (emissions, tags) = make(), batch(3)
    assert torch.autograd.gradcheck(lambda e: crf(e, tags), (emissions.requires_grad_(),))
    assert torch.autograd.gradgradcheck(lambda e: crf(e, tags), (emissions,))
    before = crf(emissions, tags).item()
    optimizer = torch.optim.SGD(crf.parameters(), 0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (-crf(emissions, tags)).backward()
        optimizer.step()
    assert crf(emissions, tags).item() > before


def test_wrong_shapes_say_what_to_do():
    crf, (emissions, tags) = make(), batch()
    with pytest.raises(ValueError, match=r"emissions must be \(N, batch, 3\)"):
        crf(emissions[0], tags)
    with pytest.raises(ValueError, match=r"emissions must be \(N, batch, 3\), got \(4, 2, 2\)"):
        crf.decode(emissions[..., :2])
    with pytest.raises(ValueError, match="tags must have the shape"):
        crf(emissions, tags[1:])
    with pytest.raises(ValueError, match="mask must have the shape"):
        crf(emissions, tags, torch.ones(4, 3))
    with pytest.raises(ValueError, match="reduction must be one of"):
        crf(emissions, tags, reduction="median")


def test_against_the_package():
    theirs = pytest.importorskip("torchcrf").CRF(3).double()
    crf, (emissions, tags) = make(), batch(6, 3)
    theirs.load_state_dict(crf.state_dict())
    mask = torch.arange(6).unsqueeze(-1) < torch.tensor([6, 4, 1])
    for reduction in ("none", "sum", "mean", "token_mean"):
        torch.testing.assert_close(crf(emissions, tags, mask, reduction), theirs(emissions, tags, mask, reduction))
    assert crf.decode(emissions, mask) == theirs.decode(emissions, mask)
    holes = torch.tensor([[1], [0], [1]], dtype=torch.bool)  # the package counts some sequences twice, others never
    every = [torch.tensor(each).unsqueeze(-1) for each in itertools.product(range(3), repeat=3) if each[1] == 0]
    totals = [
        torch.stack([layer(emissions[:3, :1], each, holes) for each in every]).exp().sum().item()
        for layer in (crf, theirs)
    ]
    assert math.isclose(totals[0], 1, abs_tol=1e-9) and not math.isclose(totals[1], 1, abs_tol=1e-3)
