"""What the tests of sparse attention share: normalizers, random inputs, and attention by its definition."""

import contextlib
import math

import pytest
import torch

import omegamax as om
from omegamax import routing
from omegamax.attention.top_k import TopK
from omegamax.kernels import sparse_attention as kernel

needs_native = pytest.mark.skipif(routing.native is None, reason="the compiled kernels are not there")

NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "entmax(1.3)": om.Tsallis(1.3),
    "entmax(2.6)": om.Tsallis(2.6),
    "top-4": TopK(4),
    "oscarmax": om.Oscar(),
    "oscarmax(0.05)": om.Oscar(0.05),
    "fusedmax": om.Fused(0.1),
    "colder": om.Scaled(om.SquaredNorm(), 0.5),
    "softmax": om.Shannon(),  # by the dense way
}
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


def draw(*shape, dtype=torch.float64, spread=1.0):
    return torch.randn(*shape, dtype=dtype) * spread


def leaves(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


def by_hand(query, key, value, normalizer, *, mask=None, bias=None, scale=None):
    """Attention from dense scores, by its definition; heads of keys are repeated."""
    repeats = query.shape[-3] // key.shape[-3]
    key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.einsum("...qd,...kd->...qk", query * scale, key)
    scores = scores if bias is None else scores + bias
    weights = normalizer(scores, mask) if callable(normalizer) else normalizer.argmax(scores, mask=mask)
    return torch.einsum("...qk,...kf->...qf", weights, value)


@contextlib.contextmanager
def noted_refusals(monkeypatch):
    """Collects, for each call of the native forward pass, which blocks had too large a support to be kept."""
    refused, forward = [], kernel.forward

    def noting(*args, **options):
        answer = forward(*args, **options)
        refused.append(answer.refused)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "forward", noting)
        yield refused
