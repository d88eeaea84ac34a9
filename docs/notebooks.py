"""Makes a notebook of every tutorial from its Markdown: Python blocks become cells of code, the rest cells of text.

    python docs/notebooks.py build/notebooks              # writes them, without output
    python docs/notebooks.py build/notebooks --execute    # runs them, and keeps what they print and draw

A notebook is a JSON file, so writing one needs nothing. Running them needs nbclient and ipykernel, which
`make notebooks` installs.
"""

import argparse
import json
import re
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def notebook(text: str) -> dict:
    """Returns the notebook of a page."""
    cells, end = [], 0
    for match in BLOCK.finditer(text):
        cells += [cell("markdown", prose(text[end : match.start()])), cell("code", code(match[1]))]
        end = match.end()
    cells.append(cell("markdown", prose(text[end:])))
    filled = [each for each in cells if each["source"].strip()]
    for number, each in enumerate(filled):
        each["id"] = f"cell-{number}"
    return {"cells": filled, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}


def cell(kind: str, source: str) -> dict:
    rest = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source.strip("\n"), **rest}


def prose(text: str) -> str:
    """Leaves out pictures, which the code draws, and turns links between pages into plain words."""
    text = re.sub(r"^!\[[^\]]*\]\([^)]*\)\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)


def code(block: str) -> str:
    """Takes the prompts off. What an example prints is left out, because the notebook prints it itself.

    A cell shows its last expression only, so every other one of an example is printed. A figure that is saved is shown.
    """
    if ">>>" not in block:
        return re.sub(r"^(.*)\.savefig\(\s*\"[^\"]*\"[^)]*\)$", r"display(\1)", block, flags=re.MULTILINE)
    statements: list[str] = []
    for line in block.splitlines():
        if line.startswith(">>> "):
            statements.append(line[4:])
        elif line.startswith("... ") or line == "...":
            statements[-1] += "\n" + line[4:]
    return "\n".join(shown(each) for each in statements[:-1]) + "\n" + statements[-1]


def shown(statement: str) -> str:
    """Puts print around an expression."""
    try:
        compile(statement, "example", "eval")
    except SyntaxError:
        return statement
    return f"print({statement})" if "#" not in statement else f"print(\n    {statement}\n)"


def execute(path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    page = nbformat.read(path, as_version=4)
    NotebookClient(page, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(page, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a notebook of every tutorial.")
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--execute", action="store_true", help="run them, and keep what they print and draw")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(TUTORIALS.glob("*.md")):
        path = options.folder / f"{page.stem}.ipynb"
        path.write_text(json.dumps(notebook(page.read_text(encoding="utf-8")), ensure_ascii=False, indent=1), "utf-8")
        if options.execute:
            execute(path)
        print(path)


if __name__ == "__main__":
    main()
