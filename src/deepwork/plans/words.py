"""Text as words to be found by: folded alike for every database, and cut so that no script is left out."""

from __future__ import annotations

import re
import unicodedata

_MAX_TEXT = 16 * 1024
_MAX_WORD = 60
_MAX_ASKED = 20

# Scripts that are written without spaces: every sign counts as a word.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
_ACCENTS = re.compile("[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """The words of a text, of its beginning if it is long."""
    if text.isascii():  # as most is, and then there is nothing to fold but case
        return [word[:_MAX_WORD] for word in text[:_MAX_TEXT].translate(_ASCII).split()]
    return [word[:_MAX_WORD] for word in _WORD.findall(_UNSPACED.sub(r" \1 ", _folded(text[:_MAX_TEXT])))]


def asked(query: str) -> list[str]:
    """The words that somebody looks for; each once, and not more than a few."""
    return list(dict.fromkeys(words(query)))[:_MAX_ASKED]


def _folded(text: str) -> str:
    """The text without case and accents, so that whoever types neither finds it too."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", apart)))
