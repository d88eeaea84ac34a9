"""The keywords of Fenchel–Young losses agree between type checkers, functions and modules."""

import inspect

import pytest

import omegamax as om
from omegamax.losses.evaluation import LossOptions, loss_of


def defaults(function):
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY}


def test_names_and_defaults_agree():
    modules, functions = defaults(om.losses.Loss.__init__), defaults(loss_of)
    assert set(LossOptions.__annotations__) == set(modules) - {"reduction"}
    assert set(functions) - set(modules) == {"mask", "lengths", "positions", "target_edges"}
    assert modules == {name: functions[name] for name in modules}


LOSSES = [each for each in vars(om.losses).values() if isinstance(each, type) and issubclass(each, om.losses.Loss)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_every_signature_has_the_same_defaults(loss):
    written, shared = defaults(loss.__init__), defaults(om.losses.Loss.__init__)
    assert written | shared == shared | written


def test_the_docstring_says_the_defaults():
    text = " ".join(om.FenchelYoungLoss.__doc__.split())
    for name in LossOptions.__annotations__:
        assert f"{name}={defaults(om.losses.Loss.__init__)[name]}" in text
