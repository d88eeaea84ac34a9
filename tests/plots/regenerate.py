"""Draws the golden images again, after an intended change of the figures.

    python tests/plots/regenerate.py [name ...]

Then look at every picture in tests/plots/golden before committing it.
"""

import sys

from golden_figures import FIGURES, GOLDEN, rendered


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        path = GOLDEN / f"{name}.png"
        rendered(FIGURES[name](), path)
        print(f"{path.stat().st_size:6d}  {path.name}")


if __name__ == "__main__":
    main()
