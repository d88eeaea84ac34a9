"""The page inside a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from omegamax.explorer.page import explorer_page


@dataclass(frozen=True)
class ExplorerFrame:
    """One view of the explorer, which a notebook shows as the value of a cell.

    Arguments:
        data: what the page reads when it starts; see `explorer_page`
        height: of the frame, in pixels
    """

    data: Mapping[str, Any] = field(repr=False)
    height: int = 640

    @property
    def page(self) -> str:
        """The page as one text."""
        return explorer_page({**self.data, "embed": True})

    def save(self, path: str | Path) -> None:
        """Writes the page, with its header and all views, to the file `path`."""
        Path(path).write_text(explorer_page(self.data), encoding="utf-8")

    def _repr_html_(self) -> str:
        # The frame may run its own scripts and nothing else: it cannot see or change the notebook.
        return (
            f'<iframe srcdoc="{escape(self.page)}" sandbox="allow-scripts allow-downloads" title="omegamax explorer" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )
