"""Docstrings: the examples in them run, and what users reach has one that says something."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import torch
from public_names import public_names

import omegamax
from omegamax.operator_table import OPERATORS

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(omegamax.__path__, "omegamax.")
    if not module.name.rpartition(".")[2].startswith("_")
)


def load(name):
    if name.split(".")[1] in ("plots", "cli"):
        pytest.importorskip("matplotlib")
    if name.split(".")[1] == "estimators":
        pytest.importorskip("sklearn")
    if name.startswith("omegamax.kernels.triton."):
        pytest.importorskip("triton")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = load(name)
    names = {name.rpartition(".")[2]: thing for name, thing in public_names().items()}
    outcome = doctest.testmod(module, extraglobs={**names, "torch": torch, "om": omegamax})
    assert outcome.failed == 0
    assert module.__doc__


def test_the_everyday_functions_have_examples():
    finder = doctest.DocTestFinder()
    shown = {test.name.rpartition(".")[2] for test in finder.find(omegamax.functional) if test.examples}
    assert {*OPERATORS, "smooth_max", "smooth_argmax", "gate"} <= shown


def public_callables():
    """Functions and classes of the public table and of the rooms with names of their own, each once."""
    hf = importlib.import_module("omegamax.integrations.transformers")
    found = public_names() | {
        "integrations.convert": omegamax.integrations.convert,
        "hf.register": hf.register,
        "hf.check": hf.check,
    }
    return {
        name: thing
        for name, thing in found.items()
        if callable(thing) and not (isinstance(thing, type) and issubclass(thing, tuple))
    }


def says(text, name):
    """Whether a parameter is in backticks, or has a line of its own among the arguments."""
    quoted = re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`", text)
    return quoted or re.search(rf"^ *{re.escape(name)}: \S", text, re.MULTILINE)


@pytest.mark.parametrize("name", public_callables())
def test_every_parameter_is_described(name):
    thing = public_callables()[name]
    inherits_init = isinstance(thing, type) and thing.__init__ is torch.nn.Module.__init__  # (*args, **kwargs)
    parameters = [] if inherits_init else [each for each in inspect.signature(thing).parameters if each != "self"]
    missing = [each for each in parameters if not says(inspect.getdoc(thing) or "", each)]
    assert not missing, f"{name}: the docstring must say what {missing} are; add an `Arguments:` table"


def test_every_parameter_of_a_method_is_described():
    """In the method's docstring, in that of the method it overrides, or among the common arguments of a class."""
    missing = []
    for name, thing in public_callables().items():
        if not isinstance(thing, type):
            continue
        bases = [base for base in thing.__mro__ if base.__module__.startswith("omegamax.")]
        for method, function in vars(thing).items():
            function = getattr(function, "__func__", function)
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            texts = [inspect.getdoc(base) for base in bases]
            texts += [inspect.getdoc(getattr(base, method)) for base in bases if hasattr(base, method)]
            text = "\n".join(filter(None, texts)).lower()
            for each in inspect.signature(function).parameters:
                if each not in ("self", "cls") and not re.search(rf"\b{re.escape(each.lower())}\b", text):
                    missing.append(f"{name}.{method}({each})")
    assert not missing, f"say in the docstrings what these are: {', '.join(missing)}"


ROOMS = ["plots", "recipes"]  # which name what they offer


def reachable():
    """Functions and classes that a user imports from the library or from a room, each once."""
    found = public_names()
    for room in ROOMS:
        module = load(f"omegamax.{room}")
        found |= {f"{room}.{name}": getattr(module, name) for name in getattr(module, "__all__", [])}
    return {
        name: thing
        for name, thing in found.items()
        if (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__.startswith("omegamax.")
    }


def test_what_users_reach_has_a_docstring():
    """A function and a class have their own; a method may inherit that of the method it overrides."""
    missing = []
    for name, thing in reachable().items():
        if not thing.__doc__ or thing.__doc__.startswith(f"{thing.__name__}("):  # the one that dataclass() makes
            missing.append(name)
        for method, function in vars(thing).items() if inspect.isclass(thing) else ():
            is_method = inspect.isfunction(getattr(function, "__func__", function)) or isinstance(function, property)
            if is_method and not method.startswith("_") and not inspect.getdoc(getattr(thing, method)):
                missing.append(f"{name}.{method}")
    assert not missing, f"write docstrings for {', '.join(missing)}"


def test_no_docstring_is_a_mere_label():
    """Where three words are enough, the name is enough. A formula is not a label."""
    root = Path(omegamax.__file__).parent
    labels = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text is not None and len(text.split()) <= 3 and not re.search("[Ωγ½‖]", text):
                    labels.append(f"{path.relative_to(root)}: {getattr(node, 'name', 'module')}")
    assert not labels, f"delete these docstrings, or say what the name does not say: {', '.join(labels)}"
