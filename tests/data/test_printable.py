"""Text from outside: characters that move the cursor, end the line or turn it around are printed as escapes."""

import unicodedata

import pytest

from omegamax.data.printable import printable, short_repr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x07\x00\x7f\x9b", "\\x07\\x00\\x7f\\x9b"),
        ("\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"),
        ("\u2028\u2029\ufeff", "\\u2028\\u2029\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("年 e\u0301 שלום می\u200cخواهم", "年 e\u0301 שלום می\u200cخواهم"),  # letters of any script stay
    ],
)
def test_escapes(text, shown):
    assert printable(text) == shown


def test_no_character_of_unicode_passes_that_hides_others():
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in (0x200C, 0x200D):
            assert printable(chr(code)).startswith("\\"), hex(code)
            assert printable(chr(code)).isascii()


def test_long_text_loses_its_middle():
    assert printable("0123456789", max_length=7) == "01 … 89"
    assert len(printable("x" * 100, max_length=50)) == 50
    assert len(short_repr(10**300)) == 80
    assert short_repr(1 << 20_000) == "a value of type int that is too long to print"
