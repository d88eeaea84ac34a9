"""Every figure equals its golden image. `python tests/plots/regenerate.py` draws the images again."""

import inspect

import golden_figures
import pytest
import torch
from golden_figures import FIGURES, GOLDEN, difference, pixels, rendered

from omegamax import plots

TOLERANCE = 5.0  # of 255; text that another version of FreeType draws stays below, a missing line does not


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.thinned(9)
def test_figure_looks_the_same(name, tmp_path):
    drawn = rendered(FIGURES[name](), tmp_path / "drawn.png")
    assert difference(drawn, pixels(GOLDEN / f"{name}.png")) < TOLERANCE, (
        f"see {tmp_path}; regenerate.py if it is meant"
    )


def test_every_figure_has_a_golden_image():
    functions = {name for name, thing in vars(plots).items() if inspect.isfunction(thing) and not name.startswith("_")}
    public = functions - {"clusters_of", "explore", "explore_row"}  # the last two make pages, not figures
    by_another = {"alignment_matrices": "alignment_comparison"}  # which calls it
    assert {by_another.get(name, name) for name in public} == set(FIGURES)
    assert {path.stem for path in GOLDEN.glob("*.png")} == set(FIGURES)


def test_differences_are_seen(tmp_path):
    """A changed figure must exceed the tolerance."""
    weights = torch.full((5, 9), 1 / 9)
    others = {
        "attention_map": plots.attention_map(weights, list("abcde"), ["deux"] * 9, title="t"),
        "learning_curves": plots.learning_curves({"softmax": [0.2, 0.6, 0.8], "mine": [0.1, 0.9]}),
        "attention_lines": plots.attention_lines(torch.ones(2, 4, 5) / 5, list("abcd"), list("vwxyz")),
    }
    for name, figure in others.items():
        assert difference(rendered(figure, tmp_path / f"{name}.png"), pixels(GOLDEN / f"{name}.png")) > TOLERANCE, name


def test_scores_of_the_golden_images_differ():
    scores = golden_figures._scores(5, 9)
    assert scores.unique().numel() == 45 and scores.min() < -1.5 and scores.max() > 1.5
