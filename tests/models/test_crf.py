"""The CRF layer against enumeration of all tag sequences, one sequence at a time and without masks."""

import itertools

import pytest
import torch

import omegamax as om

N_TAGS = 3


def made(allowed=None, regularizer=None, dtype=torch.float64):
    torch.manual_seed(3)
    crf = om.CRF(N_TAGS, allowed=allowed, **({} if regularizer is None else {"regularizer": regularizer}))
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf.to(dtype)


def scores_of_all(crf, emissions, allowed=None):
    """Every sequence of tags and its score, by the definition."""
    paths = list(itertools.product(range(N_TAGS), repeat=len(emissions)))
    found = []
    for path in paths:
        score = crf.start[path[0]] + crf.end[path[-1]] + sum(emissions[n, tag] for n, tag in enumerate(path))
        score = score + sum(crf.transitions[pair] for pair in itertools.pairwise(path))
        if allowed is not None:
            fine = allowed.start[path[0]] and allowed.end[path[-1]]
            fine = fine and all(allowed.transitions[pair] for pair in itertools.pairwise(path))
            score = score if fine else score - torch.inf
        found.append(score)
    return paths, torch.stack(found)


ALLOWED = om.allowed_transitions(["O", "B-x", "I-x"], "BIO")
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)  # with holes, and empty
TAGS = torch.tensor([[0, 1, 2, 0], [1, 2, -100, -100], [-100, 0, -100, 1], [-100] * 4])


@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["free", "BIO"])
def test_everything_against_enumeration(allowed):
    crf, emissions = made(allowed), torch.randn(4, 4, N_TAGS, dtype=torch.float64, requires_grad=True)
    losses = crf.loss(emissions, TAGS, mask=MASK, reduction="none")
    log_probs, decoded = crf.log_prob(emissions, TAGS, mask=MASK), crf.decode(emissions, mask=MASK)
    marginals = crf.marginals(emissions, mask=MASK)
    assert not marginals[~MASK].any() and (decoded[~MASK] == -1).all()
    for item in range(3):
        there = MASK[item]
        paths, scores = scores_of_all(crf, emissions[item][there], allowed)
        probabilities = scores.softmax(0)
        gold = paths.index(tuple(TAGS[item][there].tolist()))
        torch.testing.assert_close(losses[item], scores.logsumexp(0) - scores[gold])
        torch.testing.assert_close(log_probs[item], probabilities[gold].log())
        assert tuple(decoded[item][there].tolist()) == paths[int(scores.argmax())]
        hot = torch.nn.functional.one_hot(torch.tensor(paths), N_TAGS).double()
        torch.testing.assert_close(marginals[item][there], torch.einsum("p,pnc->nc", probabilities, hot))
    assert losses[3] == log_probs[3] == 0
    torch.testing.assert_close(crf.loss(emissions, TAGS, mask=MASK), losses.mean())
    torch.testing.assert_close(crf.loss(emissions, TAGS, mask=MASK, reduction="sum"), losses.sum())
    losses.sum().backward()
    assert not emissions.grad[~MASK].any() and emissions.grad.isfinite().all()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in crf.parameters())


def test_what_is_masked_may_be_anything():
    crf, emissions = made(), torch.randn(4, 4, N_TAGS, dtype=torch.float64)
    expected = crf.loss(emissions, TAGS, mask=MASK)
    dirty = emissions.masked_fill(~MASK.unsqueeze(-1), torch.nan).requires_grad_()
    found = crf.loss(dirty, TAGS, mask=MASK)
    assert torch.equal(found, expected)
    found.backward()
    assert dirty.grad.isfinite().all()


@pytest.mark.parametrize("lengths", [[4, 2], torch.tensor([4, 2]), torch.tensor([4, 2], dtype=torch.int32)], ids=str)
def test_lengths_are_a_mask(lengths):
    crf, emissions = made(), torch.randn(2, 4, N_TAGS, dtype=torch.float64)
    for method in (crf.decode, crf.marginals):
        assert torch.equal(method(emissions, lengths=lengths), method(emissions, mask=MASK[:2]))
    for method in (crf.loss, crf.log_prob):
        assert torch.equal(method(emissions, TAGS[:2], lengths=lengths), method(emissions, TAGS[:2], mask=MASK[:2]))


@pytest.mark.parametrize(
    "regularizer", [om.SquaredNorm(), om.Scaled(om.Tsallis(1.5), 0.5)], ids=lambda r: type(r).__name__
)
def test_any_regularizer(regularizer):
    """The loss is that of the chain; it is zero, and the marginals are the tags, once these lead by enough."""
    crf, emissions = made(regularizer=regularizer), torch.randn(2, 4, N_TAGS, dtype=torch.float64)
    chain, lengths = om.Chain(), torch.tensor([4, 2])
    potentials = chain.from_emissions(emissions, crf.transitions, crf.start, crf.end)
    gold = chain.factored_from_tags(TAGS[:2], N_TAGS, lengths=lengths, dtype=torch.float64)
    inner = sum((part * each).sum() for part, each in zip(potentials, gold))
    by_hand = chain.max(potentials, regularizer, lengths=lengths).sum() - inner
    torch.testing.assert_close(crf.loss(emissions, TAGS[:2], lengths=lengths, reduction="sum"), by_hand)
    sure = 50 * torch.nn.functional.one_hot(TAGS[:1], N_TAGS).double()
    assert crf.loss(sure, TAGS[:1]) == 0 and crf.log_prob(sure, TAGS[:1]) == 0
    assert torch.equal(crf.marginals(sure), sure / 50)


