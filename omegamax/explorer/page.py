"""The page `page.html`, which `make explorer` builds from the folder `explorer/` of the repository, and data in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).with_name("page.html")
_DATA = re.compile(r'(<script type="application/json" id="omegamax-data">)(.*?)(</script>)', re.DOTALL)
_DIGEST = re.compile(r'<meta name="omegamax-sources" content="([0-9a-f]+)">')

# Inside a script element, markup ends where "</script" stands and changes its meaning at "<!--"; the two separators end
# a line for some readers of JSON.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def explorer_page(data: Mapping[str, Any] | None = None) -> str:
    """Returns the page as one text, which needs no other file and no network.

    `data` becomes a JSON object that the page reads when it starts: `view` and `state` say what is shown first, `embed`
    leaves the header out, other keys belong to the views. Texts inside may hold anything, markup too.
    """
    page = _PAGE.read_text(encoding="utf-8")
    if data is None:
        return page
    try:
        text = json.dumps(dict(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"explorer_page: data must be made of texts, finite numbers, lists and dictionaries, got {error}; "
            "turn tensors into lists"
        ) from error
    escaped = re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPES[found[0]], text)
    return _DATA.sub(lambda found: found[1] + escaped + found[3], page, count=1)


def source_digest() -> str:
    """Returns the number of the sources that the page was built from."""
    found = _DIGEST.search(_PAGE.read_text(encoding="utf-8"))
    assert found is not None, "page.html has no digest"
    return found[1]
