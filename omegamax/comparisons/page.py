"""A web page in one file: text, tables and pictures. The page loads nothing from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape as escape_markup

from omegamax.data.printable import printable

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 Georgia, "Times New Roman", serif; color: #333; }
body { max-width: 58rem; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.25rem; margin-top: 2.4rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 0.2rem; font-weight: normal; }
p.small, figcaption { color: #666; font-size: 0.88rem; }
code { font: 0.88em ui-monospace, Menlo, Consolas, monospace; background: #f4f4f4; padding: 0.1em 0.3em; }
pre code { display: block; padding: 0.7em 1em; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.8rem 0; }
.wide { overflow-x: auto; }
th, td { padding: 0.25rem 0.8rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { border-bottom: 1px solid #999; font-weight: normal; color: #666; }
td.best { font-weight: bold; }
figure { margin: 1rem 0; }
figure img { max-width: 100%; height: auto; }
.right { color: #1a7a4c; } .wrong { color: #b3341f; }
"""


def escape(text: str, *, quote: bool = True) -> str:
    """Writes a text as HTML, without characters that hide or reverse other text."""
    return escape_markup("\n".join(map(printable, text.split("\n"))), quote=quote)


class Page:
    """A web page to which parts are added from top to bottom."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str, *, level: int = 2) -> None:
        self._parts.append(f"<h{level}>{escape(text)}</h{level}>")

    def paragraph(self, text: str, *, small: bool = False) -> None:
        self._parts.append(f"<p{' class=small' if small else ''}>{escape(text)}</p>")

    def code(self, text: str) -> None:
        """Adds a command or a program."""
        self._parts.append(f"<pre><code>{escape(text)}</code></pre>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, best: Sequence[set[int]] = ()) -> None:
        """Adds a table of texts; `best` has the rows of each column that are set in bold."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = []
        for place, row in enumerate(rows):
            cells = []
            for column, cell in enumerate(row):
                bold = column < len(best) and place in best[column]
                cells.append(f"<td{' class=best' if bold else ''}>{escape(cell)}</td>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        self._parts.append(f'<div class="wide">{table}</div>')

    def verdicts(self, wanted: str, lines: Sequence[tuple[str, str, bool]]) -> None:
        """Adds the target, the output of each model, and whether it is right."""
        shown = [
            f'{escape(name)}: <span class="{"right" if right else "wrong"}">{escape(text) or "nothing"}</span>'
            for name, text, right in lines
        ]
        self._parts.append(f"<p class=small>{' &nbsp;·&nbsp; '.join([f'wanted: {escape(wanted)}', *shown])}</p>")

    def picture(self, png: bytes, *, alternative: str, caption: str = "", width: int | None = None) -> None:
        """Adds a PNG, whose bytes become part of the page; `width` is in CSS pixels."""
        encoded = base64.b64encode(png).decode()
        size = f' width="{width}"' if width else ""
        said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        image = f'<img src="data:image/png;base64,{encoded}" alt="{escape(alternative, quote=True)}"{size}>'
        self._parts.append(f"<figure>{image}{said}</figure>")

    def html(self) -> str:
        """Returns the whole page."""
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        head += f"<title>{escape(self._title)}</title><style>{_STYLE}</style>"
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n'
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )
