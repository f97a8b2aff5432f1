"""Splitting text into search words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.plans.stores.search_words import parse_query, split_words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Refactor the Parser", ["refactor", "the", "parser"]),
        ("src/foo_bar.py", ["src", "foo", "bar", "py"]),
        ("Straße CAFÉ", ["strasse", "cafe"]),
        ("Cafe\u0301", ["cafe"]),
        ("画面abc修正", ["画", "面", "abc", "修", "正"]),
        ("ｆｕｌｌ", ["full"]),
        ("'\"*:&|!<>()", []),
        ("", []),
    ],
)
def test_a_text_is_cut_and_folded(text: str, found: list[str]):
    assert split_words(text) == found


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_plain_letters_are_cut_the_same_way_beside_others(text: str):
    assert [*split_words(text), "e"] == split_words(f"{text} é")


def test_signs_that_change_a_letter_of_another_script_stay():
    assert split_words("が") == ["が"] != split_words("か")


def test_a_long_text_is_found_by_its_beginning():
    assert len(split_words("word " * 100_000)) < 4000


def test_a_question_asks_each_word_once_and_not_for_ever():
    assert parse_query("b a b") == ["b", "a"]
    assert len(parse_query(" ".join(map(str, range(1000))))) == 20


def test_words_are_never_longer_than_a_database_takes():
    assert [len(word) for word in split_words("x" * 5000)] == [60]
