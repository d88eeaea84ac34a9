"""The four steps of an NTM head, and erasing and adding, against plain loops."""

import pytest
import torch
from draws import NORMALIZERS, distribution, normal, one_hot
from torch import nn

import omegamax as om
from omegamax.attention.memories import addressing


class TestAddressing:
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_content(self, normalizer):
        memory, key = normal(5, 3), normal(2, 3)
        weights = addressing.content_weights(memory, key, 4.0, normalizer=normalizer)
        scores = torch.empty(2, 5, dtype=torch.float64)
        for h in range(2):
            for i in range(5):
                scores[h, i] = 4 * key[h] @ memory[i] / (key[h].norm() * memory[i].norm())
        torch.testing.assert_close(weights, normalizer.argmax(scores), atol=1e-4, rtol=0)
        mask = torch.tensor([True, False, True, True, False])
        masked = addressing.content_weights(memory, key, 4.0, normalizer=normalizer, mask=mask)
        kept = addressing.content_weights(memory[mask], key, 4.0, normalizer=normalizer)
        torch.testing.assert_close(masked[:, mask], kept)
        assert not masked[:, ~mask].any()

    def test_shift_is_a_circular_convolution(self):
        weights, shifts = distribution(2, 6), distribution(2, 5)
        shifted = addressing.circular_shift(weights, shifts)
        for b in range(2):
            for i in range(6):
                expected = sum(weights[b, (i - offset) % 6] * shifts[b, offset + 2] for offset in range(-2, 3))
                torch.testing.assert_close(shifted[b, i], expected)

    @pytest.mark.parametrize("place", range(4))
    @pytest.mark.parametrize("offset", [-1, 0, 1])
    def test_the_shift_of_a_one_hot_is_a_one_hot(self, place, offset):
        shifted = addressing.circular_shift(one_hot(place, 4), one_hot(offset + 1, 3))
        assert torch.equal(shifted, one_hot((place + offset) % 4, 4))

    def test_shifts_around_few_slots(self):
        assert torch.equal(addressing.circular_shift(torch.ones(1), torch.tensor([0.2, 0.5, 0.3])), torch.ones(1))
        assert addressing.circular_shift(torch.zeros(0), torch.tensor([0.2, 0.5, 0.3])).shape == (0,)
        with pytest.raises(ValueError, match="an odd number of them, got 2"):
            addressing.circular_shift(torch.ones(3), torch.ones(2))

    def test_sharpen(self):
        weights, power = distribution(2, 5), torch.tensor([[1.0], [3.0]], dtype=torch.float64)
        expected = torch.stack([w**g / (w**g).sum() for w, g in zip(weights, power)])
        torch.testing.assert_close(addressing.sharpen(weights, power), expected)
        torch.testing.assert_close(addressing.sharpen(weights, 1.0), weights)
        tiny = torch.tensor([1e-20, 2e-20, 0.0], requires_grad=True)
        sharp = addressing.sharpen(tiny, 30.0)
        assert sharp.sum().item() == pytest.approx(1) and sharp[1] > 0.99
        assert not addressing.sharpen(torch.zeros(3), 2.0).any()
        assert addressing.sharpen(torch.zeros(2, 0), 2.0).shape == (2, 0)

    def test_erase_and_add(self):
        memory, weights = normal(4, 3), distribution(2, 4)
        erase, add = normal(2, 3).sigmoid(), normal(2, 3)
        expected = memory.clone()
        for i in range(4):
            for c in range(3):
                for h in range(2):
                    expected[i, c] = expected[i, c] * (1 - weights[h, i] * erase[h, c])
                expected[i, c] += sum(weights[h, i] * add[h, c] for h in range(2))
        torch.testing.assert_close(addressing.erase_and_add(memory, weights, erase, add), expected)
        written = addressing.erase_and_add(memory, one_hot([2], 4), torch.ones(1, 3).double(), add[:1])
        torch.testing.assert_close(written[2], add[0])
        assert torch.equal(written[[0, 1, 3]], memory[[0, 1, 3]])

    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_head_is_the_four_steps(self, normalizer):
        head = om.attention.NTMHead(4, 3, n_heads=2, normalizer=normalizer).double()
        controller, memory, before = normal(4), normal(6, 3), distribution(2, 6)
        weights = head(controller, memory, before)
        key, sharpness, gate, shifts, power = head.address(controller)
        assert (sharpness > 0).all() and (power > 1).all() and ((gate > 0) & (gate < 1)).all()
        for h in range(2):
            cosine = nn.functional.cosine_similarity(key[h].expand(6, 3), memory, dim=-1)
            w = normalizer.argmax(sharpness[h] * cosine)
            w = gate[h] * w + (1 - gate[h]) * before[h]
            w = torch.stack([sum(w[(i - o) % 6] * shifts[h, o + 1] for o in (-1, 0, 1)) for i in range(6)])
            w = w ** power[h]
            torch.testing.assert_close(weights[h], w / w.sum(), atol=1e-5, rtol=0)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, dtype=torch.float64))

    def test_gradients(self):
        inputs = normal(5, 3), normal(2, 3), distribution(2, 5), normal(2, 1), normal(2, 3), normal(2, 1)

        def whole(memory, key, before, gate, shifts, power):
            weights = addressing.content_weights(memory, key, 2.0)
            weights = addressing.interpolate(weights, before, gate.sigmoid())
            return addressing.sharpen(addressing.circular_shift(weights, shifts.softmax(-1)), 1 + power.exp())

        assert torch.autograd.gradcheck(whole, tuple(x.requires_grad_() for x in inputs))


class TestSlotsThatAreNotThere:
    """Every step treats masked slots as removed, and the circle closes around them."""

    mask = torch.tensor([[True, False, True, True, False], [False, True, True, False, False]])

    @pytest.mark.parametrize("n_shifts", [1, 3, 5])
    def test_shifts(self, n_shifts):
        weights, shifts = distribution(2, 5) * self.mask, distribution(2, n_shifts)
        found = addressing.circular_shift(weights, shifts, mask=self.mask)
        for b, mask in enumerate(self.mask):
            torch.testing.assert_close(found[b, mask], addressing.circular_shift(weights[b, mask], shifts[b]))
        assert not found[~self.mask].any()
        nothing = addressing.circular_shift(0 * weights, shifts, mask=torch.zeros(5, dtype=torch.bool))
        assert not nothing.any()

    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_heads(self, normalizer):
        head = om.attention.NTMHead(4, 3, n_heads=2, normalizer=normalizer).double()
        controller, memory = normal(2, 4), normal(2, 5, 3)
        before = distribution(2, 2, 5) * self.mask.unsqueeze(1)
        found = head(controller, memory, before, self.mask)
        for b, mask in enumerate(self.mask):
            torch.testing.assert_close(found[b][:, mask], head(controller[b], memory[b, mask], before[b][:, mask]))
        assert not found.transpose(1, 2)[~self.mask].any()


def test_a_tape_holds_what_was_written():
    """Weights that are set by hand: write at the first slots one after the other, then read them back."""
    memory = torch.zeros(5, 2)
    at, written = torch.eye(5)[:1], torch.randn(3, 2)
    for vector in written:
        memory = addressing.erase_and_add(memory, at, torch.ones(1, 2), vector[None])
        at = addressing.circular_shift(at, torch.tensor([[0.0, 0.0, 1.0]]))
    at = torch.eye(5)[:1]
    for vector in written:
        torch.testing.assert_close((at @ memory)[0], vector)
        at = addressing.circular_shift(at, torch.tensor([[0.0, 0.0, 1.0]]))
