"""Split text into search words: folded identically for every database, and usable for every script."""

from __future__ import annotations

import re
import unicodedata

_MAX_TEXT_LENGTH = 16 * 1024
_MAX_WORD_LENGTH = 60
_MAX_QUERY_WORDS = 20

# Scripts written without spaces: every character counts as a word.
_UNSPACED_SCRIPT_PATTERN = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[\U00020000-\U0003ffff])"
)
_WORD_PATTERN = re.compile(r"[^\W_]+")
_ASCII_FOLDING = bytes.maketrans(
    bytes(range(128)),
    "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128)).encode(),
)
_ACCENT_PATTERN = re.compile("[\u0300-\u036f]")


def split_words(text: str) -> list[str]:
    """Return the words of the text; of long text, those at its beginning."""
    if text.isascii():  # the common case, where only letter case needs folding
        words = text[:_MAX_TEXT_LENGTH].encode().translate(_ASCII_FOLDING).decode().split()
        return [word[:_MAX_WORD_LENGTH] for word in words]
    return [
        word[:_MAX_WORD_LENGTH]
        for word in _WORD_PATTERN.findall(
            _UNSPACED_SCRIPT_PATTERN.sub(r" \1 ", _remove_case_and_accents(text[:_MAX_TEXT_LENGTH]))
        )
    ]


def parse_query(query: str) -> list[str]:
    """Return the distinct words of a search query, at most 20."""
    return list(dict.fromkeys(split_words(query)))[:_MAX_QUERY_WORDS]


def _remove_case_and_accents(text: str) -> str:
    """Remove case and accents, so that a query without them matches too."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKC", _ACCENT_PATTERN.sub("", unicodedata.normalize("NFKD", apart)))
