"""How many tokens a text costs: never fewer than o200k_base or cl100k_base would count.

Both split a text into pieces (a word with the space before it, up to three digits, a run of signs), and each
piece into tokens. A piece that is known to be one token counts as one. Of any other word we know only that
neighbours which could be one token are one, so that single letters never stand side by side: at most two
tokens in three letters. Of everything else each byte may be a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

KNOWN_FILE = Path(__file__).with_name("known_tokens.txt")
"""Words and signs (␣ is a space) of one token, those of two, and characters of one; a test checks it."""

_SIGN = r"[!-/:-@\[-`{-~]"
_OTHER = r"[^\x00-\x7f\u2010-\u2027]"  # neither ASCII nor a dash or quote as in English prose
_PIECE = re.compile(
    rf"""
      (?<=\\)n                            # of an escaped new line, which clings to the next word
    | [ ]?[A-Za-z]{{1,63}}+(?!{_OTHER})
    | [ ]?{_SIGN}{{1,63}}+(?![^\x00-\x7f]|[\r\n])
    | (?<![^\x00-\x7f])[0-9]{{1,63}}
    | (?:[ ]?[A-Za-z]{{0,63}}{_OTHER}[A-Za-z\x80-\U0010ffff]{{0,63}}|[\u2010-\u2027]){_SIGN}{{0,63}}
    | [ ]{{1,63}}(?=[ ])                  # the last space goes with what follows
    | \n{{1,8}}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_LONGEST_PIECE = 192
_PART = re.compile("[A-Z]*[a-z]+|[A-Z]+")  # of a word such as getName
_BRIDGE = re.compile("aN|d[BT]|gL|iT|k[BJ]|mA|nP|oS|u[CD]|x[A-F]|zM")  # across parts, in cl100k_base
_APART = re.compile(  # letters that are not one token in both vocabularies
    "(?=[A-Z][A-Za-z]|bq|f[jz]|g[jkq]|hj|j[gvwxyz]|k[qxz]|[lnou]q|mz|q[fgjkovyz]|rj|t[jq]|v[qz]|w[qvz]|x[ghjkquvw]"
    "|y[fjqv]|z[gjqrv])"
)


def estimate(text: str) -> int:
    """At least as many tokens as the text has."""
    return sum(map(_cost, _PIECE.findall(text)))


def fits(text: str, max_tokens: int) -> bool:
    """Whether the text costs no more than that; one that costs far more is not read to its end."""
    glimpse = 3 * max_tokens + _LONGEST_PIECE
    while glimpse < len(text):
        # The last piece of a glimpse is broken and may cost more than when it is whole.
        if estimate(text[:glimpse]) > max_tokens + _LONGEST_PIECE:
            return False
        glimpse *= 4
    return estimate(text) <= max_tokens


def head_length(text: str, max_tokens: int) -> int:
    """How many characters from the beginning cost no more than that."""
    length = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        if (cost := _cost(piece)) > max_tokens:
            return length + _divided((piece[:size] for size in range(len(piece))), max_tokens)
        length += len(piece)
        max_tokens -= cost
    return length


def tail_length(text: str, max_tokens: int) -> int:
    """How many characters before the end cost no more than that."""
    length = 0
    for piece in reversed(_PIECE.findall(text[max(0, len(text) - 8 * max_tokens) :])):
        if (cost := _cost(piece)) > max_tokens:
            return length + _divided((piece[-size:] for size in range(1, len(piece))), max_tokens)
        length += len(piece)
        max_tokens -= cost
    return length


def _divided(parts: Iterable[str], max_tokens: int) -> int:
    """How long a part of a piece may be: without spaces, as in Japanese, pieces are long."""
    return max((len(part) for part in parts if _cost(part) <= max_tokens), default=0)


@lru_cache(maxsize=2**14)
def _cost(piece: str) -> int:
    text = piece.removeprefix(" ")  # a word's first token begins with the space before it
    if known := _known()[0].get(text if text.isalpha() else piece):
        return known
    if not text.isascii():
        return _cost_by_bytes(piece)
    if text.isalpha():
        return sum(map(_cost_of_part, _PART.findall(text))) + len(_BRIDGE.findall(text))
    if text.isdigit():
        return -(-len(text) // 3)
    if piece.isspace():
        return 1 + piece.count("\n") // 2
    return len(text) + (text == "'")  # cl100k_base tears words apart after it, as in 's and 't


def _cost_of_part(part: str) -> int:
    return _known()[0].get(part) or (2 * len(part) + len(_APART.findall(part))) // 3 + 1


def _cost_by_bytes(piece: str) -> int:
    known = "".join(_known()[1].findall(piece))
    split = piece[0] == " " and piece[1] > "\u07ff"  # the space may take the first of three bytes with it
    return _bytes(piece) - _bytes(known) + len(known) + split + piece.endswith("'")


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


@cache  # read when the first text is measured: most commands measure none
def _known() -> tuple[dict[str, int], re.Pattern[str]]:
    ones, twos, characters = (part.split() for part in KNOWN_FILE.read_text(encoding="utf-8").split("\n\n"))
    costs = dict.fromkeys(ones, 1) | dict.fromkeys(twos, 2)
    return {piece.replace("␣", " "): cost for piece, cost in costs.items()}, re.compile(
        f"[{''.join(characters)}]"
    )