def test_gradients():
    crf, emissions = made(), torch.randn(2, 3, N_TAGS, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False, True], [True, True, True]])
    tags = torch.tensor([[0, 0, 1], [2, 1, 0]])

    def loss(emissions, transitions, start, end):
        given = {"transitions": transitions, "start": start, "end": end}
        return torch.func.functional_call(_Loss(crf, tags, mask), {f"crf.{k}": v for k, v in given.items()}, emissions)

    assert torch.autograd.gradcheck(loss, (emissions, crf.transitions, crf.start, crf.end))


class _Loss(torch.nn.Module):
    def __init__(self, crf, tags, mask):
        super().__init__()
        self.crf, self.tags, self.mask = crf, tags, mask

    def forward(self, emissions):
        return self.crf.loss(emissions, self.tags, mask=self.mask)


def test_without_a_batch_and_with_two_batch_axes():
    crf, emissions, tags = made(), torch.randn(2, 3, 4, N_TAGS, dtype=torch.float64), torch.randint(3, (2, 3, 4))
    losses = crf.loss(emissions, tags, reduction="none")
    assert losses.shape == (2, 3) and crf.decode(emissions).shape == (2, 3, 4)
    torch.testing.assert_close(crf.loss(emissions[1, 2], tags[1, 2]), losses[1, 2])
    assert torch.equal(crf.decode(emissions[0, 1], mask=torch.tensor([1, 0, 1, 1]))[1], torch.tensor(-1))


def test_autocast_gives_float32():
    crf, emissions = made(dtype=torch.float32), torch.randn(2, 4, N_TAGS).to(torch.bfloat16).requires_grad_()
    loss = crf.loss(emissions, TAGS[:2], lengths=[4, 2])
    assert loss.dtype == torch.float32
    loss.backward()
    assert emissions.grad.dtype == torch.bfloat16 and crf.transitions.grad.dtype == torch.float32


def test_it_learns_a_constraint_of_the_data():
    """Tags alternate whatever the emissions are: only transitions can learn it."""
    torch.manual_seed(0)
    crf, tags = om.CRF(2), torch.arange(6) % 2
    optimizer = torch.optim.Adam(crf.parameters(), lr=0.3)
    for _ in range(20):
        optimizer.zero_grad()
        crf.loss(torch.zeros(6, 2), tags).backward()
        optimizer.step()
    assert torch.equal(crf.decode(torch.zeros(6, 2)), tags)


def test_the_potentials_serve_the_whole_chain():
    crf, emissions = made(ALLOWED), torch.randn(4, N_TAGS, dtype=torch.float64)
    paths, scores = scores_of_all(crf, emissions, ALLOWED)
    best = om.Chain().topk(crf(emissions), 3)
    torch.testing.assert_close(best.scores, scores.topk(3).values)
    assert torch.equal(om.Chain.tags(best.structures), torch.tensor([paths[i] for i in scores.topk(3).indices]))


def test_state_and_repr():
    crf = om.CRF(3, allowed=ALLOWED, regularizer=om.SquaredNorm())
    assert set(crf.state_dict()) == {"transitions", "start", "end"}
    assert repr(crf) == "CRF(n_tags=3, regularizer=SquaredNorm(), allowed=<(3, 3)>)"


def test_what_is_refused():
    crf, emissions, tags = om.CRF(3), torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(TypeError, match=r"use crf\.loss\(emissions, tags\), which is to be minimised"):
        crf(emissions, tags)
    for wrong, said in (
        (torch.randn(2, 4, 5), r"must be \(\.\.\., N, 3\)"),
        (torch.randn(3), r"must be \(\.\.\., N, 3\)"),
    ):
        with pytest.raises(ValueError, match=said):
            crf.decode(wrong)
    with pytest.raises(ValueError, match=r"tags must have the shape \(2, 4\)"):
        crf.loss(emissions, tags[:, :3])
    with pytest.raises(TypeError, match="tags must be an integer Tensor, got torch"):
        crf.loss(emissions, tags.float())
    with pytest.raises(ValueError, match="tags must lie between 0 and 2, got 0 to 7"):
        crf.loss(emissions, tags + torch.tensor([0, 0, 0, 7]))
    with pytest.raises(ValueError, match="got both"):
        crf.decode(emissions, lengths=[4, 4], mask=tags >= 0)
    with pytest.raises(ValueError, match="between 0 and 4, got 5 to 5"):
        crf.decode(emissions, lengths=[5, 5])
    with pytest.raises(ValueError, match=r"mask must have the shape \(2, 4\)"):
        crf.decode(emissions, mask=torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"allowed\.transitions must be boolean of shape \(4, 4\)"):
        om.CRF(4, allowed=ALLOWED)
    with pytest.raises(ValueError, match="n_tags must be a positive int"):
        om.CRF(0)
    with pytest.raises(ValueError, match="the target must be allowed by its scores"):
        om.CRF(3, allowed=ALLOWED).loss(emissions, tags + 2)
