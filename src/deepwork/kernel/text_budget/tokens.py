"""Estimate how many tokens text costs; never fewer than o200k_base or cl100k_base would count.

Both encodings split text into pieces (a word with the space before it, up to three digits, a run of
punctuation) and each piece into tokens. A piece that is known to be one token counts as one. For any other
word we know only that adjacent letters which could form one token do form one, so single letters are never
adjacent: at most two tokens per three letters. In everything else each byte may be a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

KNOWN_FILE = Path(__file__).with_name("known_tokens.txt")
"""Words and punctuation (␣ is a space) of one token, then of two, then characters of one token."""

_SYMBOL = r"[!-/:-@\[-`{-~]"
_NON_ASCII = r"[^\x00-\x7f\u2010-\u2027]"  # neither ASCII nor a dash or quote as in English prose
_PIECE_PATTERN = re.compile(
    rf"""
      (?<=\\)n                            # of an escaped new line, which joins the next word
    | [ ]?[A-Za-z]{{1,63}}+(?!{_NON_ASCII})
    | [ ]?{_SYMBOL}{{1,63}}+(?![^\x00-\x7f]|[\r\n])
    | (?<![^\x00-\x7f])[0-9]{{1,63}}
    | (?:[ ]?[A-Za-z]{{0,63}}{_NON_ASCII}[A-Za-z\x80-\U0010ffff]{{0,63}}|[\u2010-\u2027]){_SYMBOL}{{0,63}}
    | [ ]{{1,63}}(?=[ ])                  # the last space goes with what follows
    | \n{{1,8}}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACES_PATTERN = re.compile(" {1,63}(?= )")
_MAX_PIECE_LENGTH = 192
_MAX_REMEMBERED_WORD = 80
_MAX_REMEMBERED_WORDS = 2**14
_WORD_PART_PATTERN = re.compile("[A-Z]*[a-z]+|[A-Z]+")  # of a word such as getName
_CROSS_PART_PATTERN = re.compile(
    "aN|d[BT]|gL|iT|k[BJ]|mA|nP|oS|u[CD]|x[A-F]|zM"
)  # across parts, in cl100k_base
_SPLIT_LETTERS_PATTERN = re.compile(  # letters that are not one token in both vocabularies
    "(?=[A-Z][A-Za-z]|bq|f[jz]|g[jkq]|hj|j[gvwxyz]|k[qxz]|[lnou]q|mz|q[fgjkovyz]|rj|t[jq]|v[qz]|w[qvz]|x[ghjkquvw]"
    "|y[fjqv]|z[gjqrv])"
)


def estimate_tokens(text: str) -> int:
    """Return an upper bound for the number of tokens in the text.

    No piece contains a space other than at its beginning, so the text is read word by word, and the cost of
    most words is known from earlier texts. Of several spaces, all but the last are a piece of their own.
    """
    first, *words = text.split(" ")
    spaces = _SPACES_PATTERN.findall(text) if "  " in text else ()
    # Each of these spaces is also an empty word.
    superfluous = sum([len(run) * _WORD_COSTS[""] - _estimate_piece(run) for run in spaces])
    return sum_pieces(first) + sum(map(_WORD_COSTS.__getitem__, words)) - superfluous


def estimate_if_fits(text: str, max_tokens: int) -> int | None:
    """Return what the text costs if that is at most `max_tokens`; far longer text is not read to its end."""
    glimpse = 3 * max_tokens + _MAX_PIECE_LENGTH
    if glimpse < len(text):
        # Whole words at the beginning never cost more than the text.
        words = text[: max(0, text.rfind(" ", 0, glimpse))].rstrip(" ")
        if estimate_tokens(words) > max_tokens:
            return None
    while glimpse < len(text):
        # The last piece may be cut in two, and then costs more than when it is whole.
        if estimate_tokens(text[:glimpse]) > max_tokens + _MAX_PIECE_LENGTH:
            return None
        glimpse *= 4
    return cost if (cost := estimate_tokens(text)) <= max_tokens else None


def fits(text: str, max_tokens: int) -> bool:
    """Whether the text costs at most `max_tokens`."""
    return estimate_if_fits(text, max_tokens) is not None


