"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import omegamax

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(omegamax.__path__, "omegamax.")
    if not module.name.rpartition(".")[2].startswith("_")
)


def load(name):
    if name.split(".")[1] in ("plots", "cli"):
        pytest.importorskip("matplotlib")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = load(name)
    names = {name: getattr(omegamax, name) for name in omegamax.__all__}
    outcome = doctest.testmod(module, extraglobs={**names, "torch": torch, "om": omegamax})
    assert outcome.failed == 0
    assert module.__doc__


def test_the_everyday_functions_have_examples():
    finder = doctest.DocTestFinder()
    shown = {test.name.rpartition(".")[2] for test in finder.find(omegamax.functional) if test.examples}
    functions = """hardmax softmax sparsemax entmax15 entmax sqpnormmax fusedmax oscarmax groupmax smooth_max
        smooth_argmax gate""".split()  # noqa: SIM905
    assert set(functions) <= shown
