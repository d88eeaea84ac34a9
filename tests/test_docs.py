"""What the documentation shows is what happens: the Python blocks of the README and docs/."""

import doctest
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from public_names import public_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# They compile, draw, or train small models.
SLOW = {
    "contexts.md",
    "plots.md",
    "estimators.md",
    "how_do_i.md",
    *(path.name for path in (ROOT / "docs" / "tutorials").glob("*.md")),
}
# PyTorch's and onnxscript's own, while they export
_EXPORT_WARNINGS = ("DeprecationWarning", "FutureWarning", "RuntimeWarning")
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in _EXPORT_WARNINGS]

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = {
    "onnx": "onnxscript",
    "hf.": "transformers",
    "om.estimators": "sklearn",
}  # a word in a block, and the package that it takes
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def as_a_reader_would(tmp_path, monkeypatch):
    """Runs the blocks with default settings, in a temporary folder."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    yield
    torch.set_default_dtype(before)


def check(examples, namespace, name, path):
    """Runs a doctest in the namespace, which keeps what it defines."""
    test = doctest.DocTest(examples, namespace, name, str(path), None, None)
    test.globs = namespace
    said = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in SLOW else []) for path in PAGES],
)
def test_page(path):
    text = path.read_text(encoding="utf-8")
    namespace = {"__name__": path.stem}
    for match in BLOCK.finditer(text):
        block = match.group(1)
        if any(word in block and importlib.util.find_spec(package) is None for word, package in NEEDS.items()):
            continue
        line = text[: match.start(1)].count("\n")
        if ">>>" in block:
            check(doctest.DocTestParser().get_examples(block), namespace, f"{path.name}:{line}", path)
        else:
            exec(compile("\n" * line + block, str(path), "exec"), namespace)


def test_links_between_pages_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_page_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]]
    missing = [page for page in pages if not re.search(rf"[ /]{re.escape(page)}$", listed, re.MULTILINE)]
    assert not missing, f"add {missing} to mkdocs.yml"


def test_public_names_are_in_the_reference():
    pages = [ROOT / "docs" / "api.md", *(ROOT / "docs" / "reference").glob("*.md")]
    reference = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    names = [name.rpartition(".")[2] for name, thing in public_names().items() if callable(thing)]
    missing = [name for name in names if not re.search(rf"^::: omegamax\S*\.{name}$", reference, re.MULTILINE)]
    assert not missing, f"add {missing} to docs/reference"


def test_commands_can_be_copied():
    """They have no prompt of a terminal before them."""
    for path in PAGES:
        for block in re.findall(r"^ *```.*?\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            assert not re.search(r"^ *\$ ", block, re.MULTILINE), f"{path.name} has a prompt in: {block}"


def test_the_readme_of_a_package_points_to_nothing_that_is_not_there():
    """A registry has no docs/images beside it: what is relative in the README is taken out of the package's copy."""
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    hook = settings["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme
    for each in hook["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    links = r"\]\((?!https?:|#)[^)]+\)"
    assert re.search(links, readme) and not re.search(links, shown)
    assert re.findall(r"^```.*?^```", shown, re.MULTILINE | re.DOTALL) == re.findall(
        r"^```.*?^```", readme, re.MULTILINE | re.DOTALL
    )
    assert len(shown) > 0.8 * len(readme)


def test_the_documentation_needs_no_kernels():
    packages = subprocess.run(
        [sys.executable, ROOT / "docs" / "packages.py"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert any("mkdocs" in each for each in packages) and not any("omegamax" in each for each in packages)
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    plan = subprocess.run(["make", "-nB", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "mkdocs build --strict" in plan and " -e " not in plan and "_native" not in plan
