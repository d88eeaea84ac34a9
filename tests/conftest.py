"""One seed, one thread per worker, and the choice between native and reference kernels."""

import collections
import contextlib
import gc
import os

import hypothesis
import pytest
import torch

from omegamax import routing

routing.slowness_reported = True  # tests without the compiled kernels run so on purpose

hypothesis.settings.register_profile("omegamax", deadline=None, derandomize=True, database=None, max_examples=15)
hypothesis.settings.load_profile("omegamax")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


def pytest_configure(config):
    # PyTorch scripts its own derivative formulas the first time forward-mode AD is used.
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit:DeprecationWarning")


QUICK_CASES = 4  # of one test, in the quick round


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items):
    """The quick round takes a few cases of every test, spread over its table; the full round takes all.

    A test marked `thinned(n)` gives every n-th of its cases, and no test more than `QUICK_CASES`. The round of
    `make test` without compiled kernels, which takes the quick tests too, has no such limit.
    """
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases[item.function].append(item)
    for given in cases.values():
        mark = given[0].get_closest_marker("thinned")
        kept = given[:: mark.args[0]] if mark is not None else given
        if routing.native is not None and len(kept) > QUICK_CASES:
            kept = [kept[number * len(kept) // QUICK_CASES] for number in range(QUICK_CASES)]
        chosen = {id(item) for item in kept}
        for item in given:
            if id(item) not in chosen:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    gc.freeze()  # thousands of tests stay to the end: the collector need not search them again and again


@pytest.fixture(autouse=True)
def _seed():
    torch.default_generator.manual_seed(0)  # torch.manual_seed also prepares the seed of CUDA, which takes 1 ms


# Where both exist, the quick round takes the kernels that users meet; the full one takes both.
BACKENDS = ["reference"] if routing.native is None else ["native", pytest.param("reference", marks=pytest.mark.slow)]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Runs the test with the compiled kernels and again with their PyTorch twins."""
    if request.param == "reference":
        monkeypatch.setattr(routing, "native", None)
    return request.param


# The quick round takes the instruction set that users of this machine meet; the full one takes all of them.
ARCHS = [
    pytest.param(name, marks=[pytest.mark.slow] if number else [])
    for number, name in enumerate([] if routing.native is None else routing.native.supported_archs())
]


@contextlib.contextmanager
def _using(arch):
    before = routing.native.arch()
    routing.native.use_arch(arch)
    yield
    routing.native.use_arch(before)


@pytest.fixture(params=ARCHS)
def arch(request):
    """Runs the test once for each instruction set that this machine has."""
    with _using(request.param):
        yield request.param


@pytest.fixture(params=[BACKENDS[-1], *ARCHS])
def twin(request):
    """Calls a kernel by its reference, then by its native twin for each instruction set."""

    def reference(kernel, *inputs):
        return kernel.reference(*inputs)

    def native(kernel, *inputs):
        return kernel.native(*inputs)

    if request.param == "reference":
        yield reference
    else:
        with _using(request.param):
            yield native


@pytest.fixture
def precious(tmp_path):
    """A file of the user's that no command may touch."""
    path = tmp_path / "precious"
    path.write_text("years of work\n")
    return path
