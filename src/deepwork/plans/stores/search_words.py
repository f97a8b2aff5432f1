"""Split text into search words: folded identically for every database, and usable for every script."""

from __future__ import annotations

import re
import unicodedata

_MAX_TEXT = 16 * 1024
_MAX_WORD = 60
_MAX_ASKED = 20

# Scripts written without spaces: every character counts as a word.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
_ACCENTS = re.compile("[\u0300-\u036f]")


def split_words(text: str) -> list[str]:
    """Return the words of the text; of long text, those at its beginning."""
    if text.isascii():  # the common case, where only letter case needs folding
        return [word[:_MAX_WORD] for word in text[:_MAX_TEXT].translate(_ASCII).split()]
    return [word[:_MAX_WORD] for word in _WORD.findall(_UNSPACED.sub(r" \1 ", _fold(text[:_MAX_TEXT])))]


def parse_query(query: str) -> list[str]:
    """Return the distinct words of a search query, at most 20."""
    return list(dict.fromkeys(split_words(query)))[:_MAX_ASKED]


def _fold(text: str) -> str:
    """Remove case and accents, so that a query without them matches too."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", apart)))
