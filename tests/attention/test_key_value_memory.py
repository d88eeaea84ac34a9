"""Hops over pairs, against plain loops."""

import pytest
import torch
from draws import NORMALIZERS, normal
from torch import nn

import omegamax as om


class TestKeyValue:
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_hops(self, normalizer):
        model = om.attention.KeyValueMemory(3, n_hops=2, normalizer=normalizer).double()
        nn.init.normal_(model.update[1].weight)
        query, key, value = normal(2, 3), normal(5, 3), normal(5, 3)
        output, weights = model(query, key, value)
        assert weights.shape == (2, 2, 5)
        for q in range(2):
            question = query[q]
            for hop in range(2):
                p = normalizer.argmax(torch.stack([question @ key[i] for i in range(5)]))
                torch.testing.assert_close(weights[hop, q], p)
                question = model.update[hop].weight @ (question + sum(p[i] * value[i] for i in range(5)))
            torch.testing.assert_close(output[q], question)
        inputs = tuple(x.requires_grad_() for x in (query, key, value))
        assert torch.autograd.gradcheck(lambda *x: model(*x).output, inputs, atol=1e-5)

    def test_lengths(self):
        model = om.attention.KeyValueMemory(3, n_hops=3)
        query, key, value = torch.randn(2, 1, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 3)
        output = model(query, key, value, lengths=torch.tensor([5, 2])).output
        torch.testing.assert_close(output[1], model(query[1], key[1, :2], value[1, :2]).output)
        masked = model(query, key, value, mask=torch.zeros(2, 1, 5, dtype=torch.bool)).output
        torch.testing.assert_close(masked, query)  # nothing to find: the question stays
