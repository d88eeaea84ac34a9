"""Random tensors for tests of memories, in float64, and the normalizers that they are tested with."""

import torch

import omegamax as om

NORMALIZERS = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def distribution(*shape):
    return normal(*shape).softmax(-1)


def one_hot(place, n):
    return torch.eye(n, dtype=torch.float64)[place]
