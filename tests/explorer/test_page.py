"""The page that is part of the package: it is made from these sources, is small, and asks nothing of the network."""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omegamax.explorer
from omegamax.explorer import explorer_page, source_digest

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(omegamax.explorer.__file__).with_name("page.html")
COMPILER = ROOT / ".venv-explorer/bin/python"
BUNDLER = ROOT / "explorer/node_modules/.bin/esbuild"


@pytest.fixture
def sources(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "explorer")
    import sources

    yield sources
    del sys.modules["sources"]


def data_of(page):
    return re.search(r'<script type="application/json" id="omegamax-data">(.*?)</script>', page, re.DOTALL)[1]


def test_the_page_is_made_from_these_sources(sources):
    now = sources.digest(sources.source_files())
    assert source_digest() == now, "the page is older than its sources; run make explorer"


def test_the_digest_sees_kernels_views_and_styles(sources):
    names = {path.relative_to(ROOT).as_posix() for path in sources.source_files()}
    assert {
        "csrc/rows/softmax.hpp",
        "csrc/core/simd.hpp",
        "explorer/src/views/row.ts",
        "explorer/src/styles/row.css",
    } <= names
    assert "csrc/core/interruption.hpp" not in names  # the page has its own
    assert sources.digest(sources.source_files()[1:]) != source_digest()


@pytest.mark.slow
@pytest.mark.skipif(
    not (COMPILER.exists() and BUNDLER.exists() and shutil.which("node")), reason="make explorer has not run"
)
def test_the_same_sources_give_the_same_bytes(tmp_path):
    subprocess.run(
        [COMPILER, ROOT / "explorer/build.py", "--out", tmp_path / "page.html"], check=True, capture_output=True
    )
    assert (tmp_path / "page.html").read_bytes() == PAGE.read_bytes()


def test_the_page_is_small():
    assert PAGE.stat().st_size <= 1_500_000


def test_the_page_loads_nothing():
    page = explorer_page()
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)\s*=\s*"(?!data:)', outside)
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"'`<>)]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG


def test_the_page_names_nothing_of_the_machine_that_built_it():
    page = PAGE.read_text(encoding="utf-8")
    kernels = base64.b64decode(re.search(r'id="omegamax-kernels">([^<]*)<', page)[1])
    assert kernels[:4] == b"\0asm"
    assert not re.search(r"/(home|work|root|tmp|Users)/", page)
    assert not re.search(rb"/(home|work|root|tmp|Users)/|\\.(cpp|hpp)", kernels)


def test_without_data_the_page_has_none():
    assert json.loads(data_of(explorer_page())) == {}


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!-- <script>", "a\u2028b\u2029c & 'd' \"e\" \\", "\\1 \\g<0>"]
)
def test_data_is_text_whatever_it_holds(text):
    page = explorer_page({"state": text, "more": [text, {text: 1.5}]})
    written = data_of(page)
    assert json.loads(written) == {"state": text, "more": [text, {text: 1.5}]}
    assert not re.search("[<>&\u2028\u2029]", written)
    assert page.count("<script") == explorer_page().count("<script")


@pytest.mark.parametrize("wrong", [float("nan"), {1, 2}, object()])
def test_data_that_json_lacks_is_refused(wrong):
    with pytest.raises(ValueError, match="explorer_page: data must be made of texts"):
        explorer_page({"attention": wrong})
