"""The estimate is never below what the real tokenizers count, and for common texts close to it."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from deepwork.kernel.text_budget import tokens
from deepwork.kernel.text_budget.tokens import KNOWN_FILE, estimate_tokens, fits, measure_head, measure_tail
from effort import measure_effort

CHANCE = random.Random(7)
SIGNS = [sign for sign in string.punctuation if sign != "'"]
DASHES_AND_QUOTES = "–—‘’“”…"

TEXTS = {
    "prose": "The shop takes orders and never loses one. When a payment fails, we retry it three times; then "
    "somebody is told. Each order has lines, and each line has a price — don't forget the taxes!\n\n",
    "markdown": "## Steps\n\n1. **Read** the `config.yml` file.\n2. Write a test, e.g. `pytest -q`.\n\n| a | b |\n|---|---|\n| 1 | x |\n",
    "code": Path(tokens.__file__).read_text(encoding="utf-8"),
    "JSON": json.dumps(
        [{"id": "tk_9x0q2m7b1z4k", "n": [1, 2.5, None, True], "s": 'a "b"\\ \n\t', "e": {}, "l": []}] * 5
    ),
    "minified JavaScript": "function a(b,c){return b?c(b.d,!0):void 0}var e=[],f={g:1};for(let i=0;i<e.length;i++)f[e[i]]=a(i,x=>x.y&&x.z);",
    "UUIDs": "\n".join(str(uuid.UUID(int=CHANCE.getrandbits(128))) for _ in range(30)),
    "base64": base64.b64encode(CHANCE.randbytes(600)).decode(),
    "bytes": CHANCE.randbytes(600).decode("latin-1"),
    "Japanese": "このタスクは、注文を確定した後に在庫を確認し、足りない場合は担当者に通知します。エラー時は三回まで再試行してください。",
    "Chinese": "本任务要求在用户确认订单之后检查库存，如果库存不足，则通知负责人。发生错误时最多重试三次。",
    "Korean": "이 작업은 사용자가 주문을 확정한 후 재고를 확인하고 부족한 경우 담당자에게 알리는 것입니다.",
    "Arabic": "تتطلب هذه المهمة التحقق من المخزون بعد تأكيد الطلب وإخطار المسؤول إذا كان غير كاف.",
    "Hindi": "इस कार्य में आदेश की पुष्टि के बाद भंडार की जाँच करना और सूचित करना आवश्यक है।",
    "Thai": "งานนี้ต้องตรวจสอบสินค้าคงคลังหลังจากผู้ใช้ยืนยันคำสั่งซื้อ และแจ้งผู้รับผิดชอบ",
    "Russian": "Эта задача требует проверить наличие товара и уведомить ответственного.",
    "German": "Die Bestellung wird geprüft; fällt sie größer aus, so erhält der Kunde natürlich Rückmeldung.",
    "Georgian": "ეს დავალება მოითხოვს შეკვეთის შემოწმებას და პასუხისმგებელი პირის გაფრთხილებას.",
    "emoji": "Done 🎉👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇯🇵 ✅ ❤️‍🔥 1️⃣",
    "marks": "Z̸̢a̴l̵g̶ò̷ ñ é e\u0301\u0302\u0303",
    "rare scripts": "𒀀𒁀 ᚠᚢᚦ ⵣⴰⵢ 𐌰𐌱 ꦲꦏ ᏣᎳᎩ \ue000\uf8ff",
    "spaces": " " * 500,
    "new lines": "\n" * 500,
    "one letter": "a" * 700,
    "other white space": "\t\t\tx\r\n\r\n \t \u3000\xa0 7",
}
ALPHABETS = [
    st.characters(exclude_categories=["Cs"]),
    st.characters(max_codepoint=127),
    st.sampled_from(string.ascii_letters),
    st.sampled_from("qjxzvkwQJXZ"),
    st.sampled_from(string.digits + "abcdef-_"),
    st.sampled_from(string.punctuation + " "),
    st.sampled_from(" \n\t\r\u3000"),
    st.characters(min_codepoint=0x80, max_codepoint=0x7FF, exclude_categories=["Cs"]),
    st.characters(min_codepoint=0x900, max_codepoint=0xE7F),
    st.characters(min_codepoint=0x3000, max_codepoint=0x9FFF),
    st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
    st.characters(min_codepoint=0x1F300, max_codepoint=0x1FAFF) | st.sampled_from("\u200d\ufe0f"),
]


@cache
def load_tokenizers() -> tuple[Any, Any]:
    return openai.o200k_base(), openai.cl100k_base()


def count_tokens(text: str) -> int:
    return max(int(tokenizer.count(text)) for tokenizer in load_tokenizers())


@cache
def list_characters() -> str:
    return "".join(KNOWN_FILE.read_text(encoding="utf-8").split("\n\n")[2].split())


def pieces() -> st.SearchStrategy[str]:
    """Words and punctuation that the estimate knows, with arbitrary text between them."""
    known = st.sampled_from(sorted(tokens._load_known()[0])) | st.sampled_from(list_characters())
    return known | st.sampled_from(" \n.'é\\0A")


@pytest.mark.parametrize("kind", TEXTS)
def test_no_common_text_costs_more_than_estimated(kind: str):
    text = TEXTS[kind]

    for form in (
        text,
        text * 7,
        json.dumps(text),
        json.dumps(text, ensure_ascii=False),
        text[::-1],
        text.upper(),
    ):
        assert estimate_tokens(form) >= count_tokens(form)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(*(st.text(alphabet, max_size=30) for alphabet in ALPHABETS)), max_size=8).map("".join)
)
@example("因회最ล ２152552630")  # tokens across characters, and digits that are counted in threes
@example("nxFind m'Defaults '哈!\\\",\\Which （\n/\\")  # tokens across words and signs
def test_no_random_text_costs_more_than_estimated(text: str):
    assert estimate_tokens(text) >= count_tokens(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces(), max_size=12).map("".join))
def test_combinations_of_known_pieces_cost_no_more_than_estimated(text: str):
    assert estimate_tokens(text) >= count_tokens(text)


def test_every_known_piece_costs_at_most_its_stored_number_of_tokens():
    for piece, cost in tokens._load_known()[0].items():
        assert count_tokens(piece) <= cost, piece


def test_a_known_word_costs_the_same_after_a_space_and_one_more_after_punctuation():
    for word, cost in tokens._load_known()[0].items():
        if word.isalpha():
            assert count_tokens(f" {word}") <= cost, word
            assert all(
                count_tokens(sign + word) <= cost + 1 for sign in [*SIGNS, *DASHES_AND_QUOTES, "\t", "n"]
            ), word
            assert count_tokens(f"'{word}") <= cost + 2, word


def test_every_known_character_is_one_token_alone_and_next_to_another():
    assert all(count_tokens(character) == 1 for character in list_characters())
    assert all(
        count_tokens(a + b) <= 2 for a in CHANCE.sample(list_characters(), 100) for b in list_characters()
    )


@pytest.mark.parametrize(
    ("kind", "most"),
    [("prose", 1.5), ("markdown", 1.5), ("code", 1.8), ("JSON", 1.5), ("Japanese", 1.5), ("Chinese", 1.6)],
)
def test_estimates_of_common_texts_are_not_far_too_high(kind: str, most: float):
    assert estimate_tokens(TEXTS[kind]) <= most * count_tokens(TEXTS[kind])


@given(st.text(max_size=400), st.integers(0, 200))
def test_text_fits_if_its_estimate_fits(text: str, room: int):
    assert fits(text, room) == (estimate_tokens(text) <= room)


@given(st.sampled_from(list(TEXTS.values())).map(lambda text: text * 5), st.integers(0, 300))
def test_the_measured_ends_of_a_text_fit_the_budget(text: str, room: int):
    head, tail = measure_head(text, room), measure_tail(text, room)

    assert estimate_tokens(text[:head]) <= room + 2
    assert estimate_tokens(text[len(text) - tail :]) <= room + 2
    assert head == len(text) or estimate_tokens(text[: head + 70]) > room


_PIECES = [" ", "  ", " " * 70, "price", "Zq", "x" * 70, "n", "\\", "\n", "\r", "\t", ".", '"', "},{", "'", "7", "42", "é",
           "日本", "。", "“", "…", "\u00a0", "😀"]  # fmt: skip
_JOINED_PIECES = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)


@given(_JOINED_PIECES)
def test_a_text_costs_what_its_pieces_cost(text: str):
    assert estimate_tokens(text) == tokens.sum_pieces(text)


@given(_JOINED_PIECES, st.integers(0, 30))
def test_the_beginning_that_fits_is_as_long_as_possible(text: str, room: int):
    head = measure_head(text, room)

    assert tokens.sum_pieces(text[:head]) <= room + 2
    assert head == len(text) or tokens.sum_pieces(text[: head + 70]) > room


def test_only_so_many_words_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "_MAX_REMEMBERED_WORDS", 3)
    costs = tokens._WordCosts()

    found = [costs[word] for word in ("one", "two", "three", "four", "long" * 30)]

    assert found == [tokens.sum_pieces(f" {word}") for word in ("one", "two", "three", "four", "long" * 30)]
    assert set(costs) == {"four"}


def test_a_megabyte_is_estimated_quickly():
    text = TEXTS["code"] * (2**20 // len(TEXTS["code"]))

    assert measure_effort(lambda: estimate_tokens(text), enough=300) < 300
