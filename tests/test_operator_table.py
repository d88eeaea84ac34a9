"""The table of operators is true: what it names exists, and what others say agrees with it."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import omegamax as om
from omegamax import operator_table, registry
from omegamax.operator_table import OPERATORS, TABLE

ROOT = Path(__file__).parents[1]
rows = pytest.mark.parametrize("facts", TABLE, ids=list(OPERATORS))


def test_reading_it_loads_no_torch():
    path = Path(operator_table.__file__)
    program = f"import sys, runpy; runpy.run_path({str(path)!r}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def callables_of(facts):
    """Whatever takes the parameter of an operator: the class of Ω, the function, the layer and both losses."""
    names = [facts.regularizer, facts.function, facts.layer, facts.loss]
    found = [getattr(om, name) for name in names if name is not None]
    return found if facts.loss_function is None else [*found, getattr(om.losses, facts.loss_function)]


@rows
def test_its_names_exist_and_have_its_parameter_with_its_default(facts):
    for thing in callables_of(facts)[facts.fixed is not None :]:
        parameters = inspect.signature(thing).parameters
        for name in ("alpha", "p", "strength", "groups"):
            assert (name in parameters) == (name in facts.options), thing.__name__
        if facts.options:
            assert parameters[facts.parameter.name].default == facts.default, thing.__name__


@rows
def test_out_of_range_is_refused_by_whoever_was_called(facts):
    if not facts.options:
        return
    name, scores, target = facts.parameter.name, torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)
    rest = {"groups": [0, 0, 1]} if facts.grouped else {}
    for thing in callables_of(facts):
        inputs = {facts.function: (scores,), facts.loss_function: (scores, target)}.get(thing.__name__, ())
        for wrong in (-0.5, torch.tensor([[-0.5], [-0.5]])):
            kind = ValueError if facts.parameter.may_be_tensor or not isinstance(wrong, torch.Tensor) else TypeError
            with pytest.raises(kind, match=rf"^{thing.__name__}: {name} must be "):
                thing(*inputs, **{name: wrong}, **rest)


@rows
def test_the_function_is_the_argmax_of_the_regularizer(facts):
    scores = torch.randn(4, 6)
    options = {"groups": [0, 0, 1, 1, 2, 2]} if facts.grouped else {}
    expected = registry.regularizer(facts.function, **options).argmax(scores)
    assert torch.equal(getattr(om, facts.function)(scores, **options), expected)
    assert torch.equal(getattr(om, facts.layer)(**options)(scores), expected)


def test_operators_that_are_drawn_together_have_colours_of_their_own():
    colours = [facts.colour for facts in TABLE if facts.is_listed]
    assert len(set(colours)) == len(colours)


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


@rows
def test_the_readme_has_its_row(facts):
    lines = [
        line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(f"| `{facts.function}` |")
    ]
    (found,) = [cells(line) for line in lines if len(cells(line)) == 5]
    assert found[1] == f"`{facts.constructor}`"
    assert found[2].replace("\\|", "|") == facts.omega
    assert (found[3] == "no") == (not facts.sparse)


@rows
def test_the_pages_name_it(facts):
    operators = (ROOT / "docs" / "operators.md").read_text()
    api = "\n".join((ROOT / "docs" / "reference" / page).read_text() for page in ("operators.md", "losses.md"))
    assert re.search(rf"^## .*\b{facts.function}\b", operators, re.MULTILINE)
    for name in (facts.function, facts.layer, facts.regularizer, facts.loss, facts.loss_function):
        assert name is None or re.search(rf"^::: omegamax\.[\w.]+\.{name}$", api, re.MULTILINE), name


def test_the_page_of_contexts_names_what_exports():
    text = (ROOT / "docs" / "contexts.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("| ONNX |")]
    named = set(cells(line)[1].split(", "))
    assert named == {facts.function for facts in TABLE if facts.exports and facts.fixed is None}


def test_the_page_of_structures_names_what_programs_take():
    text = " ".join((ROOT / "docs" / "structures.md").read_text().split())
    (listed,) = re.findall(r"Any symmetric one: (.*?), each with", text)
    wanted = {facts.constructor for facts in TABLE if facts.symmetric and facts.fixed is None}
    assert {name if name.endswith(")") else f"{name}()" for name in re.findall(r"`([^`]*)`", listed)} == wanted