def sum_pieces(text: str) -> int:
    """Add up what the pieces of the text cost."""
    return sum(map(_estimate_piece, _PIECE_PATTERN.findall(text)))


class _WordCosts(dict[str, int]):
    """What words cost after a space, computed when first needed; forgets all when there are too many."""

    def __missing__(self, word: str) -> int:
        cost = sum_pieces(f" {word}")
        if len(word) <= _MAX_REMEMBERED_WORD:
            if len(self) >= _MAX_REMEMBERED_WORDS:
                self.clear()
            self[word] = cost
        return cost


_WORD_COSTS = _WordCosts()


def measure_head(text: str, max_tokens: int) -> int:
    """Count the leading characters that cost at most `max_tokens`."""
    length, max_tokens = _skip_words(text, max_tokens)
    for match in _PIECE_PATTERN.finditer(text, length):
        piece = match.group()
        if (cost := _estimate_piece(piece)) > max_tokens:
            return length + _measure_longest_part((piece[:size] for size in range(len(piece))), max_tokens)
        length += len(piece)
        max_tokens -= cost
    return length


def measure_tail(text: str, max_tokens: int) -> int:
    """Count the trailing characters that cost at most `max_tokens`."""
    length = 0
    for piece in reversed(_PIECE_PATTERN.findall(text[max(0, len(text) - 8 * max_tokens) :])):
        if (cost := _estimate_piece(piece)) > max_tokens:
            return length + _measure_longest_part(
                (piece[-size:] for size in range(1, len(piece))), max_tokens
            )
        length += len(piece)
        max_tokens -= cost
    return length


def _skip_words(text: str, max_tokens: int) -> tuple[int, int]:
    """Return the length of the first words that fit, and how many tokens are left for what follows."""
    start = text[: 4 * max_tokens]
    if "  " in start:
        return 0, max_tokens
    first, *words = start.split(" ")[:-1] or [""]  # the last word may be cut in two
    length, left = len(first), max_tokens - sum_pieces(first)
    if left < 0:
        return 0, max_tokens
    for word in words:
        if (cost := _WORD_COSTS[word]) > left:
            break
        length += 1 + len(word)
        left -= cost
    return length, left


def _measure_longest_part(parts: Iterable[str], max_tokens: int) -> int:
    """Return the length of the longest part that fits; in scripts without spaces, pieces are long."""
    return max((len(part) for part in parts if _estimate_piece(part) <= max_tokens), default=0)


@lru_cache(maxsize=2**13)
def _estimate_piece(piece: str) -> int:
    text = piece.removeprefix(" ")  # a word's first token begins with the space before it
    if known := _load_known()[0].get(text if text.isalpha() else piece):
        return known
    if not text.isascii():
        return _estimate_by_bytes(piece)
    if text.isalpha():
        return sum(map(_estimate_word_part, _WORD_PART_PATTERN.findall(text))) + len(
            _CROSS_PART_PATTERN.findall(text)
        )
    if text.isdigit():
        return -(-len(text) // 3)
    if piece.isspace():
        return 1 + piece.count("\n") // 2
    return len(text) + (text == "'")  # cl100k_base splits words after it, as in 's and 't


def _estimate_word_part(part: str) -> int:
    return _load_known()[0].get(part) or (2 * len(part) + len(_SPLIT_LETTERS_PATTERN.findall(part))) // 3 + 1


def _estimate_by_bytes(piece: str) -> int:
    known = "".join(_load_known()[1].findall(piece))
    split = piece[0] == " " and piece[1] > "\u07ff"  # the space may take the first of three bytes with it
    return _count_bytes(piece) - _count_bytes(known) + len(known) + split + piece.endswith("'")


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


@cache  # loaded on first use: most commands measure no text
def _load_known() -> tuple[dict[str, int], re.Pattern[str]]:
    ones, twos, characters = (part.split() for part in KNOWN_FILE.read_text(encoding="utf-8").split("\n\n"))
    costs = dict.fromkeys(ones, 1) | dict.fromkeys(twos, 2)
    return {piece.replace("␣", " "): cost for piece, cost in costs.items()}, re.compile(
        f"[{''.join(characters)}]"
    )
