"""How texts are cut into words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.plans.words import asked, words


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
    assert words(text) == found


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_plain_letters_are_cut_the_same_way_beside_others(text: str):
    assert [*words(text), "e"] == words(f"{text} é")


def test_signs_that_change_a_letter_of_another_script_stay():
    assert words("が") == ["が"] != words("か")


def test_a_long_text_is_found_by_its_beginning():
    assert len(words("word " * 100_000)) < 4000


def test_a_question_asks_each_word_once_and_not_for_ever():
    assert asked("b a b") == ["b", "a"]
    assert len(asked(" ".join(map(str, range(1000))))) == 20


def test_words_are_never_longer_than_a_database_takes():
    assert [len(word) for word in words("x" * 5000)] == [60]
