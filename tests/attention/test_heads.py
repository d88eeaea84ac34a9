"""Pointing, copying and CTC as output layers."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from torch import nn

import omegamax as om

NORMALIZERS = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Entmax(alpha=om.Above(1.0, start=1.5))]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: type(n).__name__)
class TestPointer:
    def test_probabilities(self, normalizer):
        head = om.attention.PointerHead(om.Additive(3, 4, 5), normalizer=normalizer).double()
        query, key = normal(2, 3, 3), normal(2, 6, 4)
        scores, probabilities = head(query, key, lengths=torch.tensor([6, 4]))
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        assert not probabilities[1, :, 4:].any() and (scores[1, :, 4:] == -torch.inf).all()
        for b, q, i in itertools.product(range(2), range(3), range(4)):
            hidden = head.score.of_query(query[b, q]) + head.score.of_key(key[b, i])
            torch.testing.assert_close(scores[b, q, i], head.score.out.weight[0] @ hidden.tanh())
        exact = normalizer(scores) if isinstance(normalizer, nn.Module) else normalizer.argmax(scores)
        torch.testing.assert_close(probabilities, exact)

    def test_gradients_and_edges(self, normalizer):
        head = om.attention.PointerHead(normalizer=normalizer).double()
        query, key = normal(2, 3).requires_grad_(), normal(4, 3).requires_grad_()
        mask = torch.tensor([[True, True, False, True], [False] * 4])
        assert torch.autograd.gradcheck(lambda q, k: head(q, k, mask=mask).probabilities, (query, key), atol=1e-5)
        assert not head(query, key, mask=mask).probabilities[1].any()
        assert head(normal(1, 3), normal(1, 3)).probabilities.tolist() == [[1.0]]
        assert head(normal(2, 3), normal(0, 3)).probabilities.shape == (2, 0)


def test_a_pointer_learns_by_the_loss_of_its_normalizer():
    head = om.attention.PointerHead(om.DotProduct(), normalizer=om.SquaredNorm())
    query, key = torch.randn(1, 3, requires_grad=True), torch.randn(5, 3)
    pointed = head(query, key, lengths=torch.tensor(4))
    loss = om.FenchelYoungLoss(om.SquaredNorm())(pointed.scores, torch.tensor([2]))
    (found,) = torch.autograd.grad(loss, query, retain_graph=True)
    torch.testing.assert_close(found, (pointed.probabilities - torch.eye(5)[2]) @ key)


class TestCopy:
    def drawn(self, n_words=7, normalizer=None):
        head = om.attention.CopyHead(3, 4, 2, n_words, hidden_size=5, normalizer=normalizer or om.Shannon()).double()
        state, context, inputs = normal(2, 3, 3), normal(2, 3, 4), normal(2, 3, 2)
        weights, source = normal(2, 3, 5).softmax(-1), torch.tensor([[1, 4, 1, 7, 8], [0, 6, 6, 6, 7]])
        return head, state, context, inputs, weights, source

    @pytest.mark.parametrize("normalizer", NORMALIZERS[:3], ids=str)
    def test_published_formula(self, normalizer):
        head, state, context, inputs, weights, source = self.drawn(normalizer=normalizer)
        probabilities, gate = head(state, context, inputs, weights, source, n_extra=2)
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        by_context, by_state, by_input = head.generates.weight[0].split((4, 3, 2))
        first, second = head.vocabulary
        for b, q in itertools.product(range(2), range(3)):
            raw = by_context @ context[b, q] + by_state @ state[b, q] + by_input @ inputs[b, q] + head.generates.bias
            g = torch.sigmoid(raw)
            torch.testing.assert_close(gate[b, q], g)
            both = torch.cat([state[b, q], context[b, q]])
            generated = normalizer.argmax(second.weight @ (first.weight @ both + first.bias) + second.bias)
            for word in range(9):
                expected = g * generated[word] if word < 7 else 0 * g
                for i in range(5):
                    if source[b, i] == word:
                        expected = expected + (1 - g) * weights[b, q, i]
                torch.testing.assert_close(probabilities[b, q, word], expected[0])

    def test_gradients(self):
        head, *floats, source = self.drawn()
        floats = tuple(x.detach().requires_grad_() for x in floats)
        assert torch.autograd.gradcheck(lambda *x: head(*x, source, n_extra=2).probabilities, floats)

    def test_nothing_to_copy(self):
        head, state, context, inputs, weights, source = self.drawn()
        weights[0, 1] = 0
        probabilities, gate = head(state, context, inputs, weights, source, n_extra=2)
        assert gate[0, 1] == 1 and not probabilities[0, 1, 7:].any()
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        empty = head(state, context, inputs, weights[..., :0], source[:, :0])
        torch.testing.assert_close(empty.probabilities.sum(-1), torch.ones(2, 3, dtype=torch.float64))

    def test_half_and_errors(self):
        head, state, context, inputs, weights, source = self.drawn()
        head, floats = head.float(), [x.float() for x in (state, context, inputs, weights)]
        with torch.autocast("cpu", torch.bfloat16):
            probabilities = head(*floats, source, n_extra=2).probabilities
        torch.testing.assert_close(probabilities.float().sum(-1), torch.ones(2, 3), atol=0.02, rtol=0)
        with pytest.raises(ValueError, match="source must lie between 0 and 7, got 0 to 8; n_extra"):
            head(*floats, source, n_extra=1)
        with pytest.raises(ValueError, match="got 4 words and 5 weights"):
            head(*floats, source[:, :4], n_extra=2)


class TestCTC:
    def spelled(self, path):
        return tuple(label for label, _ in itertools.groupby(path) if label != 0)

    def enumerated(self, log_probs):
        """log p of every sequence of labels, by going through all paths."""
        found = defaultdict(float)
        for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
            found[self.spelled(path)] += math.exp(sum(log_probs[t, label].item() for t, label in enumerate(path)))
        return found

    def test_loss(self):
        head = om.attention.CTCHead(3, 5).double()
        features = normal(2, 8, 3).requires_grad_()
        log_probs = head(features)
        torch.testing.assert_close(log_probs.logsumexp(-1), torch.zeros(2, 8, dtype=torch.float64))
        targets, lengths, sizes = torch.tensor([[1, 1, 4], [2, 3, 0]]), torch.tensor([8, 5]), torch.tensor([3, 2])
        loss = head.loss(log_probs, targets, lengths, sizes)
        expected = nn.functional.ctc_loss(log_probs.transpose(0, 1), targets, lengths, sizes)
        torch.testing.assert_close(loss, expected)
        found, exact = (torch.autograd.grad(x, features, retain_graph=True)[0] for x in (loss, expected))
        torch.testing.assert_close(found, exact)
        each = nn.functional.ctc_loss(log_probs.transpose(0, 1), targets, lengths, sizes, reduction="none")
        torch.testing.assert_close(head.log_prob(log_probs, targets, lengths, sizes), -each)

    def test_nothing_was_said(self):
        """No labels: the blank at every frame."""
        head = om.attention.CTCHead(3, 4).double()
        log_probs, lengths = normal(2, 5, 4).log_softmax(-1), torch.tensor([5, 3])
        silent = torch.stack([log_probs[0, :, 0].sum(), log_probs[1, :3, 0].sum()])
        for targets, sizes in ((torch.ones(2, 0).long(), None), (torch.ones(2, 2).long(), torch.zeros(2).long())):
            torch.testing.assert_close(head.log_prob(log_probs, targets, lengths, sizes), silent)
            assert head.align(log_probs, targets, lengths, sizes)[1].tolist() == [0, 0, 0, -1, -1]
            torch.testing.assert_close(head.loss(log_probs, targets, lengths, sizes), -silent.mean())

    def test_a_sparse_loss(self):
        head = om.attention.CTCHead(3, 4, regularizer=om.SquaredNorm()).double()
        features = normal(1, 5, 3).requires_grad_()
        targets = torch.tensor([[1, 2]])
        assert torch.autograd.gradcheck(lambda x: head.loss(head(x), targets), (features,), atol=1e-5)

    def test_beam_search_is_exact_when_wide(self):
        head = om.attention.CTCHead(2, 3).double()
        log_probs = (3 * normal(4, 5, 3)).log_softmax(-1)
        for item, ranked in enumerate(head.beam_search(log_probs, width=200, n_best=200)):
            exact = self.enumerated(log_probs[item])
            assert {t.labels for t in ranked} == {labels for labels, p in exact.items() if p > 0}
            assert [t.log_prob for t in ranked] == sorted((t.log_prob for t in ranked), reverse=True)
            for labels, log_prob in ranked:
                assert log_prob == pytest.approx(math.log(exact[labels]))
            for labels, log_prob in ranked[:3]:  # and the same by the lattice
                if labels:
                    by_lattice = head.log_prob(log_probs[item : item + 1], torch.tensor([labels]))
                    assert by_lattice.item() == pytest.approx(log_prob)

    @pytest.mark.slow
    def test_a_narrow_beam_is_a_bound(self):
        head = om.attention.CTCHead(2, 4).double()
        log_probs = normal(3, 9, 4).log_softmax(-1)
        wide, narrow = (head.beam_search(log_probs, width=w) for w in (3000, 3))
        for (best,), (found,) in zip(wide, narrow):
            assert found.log_prob <= best.log_prob + 1e-12
        sizes = torch.tensor([9, 4, 1])
        cut = head.beam_search(log_probs, sizes, width=50)
        assert cut[1] == head.beam_search(log_probs[1:2, :4], width=50)[0]

    def test_best_path(self):
        head = om.attention.CTCHead(2, 3).double()
        log_probs = normal(2, 6, 3).log_softmax(-1)
        for item, length in enumerate((6, 4)):
            labels, log_prob = head.best_path(log_probs, torch.tensor([6, 4]))[item]
            rows = log_probs[item, :length]
            assert labels == self.spelled(rows.argmax(-1).tolist())
            assert log_prob == pytest.approx(rows.amax(-1).sum().item())
        # A path may be likeliest where its labels are not: the blank wins each frame, the label wins their sum.
        tricky = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
        assert head.best_path(tricky)[0].labels == ()
        (best,) = head.beam_search(tricky)[0]
        assert best.labels == (1,) and best.log_prob == pytest.approx(math.log(0.64))

    def test_alignment(self):
        head = om.attention.CTCHead(2, 4)
        log_probs, targets = torch.randn(2, 6, 4).log_softmax(-1), torch.tensor([[1, 1, 3], [2, 0, 0]])
        frames = head.align(log_probs, targets, torch.tensor([6, 4]), torch.tensor([3, 1]))
        assert self.spelled(frames[0].tolist()) == (1, 1, 3)
        assert self.spelled(frames[1, :4].tolist()) == (2,) and (frames[1, 4:] == -1).all()
        best = max(
            (path for path in itertools.product(range(4), repeat=6) if self.spelled(path) == (1, 1, 3)),
            key=lambda path: sum(log_probs[0, t, label].item() for t, label in enumerate(path)),
        )
        assert tuple(frames[0].tolist()) == best

    @pytest.mark.slow
    def test_learns_and_errors(self):
        head = om.attention.CTCHead(4, 4)
        features, targets = torch.randn(3, 8, 4), torch.tensor([[1, 2], [3, 3], [2, 1]])
        optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
        first = head.loss(head(features), targets).item()
        for _ in range(5):
            loss = head.loss(head(features), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss.item() < first
        with pytest.raises(ValueError, match="one of the 4 classes, got 4"):
            om.attention.CTCHead(4, 4, blank=4)
        with pytest.raises(ValueError, match=r"log_probs must be \(batch, T, n_classes\), got \(8, 4\)"):
            head.best_path(head(features[0]))
        with pytest.raises(ValueError, match=r"targets must be \(3, S\), padded, got \(4,\)"):
            head.loss(head(features), torch.tensor([1, 2, 3, 3]))
        with pytest.raises(ValueError, match="width must be at least 1"):
            head.beam_search(head(features), width=0)
