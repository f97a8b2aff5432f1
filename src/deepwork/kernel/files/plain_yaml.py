"""Reads simple YAML mappings without a parser of YAML, whose import takes as long as a small command.

`load_yaml` says what a file means: this module reads the same from what it can read, and leaves the rest.
"""

from __future__ import annotations

import re
from typing import Any

LITERALS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORD = "[A-Za-z0-9_./][A-Za-z0-9_./-]*"
_TEXT = "[A-Za-z0-9_./ -]*"
_VALUE = rf'{_WORD}|"{_TEXT}"|\'{_TEXT}\'|\[{_WORD}(?:, {_WORD})*\]'
_LINE = rf"(?:([a-z_]+):(?: +({_VALUE}))?)?(?:(?:^| +)#[ -~]*)? *"


def read_plain_mapping(text: str) -> dict[str, Any] | None:
    """Read a mapping of words, quoted words and lists of words, one to a line; None if there is more."""
    found: dict[str, Any] = {}
    for line in text.split("\n"):
        match = re.fullmatch(_LINE, line)
        if match is None or match[1] in found:
            return None
        key, value = match.groups("")
        if not key:
            continue
        if value.startswith(("'", '"')):
            found[key] = value[1:-1]
            continue
        is_list = value.startswith("[")
        words = value[1:-1].split(", ") if is_list else [value]
        if any(word[:1] in _NUMBER_CHARS and not _is_integer(word) for word in words if word):
            return None
        read = [int(word) if _is_integer(word) else LITERALS.get(word, word) for word in words]
        found[key] = read if is_list else read[0]
    return found


_NUMBER_CHARS = "0123456789."


def _is_integer(word: str) -> bool:
    return word.isdigit() and len(word) < 16 and (word == "0" or word[0] != "0")
