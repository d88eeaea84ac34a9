"""Formulas of the documentation become MathML (docs/formulas.py)."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="part of the extra docs")
markdown = pytest.importorskip("markdown", reason="part of the extra docs")

DOCS = Path(__file__).parent.parent / "docs"
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


@pytest.fixture
def formulas(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.delitem(sys.modules, "formulas", raising=False)
    import formulas

    return formulas


def html(formulas, text):
    return markdown.markdown(text, extensions=[formulas.makeExtension(), "tables"])


def test_a_formula_in_a_line(formulas):
    page = html(formulas, r"The weight $\frac{a_1}{b}$ is *small*, `$x$` is code and \$5 or $5 and $6 are prices.")
    assert page.count("<math") == 1 and "<mfrac>" in page
    assert "<em>small</em>" in page and "<code>$x$</code>" in page and "$5 and $6" in page


def test_a_formula_of_its_own_is_broken_at_wide_spaces(formulas):
    page = html(formulas, "Before\n\n$$\na = b, \\qquad c_i * d_j * e\n$$\n\nafter")
    assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == 2
    assert '<div class="formula">' in page and "<em>" not in page and "<p>after</p>" in page


def test_formulas_stand_in_tables(formulas):
    page = html(formulas, "| a | b |\n|---|---|\n| $\\lvert x\\rvert$ | $y_i$ |")
    assert page.count("<td>") == 2 and page.count("<math") == 2


def test_bars_names_and_greek_letters(formulas):
    tree = ElementTree.fromstring(
        formulas.mathml(r"\lVert p\rVert_2 + \log p + \operatorname{argmax}_\Omega(x)", "inline")
    )
    bars = [each for each in tree.iter(f"{NAMESPACE}mo") if each.text == "‖"]
    assert len(bars) == 2 and all(each.get("stretchy") == "false" for each in bars)
    assert {each.text for each in tree.iter(f"{NAMESPACE}mi")} >= {"log", "argmax"}
    assert [each.get("mathvariant") for each in tree.iter(f"{NAMESPACE}mi") if each.text == "Ω"] == ["normal"]
    assert all(len(each) == 2 for each in tree.iter(f"{NAMESPACE}msub"))
    assert len(list(tree.iter(f"{NAMESPACE}mspace"))) == 1  # between log and p


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", "a & b"])
def test_what_is_not_known_raises(formulas, latex):
    with pytest.raises(ValueError, match="formulas: latex2mathml must know every command, got"):
        formulas.mathml(latex, "inline")


def test_every_formula_of_the_pages(formulas):
    found = 0
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for latex in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
            formulas.mathml(latex, "block")
            found += 1
        text = re.sub(r"\$\$.+?\$\$", "", text, flags=re.DOTALL)
        for latex in re.findall(formulas.INLINE, text):
            formulas.mathml(latex, "inline")
        left = re.sub(formulas.INLINE, "", text)
        assert "$" not in left, f"{path.name} has a dollar without its partner: {left[left.index('$') - 40 :][:80]}"
    assert found > 30
