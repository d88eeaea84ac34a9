"""The files around the library agree with it: extras, versions, what continuous integration runs."""

import re
from pathlib import Path

import pytest

import omegamax

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def extras():
    tomllib = pytest.importorskip("tomllib", reason="part of the standard library from Python 3.11 on")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["optional-dependencies"]


def packages(requirements):
    """The names of packages, without versions; other extras of this package are left out."""
    names = [re.match(r"[\w.-]+(\[\w)?", requirement)[0] for requirement in requirements]
    return [name.replace("-", "_") for name in names if "[" not in name]


@pytest.mark.parametrize("extra", ["plot", "nlp", "hf", "explore", "gpu"])
def test_an_extra_lists_only_what_some_file_imports(extra, extras):
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "omegamax").rglob("*.py"))
    for package in packages(extras[extra]):
        pattern = rf"^\s*(import|from) {package}\b|(import_for_training|import_module)\(\"{package}\b"
        assert re.search(pattern, sources, re.MULTILINE), f"no file imports {package}; take it out of {extra}"


def test_every_extra_that_a_message_names_exists(extras):
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "omegamax").rglob("*.py"))
    named = set(re.findall(r"how_to_install\(['\"](\w+)['\"]\)", sources))
    assert named and named <= extras.keys()


def test_everything_is_all_that_users_may_want(extras):
    (everything,) = extras["all"]
    listed = set(re.fullmatch(r"omegamax\[(.*)\]", everything)[1].split(","))
    assert listed == extras.keys() - {"all", "test", "docs", "dev", "gpu"}  # Triton takes 1 GB and serves a GPU only


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {omegamax.__version__}\n" in citation


def test_the_workflow_runs_what_anyone_can_run():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"run: (.*)", workflow) == [".ci/run"]


def test_the_actions_of_workflows_have_versions():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        actions = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
        assert actions and all(re.search(r"@v\d+\.\d+\.\d+$", action) for action in actions), path.name


def test_wheels_are_for_every_python_that_is_supported():
    tomllib = pytest.importorskip("tomllib", reason="part of the standard library from Python 3.11 on")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = settings["project"]["requires-python"].removeprefix(">=").replace(".", "")
    wheels = settings["tool"]["cibuildwheel"]
    assert wheels["build"][0] == f"cp{oldest}-*" and (ROOT / ".ci" / "smoke.py").exists()
    assert wheels["test-command"].endswith(".ci/smoke.py")
