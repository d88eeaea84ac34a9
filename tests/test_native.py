"""The compiled kernels among forks, threads and processors."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from cases import CASES, FUSED, OSCAR, SPARSEMAX, normal

from omegamax import routing

pytestmark = pytest.mark.skipif(routing.native is None, reason="the extension is not built")
every = pytest.mark.parametrize("case", CASES, ids=str)


def run(program, **environment):
    """A fresh interpreter; whatever hangs is ended after a minute."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def archs():
    before = routing.native.arch()
    yield routing.native.supported_archs()
    routing.native.use_arch(before)


# The child keeps to omegamax and NumPy: PyTorch's own parallel operations hang after a fork, here as anywhere.
FORK = """
import os, warnings, numpy, torch, omegamax as om
warnings.simplefilter("ignore")
torch.set_num_threads(2)
scores = torch.randn(512, 256)
from omegamax import operator_table
operators = [getattr(om, facts.function) for facts in operator_table.ungrouped()]
expected = [operator(scores) for operator in operators]
child = os.fork()
if child == 0:
    torch.set_num_threads(2)
    same = all(numpy.array_equal(o(scores).numpy(), e.numpy()) for o, e in zip(operators, expected))
    scores.requires_grad_()
    om.sparsemax(scores).backward(expected[0])
    os._exit(0 if same and numpy.isfinite(scores.grad.numpy()).all() else 7)
_, status = os.waitpid(child, 0)
again = all(torch.equal(o(scores), e) for o, e in zip(operators, expected))
print(os.waitstatus_to_exitcode(status), again)
"""


@pytest.mark.slow
def test_a_fork_after_first_use():
    assert run(FORK) == "0 True"


@pytest.mark.slow
def test_a_fork_of_a_fork():
    nested = """child = os.fork()
if child == 0:
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"""
    program = FORK.replace("child = os.fork()", nested)
    assert run(program) == "0 True"


@every
def test_several_python_threads_at_once(case, threads):
    threads(2)
    inputs = [normal(300, 64 + 2 * i, seed=i, dtype=torch.float32) for i in range(6)]
    expected = [case(x) for x in inputs]
    wrong = []

    def work(x, right):
        for _ in range(5):
            if not torch.equal(case(x), right):
                wrong.append(case.name)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not wrong


@every
def test_the_number_of_threads_does_not_change_the_bits(case, threads):
    scores = normal(700, 96, dtype=torch.float32)
    results = []
    for count in (1, 2, 4, 1, 3):
        threads(count)
        x = scores.clone().requires_grad_()
        weights = case(x)
        (gradient,) = torch.autograd.grad((weights * weights).sum() + weights[:, 0].sum(), x)
        results.append((weights.detach(), gradient))
    for weights, gradient in results[1:]:
        assert torch.equal(weights, results[0][0]) and torch.equal(gradient, results[0][1])


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_instruction_set_agrees(case, dtype, archs):
    scores = normal(64, 97, dtype=dtype)
    scores[3, ::2] = -torch.inf
    scores[4] = 0.25
    answers = []
    for arch in archs:
        routing.native.use_arch(arch)
        assert routing.native.arch() == arch
        x = scores.clone().requires_grad_()
        weights = case(x)
        (gradient,) = torch.autograd.grad((weights * normal(64, 97, seed=1, dtype=dtype)).sum(), x)
        answers.append((weights.detach(), gradient))
    tolerance = {"atol": 2e-6, "rtol": 1e-4} if dtype is torch.float32 else {"atol": 1e-14, "rtol": 1e-9}
    for weights, gradient in answers[1:]:
        torch.testing.assert_close(weights, answers[0][0], **tolerance)
        torch.testing.assert_close(gradient, answers[0][1], **{**tolerance, "atol": 100 * tolerance["atol"]})
    assert len(archs) >= 1


def test_an_unknown_instruction_set_is_refused():
    with pytest.raises(ValueError):
        routing.native.use_arch("v9000")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_native_and_reference_supports_agree(case, monkeypatch):
    scores = normal(300, 33)
    native = case(scores)
    monkeypatch.setattr(routing, "native", None)
    reference = case(scores)
    torch.testing.assert_close(native, reference, atol=1e-14, rtol=1e-8)
    assert torch.equal(native > 0, reference > 0)


@pytest.mark.slow
def test_the_environment_chooses_the_reference():
    program = "from omegamax import routing; print(routing.native is None)"
    assert run(program, OMEGAMAX_KERNELS="reference") == "True"
    assert run(program, OMEGAMAX_KERNELS="") == "False"


@pytest.mark.slow
def test_without_the_extension_everything_still_works():
    """As after an install without a compiler: importing the extension fails."""
    program = (
        "import sys; sys.modules['omegamax._native'] = None\n"
        "import torch, omegamax as om; from omegamax import routing\n"
        "x = torch.randn(3, 5, requires_grad=True); om.fusedmax(x).square().sum().backward()\n"
        "print(routing.native is None, bool(x.grad.isfinite().all()))"
    )
    assert run(program) == "True True"


@pytest.mark.parametrize("case", [SPARSEMAX, FUSED, OSCAR], ids=str)
@pytest.mark.thinned(3)
def test_the_gil_is_released(case, threads):
    """A second Python thread makes progress while a kernel runs, more than the one step it gets as a call ends."""
    threads(1)
    scores = normal(1500, 4096, dtype=torch.float32)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            done.wait(0.0005)

    other = threading.Thread(target=tick)
    other.start()
    most = 0
    for _ in range(100):  # a busy machine may need a few
        before = len(ticks)
        case(scores)
        most = max(most, len(ticks) - before)
        if most >= 3:
            break
    done.set()
    other.join()
    assert most >= 3
