"""Words of any script are drawn without a warning, and what no font has is named by its code point."""

import pytest
import torch

from omegamax import plots
from omegamax.plots import typesetting
from omegamax.plots.style import COLOURS, palette

WORDS = [
    "vendredi",
    "пятница",
    "Παρασκευή",
    "الجمعة",
    "יום שישי",
    "金曜日",
    "शुक्रवार",
    "วันศุกร์",
    "ორშაბათი",
    "ሰኞ",
    "😀",
    "𝄞",
    "\ud800",
]


@pytest.mark.parametrize("name", ["map.png", "map.pdf", "map.svg"])
@pytest.mark.thinned(3)
def test_every_script_is_drawn(name, tmp_path):
    figure = plots.attention_map(torch.eye(len(WORDS)), WORDS, WORDS, title=" ".join(WORDS[:-1]))
    figure.savefig(tmp_path / name)


def test_what_no_font_has_is_named():
    assert typesetting.printable("a\U000e0fffb") == "a<U+E0FFF>b"
    assert typesetting.printable("\U000e0fff") == "U+E0FFF"
    assert typesetting.printable("\ud800!") == "<U+D800>!"
    assert typesetting.printable("é пт") == "é пт"
    assert typesetting.printable("e\u0301") == "é"


def test_dollars_are_no_formula():
    figure = plots.attention_map(torch.eye(2), ["$x_", "$5"], [r"\$", r"$\frac$"], title="$ and $")
    assert figure.axes[0].get_title(loc="left") == r"\$ and \$"
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (" ", "␣"),
        ("\u202f", "␣"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("a b", "a b"),
        ("", ""),
        ("\u200f", "U+200F"),
        ("\x07", "U+0007"),
        (7, "7"),
    ],
)
def test_tokens_are_seen(given, shown):
    assert typesetting.label(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"), [("￭,", "▪,"), ("ｆｕｌｌ", "full"), ("❤\ufe0f", "❤"), ("ﷺ", "صلى الله عليه وسلم")]
)
def test_what_no_font_has_is_drawn_by_its_like(given, shown, monkeypatch):
    monkeypatch.setattr(typesetting, "_font_of", lambda one: None if one in "￭ｆｕｌﷺ" else "DejaVu Sans")
    assert typesetting.label(given) == shown


@pytest.mark.slow
def test_the_joiner_of_words_is_no_box():
    from omegamax.data.vocabulary import split_text

    figure = plots.attention_map(torch.eye(4), columns=split_text("Stop, go!", "word"))
    shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert [label.replace("￭", "▪") for label in shown] == ["Stop", "▪,", "go", "▪!"]
    assert all(typesetting._font_of(character) for label in shown for character in label)


def test_code_points_of_a_long_token_stay_whole():
    assert typesetting.label("ab" + "\U000e0fff" * 5) == "ab<U+E0FFF><U+E0FFF>…"


def test_long_tokens_end_in_an_ellipsis():
    assert typesetting.label("x" * 24) == "x" * 24
    assert typesetting.label("x" * 25) == "x" * 23 + "…"


def test_colours_of_names():
    found = palette(["softmax", "fusedmax (0.1)", "fusedmax (1)", "mine", "yours"])
    assert found["softmax"] == (COLOURS["softmax"], "-")
    assert found["fusedmax (0.1)"] == (COLOURS["fusedmax"], "-") and found["fusedmax (1)"] == (
        COLOURS["fusedmax"],
        "--",
    )
    assert len(set(found.values())) == 5
    assert len(set(palette(map(str, range(28))).values())) == 28


@pytest.mark.slow
def test_rows_have_words_of_any_script():
    plots.row_comparison(torch.randn(2), ["日本", "$x"]).draw_without_rendering()


def test_long_names_lose_their_middle():
    assert typesetting.title("x" * 48) == "x" * 48
    assert typesetting.title("run-" + "x" * 90 + "-seed1") == "run-" + "x" * 20 + "…" + "x" * 17 + "-seed1"


@pytest.mark.parametrize("text", ["x" * 300, "_hidden"])
@pytest.mark.thinned(3)
def test_any_name_has_its_place_in_every_figure(text):
    weights = torch.eye(3)
    figures = [
        plots.attention_map(weights, title=text),
        plots.attention_maps({text: weights, "b": weights}),
        plots.attention_bars({text: weights[0]}),
        plots.support_histograms({text: weights}),
        plots.matching_maps({text: weights}),
        plots.alignment_matrices({text: weights}, weights[0], weights[1]),
    ]
    with_legend = [
        plots.learning_curves({text: [0.5, 0.75]}),
        plots.accuracy_by_length({text: {1: 0.5}}),
    ]
    for figure in figures + with_legend:
        figure.draw_without_rendering()  # warns where there is no room
    shown = [[entry.get_text() for entry in figure.legends[0].get_texts()] for figure in with_legend]
    assert shown == [[f"{typesetting.title(text)}: 0.75"], [typesetting.title(text)]]
