"""Groups are checked and laid out once for each value: remembering them must not be noticeable."""

import numpy as np
import pytest
import torch
from cases import normal

import omegamax as om


def test_a_list_may_change_between_calls():
    scores, groups = normal(3, 4), [0, 0, 1, 1]
    om.groupmax(scores, groups=groups)
    groups[1] = 1
    assert torch.equal(om.groupmax(scores, groups=groups), om.groupmax(scores, groups=torch.tensor([0, 1, 1, 1])))
    assert torch.equal(om.groupmax(scores, groups=groups), om.groupmax(scores, groups=[[0], [3, 1, 2]]))


@pytest.mark.parametrize(
    "groups", [np.array([0, 0, 1]), [np.int64(0), np.int64(0), np.int64(1)], [np.arange(2), torch.tensor([2])]]
)
def test_numpy_and_pytorch_numbers_are_numbers(groups):
    assert torch.equal(om.groupmax(normal(2, 3), groups=groups), om.groupmax(normal(2, 3), groups=[0, 0, 1]))


@pytest.mark.parametrize("wrong", [[True, False], [1.0, 0.0], [1, False], [[1, 0.0]]])
def test_what_equals_known_groups_is_still_refused(wrong):
    om.groupmax(normal(2), groups=[1, 0])
    om.groupmax(normal(2), groups=[[1, 0]])
    with pytest.raises((TypeError, ValueError)):
        om.groupmax(normal(2), groups=wrong)


def test_groups_first_met_in_inference_mode_can_be_trained_with(backend):
    groups, scores = [0, 3, 3, 1, 0], normal(3, 5)
    with torch.inference_mode():
        expected = om.groupmax(scores, groups=groups, strength=0.3)
    strength = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    weights = om.groupmax(scores.requires_grad_(), groups=groups, strength=strength)
    assert torch.equal(weights, expected)
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores, create_graph=True)
    gradient.square().sum().backward()
    assert strength.grad.isfinite()


def test_more_groups_than_are_remembered():
    for n in range(1, 100):
        weights = om.groupmax(normal(n), groups=range(n))
        assert torch.equal(weights, om.groupmax(normal(n), groups=[[i] for i in range(n)]))


def test_fake_tensors_do_not_meet_real_ones():
    groups = [0, 1, 1, 2]
    real = om.groupmax(normal(2, 4), groups=groups)
    with torch._subclasses.FakeTensorMode():
        fake = om.groupmax(torch.empty(2, 4, dtype=torch.float64), groups=groups)
        assert fake.shape == real.shape
    assert torch.equal(om.groupmax(normal(2, 4), groups=groups), real)
