"""Softmax on the k best scores."""

import torch
from sparse_cases import draw

from omegamax.attention.top_k import TopK


def test_top_k():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, -torch.inf]])
    torch.testing.assert_close(TopK(2).argmax(scores), torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]))
    torch.testing.assert_close(TopK(9).argmax(scores), scores.softmax(-1))
    torch.testing.assert_close(TopK(2).max(scores), 3 + torch.log(torch.tensor([2.0])))
    assert not TopK(2).argmax(scores, mask=torch.tensor(False)).any()
    weights = TopK(3).argmax(scores)
    value = (weights[:, :4] * scores[:, :4]).sum(-1) - TopK(3).omega(weights)
    torch.testing.assert_close(TopK(3).max(scores), value)
    assert TopK(2).omega(weights).isinf().all()
    scores = draw(4, 7).requires_grad_()
    assert torch.autograd.gradcheck(TopK(3).max, scores)
    (gradient,) = torch.autograd.grad(TopK(3).max(scores).sum(), scores)
    torch.testing.assert_close(gradient, TopK(3).argmax(scores))
