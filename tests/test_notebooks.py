"""Notebooks of the tutorials (docs/notebooks.py) hold the code of the pages, and it runs."""

import json
import runpy
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.fixture(scope="module")
def notebooks():
    return runpy.run_path(str(DOCS / "notebooks.py"))


def sources(page, kind):
    return [cell["source"] for cell in page["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_every_tutorial_becomes_a_notebook(path, notebooks):
    page = notebooks["notebook"](path.read_text(encoding="utf-8"))
    assert sources(page, "markdown")[0].startswith("# ") and len(sources(page, "code")) >= 5
    assert not any("](../" in text or "```python" in text for text in sources(page, "markdown"))
    for code in sources(page, "code"):
        compile(code, path.name, "exec")
        assert ">>>" not in code and "savefig" not in code
    assert any("display(" in code for code in sources(page, "code"))
    assert len({cell["id"] for cell in page["cells"]}) == len(page["cells"])
    json.dumps(page)


def test_examples_lose_their_prompts_and_their_output(notebooks):
    block = ">>> x = 1\n>>> x + 1\n2\n>>> for i in range(2):\n...     print(i)\n0\n1\n>>> x\n1\n\n"
    assert notebooks["code"](">>> f(x)  # why\n1\n>>> y\n2\n") == "print(\n    f(x)  # why\n)\ny"
    assert notebooks["code"](block) == "x = 1\nprint(x + 1)\nfor i in range(2):\n    print(i)\nx"


def test_figures_are_shown(notebooks):
    assert notebooks["code"]('plots.row(x, "a").savefig("a.png", dpi=150)\n') == 'display(plots.row(x, "a"))\n'


@pytest.mark.slow
def test_the_cells_of_a_notebook_run(notebooks, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before, drawn = torch.get_default_dtype(), []
    torch.set_default_dtype(torch.float32)
    try:
        page = notebooks["notebook"]((DOCS / "tutorials" / "your_own_regularizer.md").read_text(encoding="utf-8"))
        namespace = {"__name__": "notebook", "display": drawn.append}
        for code in sources(page, "code"):
            exec(compile(code, "notebook", "exec"), namespace)
    finally:
        torch.set_default_dtype(before)
    assert len(drawn) == 1 and hasattr(drawn[0], "savefig")
