"""The files from which the page is made, and one number for all of them.

The page records that number, so a test without compiler and Node can say whether the page is older than its sources.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPLORER = ROOT / "explorer"
KERNELS = [*sorted((EXPLORER / "wasm").glob("*.cpp")), ROOT / "csrc/sparsemap/kernels.cpp"]  # what is compiled
INCLUDE_PATH = [EXPLORER / "wasm/single_thread", ROOT / "csrc"]

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def included(source: Path) -> set[Path]:
    """Returns a C++ file and all headers of ours that it includes, directly or not."""
    found: set[Path] = set()
    todo = [source]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            candidates = [directory / name for directory in (path.parent, *INCLUDE_PATH)]
            todo += [next(candidate for candidate in candidates if candidate.is_file())]
    return found


def source_files() -> list[Path]:
    """Returns every file that the bytes of the page depend on."""
    kernels = set().union(*(included(path) for path in KERNELS))
    pages = [path for path in (EXPLORER / "src").rglob("*") if path.is_file()]
    tools = [EXPLORER / name for name in ("build.py", "sources.py", "package.json", "package-lock.json")]
    return sorted({*kernels, *pages, *tools})


def digest(paths: list[Path], more: str = "") -> str:
    """Returns a number for the names and the contents of files, and for some more text."""
    total = hashlib.sha256(more.encode())
    for path in paths:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()[:32]
