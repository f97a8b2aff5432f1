"""Splitting text into search words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.work.plans.stores.search_store import parse_query, split_words


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
def test_text_is_split_into_normalized_words(text: str, found: list[str]):
    assert split_words(text) == found


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_ascii_text_is_split_the_same_way_next_to_other_scripts(text: str):
    assert [*split_words(text), "e"] == split_words(f"{text} é")


def test_diacritics_of_non_latin_scripts_are_kept():
    assert split_words("が") == ["が"] != split_words("か")


def test_only_the_beginning_of_a_long_text_is_indexed():
    assert len(split_words("word " * 100_000)) < 4000


def test_a_query_has_unique_words_and_a_maximum_length():
    assert parse_query("b a b") == ["b", "a"]
    assert len(parse_query(" ".join(map(str, range(1000))))) == 20


def test_long_words_are_truncated_to_the_index_limit():
    assert [len(word) for word in split_words("x" * 5000)] == [60]
