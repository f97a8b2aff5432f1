"""Text of others is printed so that it can do nothing."""

from __future__ import annotations

import json
import unicodedata

import pytest

from deepwork.kernel.foreign_text import (
    close_quotes,
    quote,
    quote_line,
    quote_value,
    remove_invisible,
    show_id,
    to_paragraph,
)


def test_no_control_or_format_character_stays():
    every_character = "".join(map(chr, range(0x110000)))

    kept = remove_invisible(every_character)

    categories = {unicodedata.category(each) for each in set(kept) - {"\n", "\t"}}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert {each for each in kept if each.isspace()} == {" ", "\n", "\t"}
    assert not {"\ufe0f", "\U000e0100", "\u034f", "\u3164"} & set(kept)


def test_letters_of_all_scripts_stay():
    text = "Grüße, Ελλάδα, Привет, 名前, שלום, नमस्ते, 😀"
    assert remove_invisible(text) == text


def test_quoted_text_is_one_line_of_json():
    assert quote('a"b\\c\nd\u2028e\x1b[0m', 100) == r'"a\"b\\c\nd e[0m"'
    assert quote_line(" a\n\n b ") == '"a b"'
    assert json.loads(quote("x" * 9, 5)) == "xxxx…"
    assert quote_line(None) == '""'


def test_a_value_is_quoted_with_its_keys():
    assert quote_value({"a\u200b": ["b\x1b", 1, None], "c": ("d",)}) == '{"a":["b",1,null],"c":["d"]}'


@pytest.mark.parametrize("id", ["tk_0a1b2c3d4e5f", "ab12cd34/write_it"])
def test_an_id_of_ours_stays_as_it_is(id: str):
    assert show_id(id) == id


@pytest.mark.parametrize("id", ["", "a b", "a\nb", 'a"b', "a/b/c", "é", None])
def test_anything_else_in_the_place_of_an_id_is_quoted(id: str | None):
    assert show_id(id) == quote_line(id)


@pytest.mark.parametrize(
    ("cut", "closed"),
    [
        ('a "b" c', 'a "b" c'),
        ('a "b', 'a "b…"'),
        ('"x"\n"a\\', '"x"\n"a…"'),
        ('"a\\\\', '"a\\\\…"'),
        ('"a\\\\\\', '"a\\\\…"'),
        ('"a\\u00', '"a…"'),
        ('"a\\"', '"a\\"…"'),
        ("plain \\", "plain \\"),
    ],
)
def test_quotes_that_were_cut_are_closed(cut: str, closed: str):
    assert close_quotes(cut) == closed


@pytest.mark.parametrize("text", ["# a", "- a", "* a", "> a", "---", "```x", "| a |", "<b>", "=== a"])
def test_a_paragraph_begins_no_block(text: str):
    assert to_paragraph(f"{text}\n# b") == f"\\{text} # b"


def test_an_ordinary_paragraph_stays_as_it_is():
    assert to_paragraph("**Sell** things. \n Soon.") == "**Sell** things. Soon."
