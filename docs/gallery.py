"""Draws the pictures of the pages below into docs/images, by running the code that the pages show.

python docs/gallery.py                      # all of them
python docs/gallery.py tutorials/*.md       # some, as they are called in docs/
"""

import os
import re
import sys
from pathlib import Path

import torch
from PIL import Image

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAX_BYTES = 80_000
PAGES = [
    "plots.md",
    "sparse_attention.md",
    "timeseries_estimators.md",
    *(f"tutorials/{path.name}" for path in sorted((DOCS / "tutorials").glob("*.md"))),
]


def main() -> None:
    torch.set_num_threads(1)
    os.chdir(DOCS / "images")
    for page in sys.argv[1:] or PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        namespace: dict = {}
        for match in BLOCK.finditer(text):
            if ">>>" not in match.group(1) and "write_" not in match.group(1):  # no files but pictures
                exec(match.group(1), namespace)
        for name in re.findall(r'savefig\(\s*"(.+?\.png)"[^)]*\)', text):
            print(f"{shrunk(Path(name)):6d}  {name}")


def shrunk(path: Path) -> int:
    """Stores the picture with as many colours as fit, and returns its size in bytes."""
    picture = Image.open(path).convert("RGB")
    if picture.width > 1000:  # pages show them smaller
        picture = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS)
    for colours in (192, 96, 48, 24):
        picture.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < MAX_BYTES:
            return path.stat().st_size
    raise SystemExit(f"gallery: {path.name} has {path.stat().st_size} bytes, more than {MAX_BYTES}; draw less of it")


if __name__ == "__main__":
    main()
