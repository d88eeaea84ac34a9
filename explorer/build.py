"""Builds the page of `omegamax explore`: kernels to WebAssembly, TypeScript to one script, everything into one file.

`make explorer` calls it with the Python that has the compiler (the package ziglang), after npm has installed esbuild.
The same sources give the same bytes: versions are fixed, and nothing of the machine or of the time enters the page.
"""

from __future__ import annotations

import argparse
import base64
import re
import shlex
import subprocess
import sys
from pathlib import Path

from sources import EXPLORER, INCLUDE_PATH, KERNELS, ROOT, digest, included, source_files

OBJECTS = ROOT / "build/explorer"
PAGE = ROOT / "omegamax/explorer/page.html"
MOST_BYTES = 1_500_000

# As in CMakeLists.txt: no fast-math, because zeros, ties, -inf and NaN must stay exact. Kernels throw only where there
# is no memory; the module then stops.
COMPILE = shlex.split("""
    -target wasm32-wasi -msimd128 -std=gnu++17 -O2 -fopenmp-simd -fno-math-errno -fno-trapping-math
    -fignore-exceptions -fno-rtti -DOMEGAMAX_ARCH=wasm -Wall -Wextra -Wno-unused-variable -Wno-unused-private-field
    -Wno-missing-braces -Wno-pass-failed""")
LINK = shlex.split("-target wasm32-wasi -mexec-model=reactor -O2 -s -Wl,--gc-sections -Wl,--export-memory")
BUNDLE = shlex.split("""
    --bundle --minify --format=iife --target=es2021 --charset=utf8 --legal-comments=none --log-level=warning""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page goes")
    options = parser.parse_args()
    OBJECTS.mkdir(parents=True, exist_ok=True)
    page = assemble(compile_kernels(), bundle("src/main.ts"), bundle("src/styles/page.css"))
    if len(page) > MOST_BYTES:
        sys.exit(f"build.py: the page may have {MOST_BYTES} bytes, it has {len(page)}; make it smaller")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(page)
    print(f"{options.out}: {len(page):,} bytes")


def compile_kernels() -> bytes:
    """Compiles what has changed, and links the module. Paths are relative, so that none of this machine is recorded."""
    compiler = [sys.executable, "-m", "ziglang", "c++"]
    includes = [f"-I{path.relative_to(ROOT).as_posix()}" for path in INCLUDE_PATH]
    objects = []
    for source in KERNELS:
        name = source.relative_to(ROOT).as_posix()
        version = digest(sorted(included(source)), " ".join(COMPILE))[:16]
        target = OBJECTS / f"{name.replace('/', '_')}.{version}.o"
        objects.append(target.relative_to(ROOT).as_posix())
        if not target.exists():
            print(name, flush=True)
            run([*compiler, *COMPILE, *includes, "-c", name, "-o", f"{objects[-1]}.new"])
            Path(f"{target}.new").replace(target)
    module = OBJECTS / "kernels.wasm"
    run([*compiler, *LINK, *objects, "-o", module.relative_to(ROOT).as_posix()])
    return module.read_bytes()


def bundle(entry: str) -> str:
    """Makes one script, or one style sheet, of a file and all that it imports."""
    esbuild = EXPLORER / "node_modules/.bin/esbuild"
    return run([str(esbuild), entry, *BUNDLE], folder=EXPLORER).strip()


def assemble(module: bytes, script: str, style: str) -> bytes:
    """Puts everything into the frame of the page."""
    frame = (EXPLORER / "src/page.html").read_text(encoding="utf-8")
    parts = {
        "digest": digest(source_files()),
        "style": style.replace("</", "<\\/"),
        "kernels": base64.b64encode(module).decode(),
        "script": re.sub(r"</(?=script)|<!--", lambda found: found[0].replace("<", "\\x3c"), script),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], frame).encode()


def run(command: list[str], *, folder: Path = ROOT) -> str:
    """Runs a tool and returns what it prints; ends this program where the tool fails."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode != 0:
        sys.exit(f"build.py: {' '.join(map(str, command[:4]))} ... failed; see its messages above")
    return done.stdout


if __name__ == "__main__":
    main()
