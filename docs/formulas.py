r"""An extension of Python-Markdown: formulas in LaTeX become MathML, which browsers draw without a script.

    $\Omega(p)$ in a line, and between $$ ... $$ as a paragraph of its own

`make docs` puts this folder on the path of Python, so that mkdocs.yml can name the extension.
"""

import re
import xml.etree.ElementTree as ElementTree

from latex2mathml.converter import convert
from markdown import Extension
from markdown.blockprocessors import BlockProcessor
from markdown.inlinepatterns import InlineProcessor

# No space inside the dollars, and no digit after the second: "from $5 to $10" is no formula.
INLINE = r"(?<![\\$\w])\$(?![\s$])([^$\n]*[^\s$\\])\$(?![\d$])"
# What latex2mathml leaves as it is: (pattern, replacement)
REPAIRS = [
    # Bars of norms are as high as their letter, and have no space beside them.
    (r"<mo>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'),
    # Names of functions are no operators, which have space on both sides; the letter in "log p" has some before it.
    (r"<mo>([a-z]{2,})</mo>", r"<mi>\1</mi>"),
    (
        r"(?<!<msub>)(?<!<msup>)(?<!<munder>)(?<!<msubsup>)(<mi>[a-z]{2,}</mi>)(?=<m(?:i|n|sub|sup|subsup)>)",
        r'\1<mspace width="0.17em" />',
    ),
    # Capital Greek letters are upright.
    (r"<mi>(&#x003(?:9[1-9A-F]|A[0-9]);)</mi>", r'<mi mathvariant="normal">\1</mi>'),
]
BEFORE_BACKSLASHES = 185  # after code (190), before escapes (180)


def mathml(latex: str, display: str) -> str:
    """The formula as a <math> element. An unknown command would be drawn as text, so it raises."""
    text = convert(latex, display=display)
    for pattern, replacement in REPAIRS:
        text = re.sub(pattern, replacement, text)
    try:
        unknown = [each for each in ElementTree.fromstring(text).itertext() if each.startswith("\\")]
    except ElementTree.ParseError:
        unknown = ["a column mark outside a table"]  # its & is not escaped
    if unknown:
        raise ValueError(
            f"formulas: latex2mathml must know every command, got {unknown} in {latex!r}; write it otherwise"
        )
    return text


class Inline(InlineProcessor):
    def handleMatch(self, match, data):  # noqa: N802
        return self.md.htmlStash.store(mathml(match[1], "inline")), match.start(0), match.end(0)


class Display(BlockProcessor):
    r"""A block that starts and ends with two dollars. On a narrow screen it is broken where it has \\qquad."""

    def test(self, parent, block):
        return re.fullmatch(r"\$\$.+\$\$", block.strip(), re.DOTALL) is not None

    def run(self, parent, blocks):
        latex = blocks.pop(0).strip()[2:-2].strip()
        parts = [latex] if r"\begin" in latex else re.split(r"\\qquad", latex)
        box = ElementTree.SubElement(parent, "div", {"class": "formula"})
        box.text = self.parser.md.htmlStash.store("".join(mathml(part, "block") for part in parts))


class Formulas(Extension):
    def extendMarkdown(self, md):  # noqa: N802
        md.inlinePatterns.register(Inline(INLINE, md), "formula", BEFORE_BACKSLASHES)
        md.parser.blockprocessors.register(Display(md.parser), "formulas", 95)


def makeExtension(**options):  # noqa: N802
    return Formulas(**options)
