"""Long native calls hear signals, and leave the library usable; memory that is gone is refused."""

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
