"""Signals end long native calls, and the library stays usable; released memory is refused."""

from __future__ import annotations

import signal
import time

import pytest
import torch

import omegamax as om
from omegamax import operator_table, routing

pytestmark = pytest.mark.skipif(routing.native is None, reason="native calls")


class StoppedError(Exception):
    """What the signal's handler raises."""


@pytest.fixture
def after():
    """Sends a signal after so many seconds, whose handler raises `StoppedError`."""

    def stop(*_):
        raise StoppedError

    before = signal.signal(signal.SIGALRM, stop)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.thinned(3)
def test_sparsemap_stops_at_a_signal(after, batch):
    """Flat scores of a chain this size take half a minute an item."""
    scores = 0.001 * torch.randn(batch, 60, 12, 12, dtype=torch.float64)
    small = torch.randn(2, 4, 3, 3, dtype=torch.float64)
    expected = om.Chain().sparsemap(small).marginals
    began = time.monotonic()
    after(0.2)
    with pytest.raises(StoppedError):
        om.Chain().sparsemap(scores)
    assert time.monotonic() - began < 5
    torch.testing.assert_close(om.Chain().sparsemap(small).marginals, expected, atol=0, rtol=0)


@pytest.mark.usefixtures("threads")
@pytest.mark.thinned(2)
def test_rows_stop_at_a_signal(after):
    """A strong fusion of long rows takes several seconds."""
    scores = torch.randn(10_000, 2000, dtype=torch.float64)
    few = torch.randn(3, 9)
    expected = om.fusedmax(few)
    began = time.monotonic()
    after(0.2)
    with pytest.raises(StoppedError):
        for _ in range(20):
            om.fusedmax(scores, strength=1.0)
    assert time.monotonic() - began < 5
    torch.testing.assert_close(om.fusedmax(few), expected, atol=0, rtol=0)


def test_one_large_matching_stops_at_a_signal(after):
    """A cost matrix on which augmenting paths are long: one call takes several seconds."""
    place = torch.arange(1, 4001, dtype=torch.float64)
    scores = -(place[:, None] * place[None, :])
    began = time.monotonic()
    after(0.2)
    with pytest.raises(StoppedError):
        om.Matching().map(scores)
    assert time.monotonic() - began < 2
    best = om.Matching().map(torch.eye(3))
    torch.testing.assert_close(best, torch.eye(3), atol=0, rtol=0)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    "call",
    [*(getattr(om, facts.function) for facts in operator_table.ungrouped()), om.project_simplex],
    ids=lambda call: call.__name__,
)
def test_a_released_storage_is_refused(call, offset):
    scores = torch.randn(4, 8)[offset:]
    scores.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="storage has been released"):
        call(scores)


@pytest.mark.parametrize("structure", [om.Chain(), om.ProjectiveTree(), om.Arborescence(), om.Alignment()], ids=str)
def test_a_released_storage_of_potentials_is_refused(structure):
    potentials = torch.randn(2, 4, 4, 4) if isinstance(structure, om.Chain) else torch.randn(2, 4, 4)
    potentials.untyped_storage().resize_(0)
    with pytest.raises((ValueError, RuntimeError), match="storage"):  # PyTorch's own operations refuse it, too
        structure.max(potentials)


def test_released_series():
    assert om.soft_dtw(torch.zeros(1, 3, 2), torch.zeros(1, 2, 2), 1.0).shape == (1,)
    x = torch.randn(1, 3, 2)
    x.untyped_storage().resize_(0)
    with pytest.raises((ValueError, RuntimeError), match="storage"):
        om.soft_dtw(x, torch.zeros(1, 2, 2), 1.0)


def released(*shape, dtype=torch.float64):
    tensor = torch.ones(*shape, dtype=dtype)
    tensor.untyped_storage().resize_(0)
    return tensor


def number(*shape):
    return torch.linspace(0.1, 0.9, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)


def pull(function, *inputs):
    """The gradient along a direction whose memory is gone."""
    inputs = [tensor.requires_grad_() for tensor in inputs]
    found = function(*inputs)
    return torch.autograd.grad(found, inputs, released(*found.shape))


RELEASED = {
    "an alpha of each row": lambda: om.Tsallis(released(3)).argmax(number(3, 8)),
    "strength of fusedmax": lambda: om.Fused(released(3)).argmax(number(3, 8)),
    "strength of oscarmax": lambda: om.Oscar(released(3)).argmax(number(3, 8)),
    "direction of softmax": lambda: pull(om.softmax, number(3, 8)),
    "direction of sparsemax": lambda: pull(om.sparsemax, number(3, 8)),
    "direction of entmax15": lambda: pull(om.entmax15, number(3, 8)),
    "direction of fusedmax": lambda: pull(om.fusedmax, number(3, 8)),
    "direction of oscarmax": lambda: pull(om.oscarmax, number(3, 8)),
    "direction of total variation": lambda: pull(lambda x: om.prox_tv1d(x, 0.1), number(3, 8)),
    "weights of OWL": lambda: om.prox_owl(number(3, 8), released(8)),
    "marginals of a chain": lambda: pull(om.Chain().argmax, number(2, 4, 3, 3)),
    "direction of an alignment": lambda: pull(om.Alignment().argmax, number(2, 4, 3)),
    "direction of a tree": lambda: pull(om.ProjectiveTree().argmax, number(2, 4, 4)),
    "direction of an arborescence": lambda: pull(om.Arborescence().argmax, number(2, 4, 4)),
    "scores of a matching": lambda: om.Matching().map(released(2, 4, 4)),
    "scores of SparseMAP of a chain": lambda: om.Chain().sparsemap(released(2, 4, 3, 3)),
    "scores of SparseMAP of a matching": lambda: om.Matching().sparsemap(released(2, 4, 4)),
    "second series": lambda: om.soft_dtw(number(1, 3, 2), released(1, 2, 2), 1.0),
}


@pytest.mark.parametrize("call", RELEASED.values(), ids=RELEASED)
def test_every_memory_of_a_call_is_looked_at(call):
    """Whether omegamax or PyTorch refuses. (PyTorch's own arithmetic on such tensors crashes; we cannot help that.)"""
    with pytest.raises((ValueError, RuntimeError), match=r"(?i)storage|data"):
        call()
