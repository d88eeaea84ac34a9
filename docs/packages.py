"""Prints what the extra `docs` of pyproject.toml needs, one package on a line.

`make docs` installs these and not `.[docs]`, which would compile the kernels: the site is made from the sources' text.
"""

import importlib
import sys
from pathlib import Path

toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
project = toml.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
print(*project["optional-dependencies"]["docs"], sep="\n")
