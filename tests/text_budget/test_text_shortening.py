"""Long text is cut to its ends or to those of its paragraphs; text that fits is unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.kernel.text_budget.shortening import (
    count_json_tokens,
    fits_whole,
    shorten_json,
    shorten_text,
    shorten_to_sentence,
    summarize_text,
    to_compact_json,
)
from deepwork.kernel.text_budget.tokens import estimate_tokens
from effort import measure_effort

ENGLISH = "".join(f"Sentence number {n} of this long text says something. " for n in range(300))
JAPANESE = "".join(f"これは{n}番目の文です。" for n in range(300))
CODE = "x = 1\n" * 40
ISSUE = f"""\
# The till

Some words to begin with. {"Then a lot of chatter follows. " * 30}The till must never lose an order.

## Acceptance

- every order is kept
- a receipt is printed

```python
{CODE}```

{"More chatter is here. " * 30}
"""

texts = st.sampled_from(
    [ENGLISH, JAPANESE, ISSUE, "x" * 5000, "\n" * 5000, "- a\n" * 2000, '{"a":1},' * 1000]
)
words = st.sampled_from(["", "a", "key", "日本語", '"quoted"', "long words " * 30, "x" * 300, ENGLISH])
jsons = st.recursive(
    st.sampled_from([None, True, 0, -1.5, 2**53]) | words,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(texts | st.text(max_size=2000), st.integers(-5, 500))
def test_shortened_text_stays_within_the_budget(text: str, room: int):
    for compress in (shorten_text, summarize_text, shorten_to_sentence):
        assert estimate_tokens(compress(text, room)) <= max(room, 0)


@given(st.text(max_size=500))
def test_text_that_fits_is_not_changed(text: str):
    room = estimate_tokens(text)

    assert shorten_text(text, room) == summarize_text(text, room) == text


def test_long_text_keeps_whole_sentences_of_both_ends_and_counts_omitted_characters():
    head, gap, tail = shorten_text(ENGLISH, 200).split("\n")

    left_out = int(gap.removeprefix("[… ").removesuffix(" characters left out …]").replace(",", ""))
    assert ENGLISH.startswith(head)
    assert head.endswith("something.")
    assert tail.startswith("Sentence number")
    assert ENGLISH.endswith(tail)
    assert left_out == len(ENGLISH) - len(head) - len(tail)


def test_text_without_spaces_is_cut_between_sentences():
    head, _, tail = shorten_text(JAPANESE, 200).split("\n")

    assert head.endswith("。")
    assert tail.startswith("これは")


def test_a_small_budget_keeps_only_the_beginning():
    assert shorten_text("The store is built. " * 50, 6) == "The store is…"
    assert shorten_text("これは文です。" * 50, 6) == "これは文で…"
    assert shorten_text(ENGLISH, 0) == shorten_text(JAPANESE, 1) == ""


def test_most_of_the_budget_is_used():
    assert estimate_tokens(shorten_text(ENGLISH, 1000)) > 900
    assert estimate_tokens(shorten_text(JAPANESE, 1000)) > 900


def test_a_summary_keeps_the_structure_and_the_ends_of_paragraphs():
    said = summarize_text(ISSUE, 200)

    assert said.startswith("# The till\nSome words to begin with.")
    assert "The till must never lose an order." in said
    assert "## Acceptance\n- every order is kept\n- a receipt is printed" in said
    assert "x = 1\nx = 1\nx = 1\n… 37 more lines\n```" in said
    assert said.count("chatter") <= 2


def test_text_of_every_language_is_summarized_by_the_same_rule():
    first, last = "注文は店で受け付けます。", "注文を失ってはなりません。"

    assert summarize_text(f"# 店\n\n{first}{JAPANESE}{last}", 80) == f"# 店\n{first}{last}"


def test_a_larger_budget_keeps_more_of_every_paragraph():
    assert summarize_text(ISSUE, 700).count("chatter") > summarize_text(ISSUE, 200).count("chatter")


def test_shortening_to_a_sentence_keeps_the_first_one():
    assert shorten_to_sentence("  It is\n built. And more. ", 40) == "It is built."


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(words, jsons, max_size=6) | st.lists(jsons, max_size=20), st.integers(3, 600))
def test_shortened_json_fits_the_budget_and_keeps_its_type(value: object, room: int):
    small = shorten_json(value, room)

    assert count_json_tokens(small) <= room
    assert type(small) is type(value)
    assert small == value or not fits_whole(value, room - 4)


def test_long_texts_and_lists_are_shortened_before_short_ones():
    plan = {"approach": ENGLISH, "steps": [f"Step {n}" for n in range(1000)], "risk": "rain"}

    small = shorten_json(plan, 300)

    assert list(small) == ["approach", "steps", "risk"]
    assert small["risk"] == "rain"
    assert small["approach"].startswith("Sentence number 0")
    assert small["steps"][:2] == ["Step 0", "Step 1"]
    assert small["steps"][-1] == f"and {1001 - len(small['steps'])} more"


def test_deeply_nested_values_are_left_out():
    deep: dict[str, object] = {"text": ENGLISH}
    for _ in range(60):
        deep = {"in": deep}

    assert "…" in to_compact_json(shorten_json(deep, 200))


@pytest.mark.parametrize(
    "text", [ENGLISH, JAPANESE, ISSUE, "x", " ", "\n", "a. ", "- a\n", '{"a":1},', "é", "```\n"]
)
def test_a_megabyte_is_shortened_quickly(text: str):
    long = text * (10**6 // len(text))

    def compress() -> None:
        shorten_text(long, 4000)
        summarize_text(long, 4000)
        shorten_json({"long": long, "list": [long] * 9}, 4000)

    assert measure_effort(compress, enough=300) < 300
