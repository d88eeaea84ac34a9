"""Generated handwriting: letters that lie on their glyphs, writers of splits, strokes, pictures, wrong texts."""

import sys
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("HersheyFonts")

from omegamax.data.handwriting import (
    LETTERS,
    PenWriter,
    check_letters,
    check_text,
    draw_writer,
    draw_writings,
    write_by_hand,
)
from omegamax.data.pen_fonts import PEN_FONTS, PRINTABLE, load_pen_font
from omegamax.data.pen_svg import strokes_of, strokes_to_svg

STEADY = PenWriter("plain", slant=0.3, width=0.9, height=1.1, spacing=0.1, unsteadiness=0.0, wobble=0.0)


def distance_to_line(point, line):
    """The least distance of a point to the segments of a line (n, 2)."""
    if len(line) == 1:
        return float(np.hypot(*(point - line[0])))
    begin, way = line[:-1], np.diff(line, axis=0)
    share = ((point - begin) * way).sum(1) / (way**2).sum(1)
    nearest = begin + np.clip(share, 0, 1)[:, None] * way
    return float(np.hypot(*(point - nearest).T).min())


@pytest.mark.parametrize("font", PEN_FONTS)
def test_a_steady_hand_stays_on_the_lines_of_the_font(font):
    writer = STEADY._replace(font=font)
    writing = write_by_hand("jazz by fox", writer, np.random.default_rng(0))
    places = writing.points[:, :2].astype(float).cumsum(0)
    places[:, 0] += writer.slant * places[:, 1]  # undo the slant, then the size
    places /= [writer.width, writer.height]
    glyphs, right = load_pen_font(font), 0.0
    for number, character in enumerate(writing.text):
        lines = [stroke + [right, 0] for stroke in glyphs[character].strokes]  # noqa: RUF005
        mine = places[writing.letters == number]
        assert (len(mine) == 0) == (character == " ")
        for point in mine:
            assert min(distance_to_line(point, line) for line in lines) < 1e-3
        for line in lines:  # no stroke is left out
            assert np.hypot(*(mine - line[-1]).T).min() < 1e-3
        right += glyphs[character].width + (writer.spacing if font == "plain" else 0)
    assert (np.diff(writing.letters) >= 0).all() and writing.points[-1, 2] == 1


def test_every_character_has_strokes_and_dots_are_points():
    for font in PEN_FONTS:
        glyphs = load_pen_font(font)
        assert all(glyphs[character].strokes for character in PRINTABLE if character != " ")
        assert sorted(len(stroke) for stroke in glyphs["i"].strokes)[0] == 1  # its dot
    assert len(load_pen_font("plain")["w"].strokes) == 1  # four lines of the package, joined


def test_letters_of_the_joined_font_meet():
    writing = write_by_hand("ell", STEADY._replace(font="joined"), np.random.default_rng(0))
    assert writing.points[:, 2].sum() == 1 and writing.points[-1, 2] == 1
    apart = write_by_hand("ell", STEADY, np.random.default_rng(0))
    assert apart.points[:, 2].sum() >= 3


def test_splits_have_writers_of_their_own_and_fewer_are_the_beginning():
    some, more = draw_writings(3, "train", seed=4), draw_writings(6, "train", seed=4)
    assert [each.text for each in some] == [each.text for each in more[:3]]
    assert all((one.points == other.points).all() for one, other in zip(some, more))
    assert all(3 <= len(each.text) <= 6 and set(each.text) <= set(LETTERS) for each in more)
    hands = {split: {draw_writer(split, n) for n in range(20)} for split in ("train", "dev", "test", "lessons")}
    assert len(set.union(*hands.values())) == 80
    assert draw_writer("train", 0, seed=1) != draw_writer("train", 0, seed=-1)
    with pytest.raises(ValueError, match="split must be one of train, dev, test, lessons, got 'other'"):
        draw_writings(1, "other")


def test_strokes_and_their_picture():
    points = np.array([[1.0, 0, 0], [1, 1, 1], [2, 0, 1], [0, 1, 0], [1, 0, 0]])
    strokes = strokes_of(points)
    assert [stroke.tolist() for stroke in strokes] == [[[1, 0], [2, 1]], [[4, 1]], [[4, 2], [5, 2]]]
    picture = ElementTree.fromstring(strokes_to_svg(strokes, 'a<"b"'))
    assert picture.get("aria-label") == 'a<"b"'
    (path,) = picture
    numbers = [float(x) for x in path.get("d").replace("M", " ").replace("L", " ").split()]
    places = np.array(numbers).reshape(-1, 2)
    assert path.get("d").count("M") == 3 and len(places) == 6  # the dot is a line without length
    np.testing.assert_allclose(places[1] - places[0], places[5] - places[4] + [0, 24], atol=0.11)
    assert strokes_of(points[:0]) == [] and ElementTree.fromstring(strokes_to_svg([], "")) is not None


def test_wrong_letters_and_texts():
    with pytest.raises(ValueError, match="letters must be different printable characters of ASCII, got 'aba'"):
        check_letters("aba")
    with pytest.raises(ValueError, match="letters must be different"):
        check_letters("é")
    with pytest.raises(ValueError, match="text must be of the letters 'ab', got 'abc', with 'c'"):
        check_text("abc", "ab")
    with pytest.raises(ValueError, match="name must be one of plain, joined, got 'bold'"):
        load_pen_font("bold")


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "HersheyFonts", None)
    with pytest.raises(ImportError, match=r"omegamax\[handwriting\]"):
        load_pen_font.__wrapped__("plain")
