r"""One dialect of patterns for everything that names files.

A pattern speaks about a whole relative path with `/` between its names. Upper and lower case differ, and a
leading dot is nothing special.

    *          any characters of one name, also none
    ?          one character; [abc] and [a-z] one of these, [!abc] and [^abc] any other; never a slash
    **/        any number of directories, also none
    docs/**    everything below docs; docs/ says the same
    **         elsewhere, as in src/**.py or lib**/x: any characters, slashes too
    {a,b}      one or the other; they may hold slashes, wildcards, braces or nothing
    \x         x itself, whatever it would mean otherwise

Braces are spelled out first, so a pattern is a list of alternatives. Each is read as single characters with
stars and gaps between them; from that one form come both what matches it and what it overlaps with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain, product, takewhile
from typing import NamedTuple, TypeAlias

from deepwork.errors import MAX_ECHOED, InvalidInput

# Anybody may write a pattern, so one that is made to keep us busy ends within a second or so.
_LONGEST = 4096
_LONGEST_SPELLED_OUT = 32_768
_MOST_ALTERNATIVES = 1000
_MOST_SETS = 500
_MOST_STEPS = 20_000

_SET = r"\[[!^]?+\]?+(?:\\.|[^\\\]])*\]"
_PIECE = re.compile(rf"\\.|{_SET}|[^\\\[\]{{}},]+|.", re.DOTALL)
_TOKEN = re.compile(rf"\\.|{_SET}|\*+|.", re.DOTALL)
_RANGE = re.compile(r"(\\.|[^\\])(?:-(\\.|[^\\]))?", re.DOTALL)
_ELSEWHERE = re.compile(r"~/|[A-Za-z]:")
_PLAIN = re.compile(rf"(?!{_ELSEWHERE.pattern})(?:(?!\.\.?(?:/|\Z))[^/*?\[\]{{}}\\]+(?:/(?!\Z)|\Z))+")
_NEVER = "(?!)"
_SPECIAL = frozenset("*?[]{}\\")

_STRAY = {
    "\\": r"ends with a backslash; write \\ for the character itself",
    "[": r"has a [ without a ]; close it, or write \[ for the character itself",
    "]": r"has a ] without a [; open it, or write \] for the character itself",
    "{": r"has a { without a }; close it, or write \{ for the character itself",
    "}": r"has a } without a {; open it, or write \} for the character itself",
}


class Globs:
    """Several patterns as one question: does any of them match?"""

    def __init__(self, patterns: Iterable[str]) -> None:
        alternatives = list(chain.from_iterable(map(_alternatives, patterns)))
        self._names = frozenset(found.start for found in alternatives if found.is_plain)
        wild = dict.fromkeys(_regex(found.tokens) for found in alternatives if not found.is_plain)
        self._match = re.compile("|".join(wild) or _NEVER, re.DOTALL).match

    def matches(self, path: str) -> bool:
        """Whether a relative path, with no empty name in it, matches one of the patterns."""
        return path in self._names or self._match(path) is not None

    def among(self, paths: Iterable[str]) -> list[str]:
        """Those that match, in order."""
        names, match = self._names, self._match
        return [path for path in paths if path in names or match(path)]


def problem(pattern: str) -> str | None:
    """Why a pattern can never match, or cannot be read; None if it is fine.

    It goes on where "the pattern 'x' " stops.
    """
    try:
        _read(pattern)
    except _Unreadable as unreadable:
        return str(unreadable)
    return None


def may_overlap(one: str, other: str) -> bool:
    """Whether some path could match both; may say True too often, never False wrongly."""
    return _may_meet(_alternatives(one), _alternatives(other))


def escaped(name: str) -> str:
    """The pattern that matches this name and nothing else."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in name)


def overlapping(ones: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs that may overlap, in order."""
    left, right = ([(pattern, _alternatives(pattern)) for pattern in side] for side in (ones, others))
    return [(one, other) for (one, a), (other, b) in product(left, right) if _may_meet(a, b)]


class _Unreadable(Exception):
    """What is wrong with a pattern, as a clause."""


class _Wild(Enum):
    """What stands for any number of characters."""

    STAR = "characters of one name"
    GAP = "nothing, or all up to some slash ahead and that slash"
    DEEP = "a double star as it is written; it is read as gaps and stars"


_Chars: TypeAlias = tuple[tuple[int, int], ...]  # one character: the ranges of code points it may come from
_Token: TypeAlias = _Chars | _Wild
_Moves: TypeAlias = dict[int, list[tuple[_Chars, int]]]


class _Alternative(NamedTuple):
    """One of the patterns without braces that a pattern stands for."""

    tokens: Sequence[_Token]
    start: str  # of every path that matches
    end: str

    @property
    def is_plain(self) -> bool:
        """Nothing in it is wild: the one path that matches is its start."""
        return len(self.start) == len(self.tokens)


def _alternatives(pattern: str) -> list[_Alternative]:
    try:
        return _read(pattern)
    except _Unreadable as unreadable:
        raise InvalidInput(f"The pattern {pattern[:MAX_ECHOED]!a} {unreadable}.") from None


def _read(pattern: str) -> list[_Alternative]:
    if not pattern:
        raise _Unreadable("is empty; name a file, or write ** for everything")
    if len(pattern) > _LONGEST:
        raise _Unreadable(f"is longer than {_LONGEST:,} characters; split it into several")
    if "\0" in pattern:
        raise _Unreadable("contains a NUL character, which no path has; leave it out")
    texts = _spelled_out(pattern)
    if sum(text.count("[") for text in texts) > _MOST_SETS:
        raise _Unreadable(f"has more than {_MOST_SETS} [...] in its alternatives; split it into several")
    return [_alternative(text) for text in texts]


def _spelled_out(pattern: str) -> list[str]:
    """The pattern once for every choice that its braces leave."""
    levels = [[[""]]]  # for each open brace its alternatives so far, and each of these spelled out so far
    for piece in _PIECE.findall(pattern):
        if piece == "{":
            levels.append([[""]])
        elif piece == "," and len(levels) > 1:
            levels[-1].append([""])
        elif piece == "}" and len(levels) > 1:
            choices = list(chain.from_iterable(levels.pop()))
            levels[-1][-1] = _joined(levels[-1][-1], choices)
        elif piece in _STRAY:
            raise _Unreadable(_STRAY[piece])
        else:
            levels[-1][-1] = _joined(levels[-1][-1], [piece])
    if len(levels) > 1:
        raise _Unreadable(_STRAY["{"])
    return list(dict.fromkeys(levels[0][0]))


def _joined(texts: list[str], choices: list[str]) -> list[str]:
    if len(texts) * len(choices) > _MOST_ALTERNATIVES:
        raise _Unreadable(f"has more than {_MOST_ALTERNATIVES:,} alternatives; split it into several")
    joined = [text + choice for text in texts for choice in choices]
    if sum(map(len, joined)) > _LONGEST_SPELLED_OUT:
        raise _Unreadable(
            f"is longer than {_LONGEST_SPELLED_OUT:,} characters without its braces; split it into several"
        )
    return joined


def _alternative(text: str) -> _Alternative:
    if _PLAIN.fullmatch(text):  # most patterns just name a file, and need no closer reading
        return _Alternative([_only(character) for character in text], text, text)
    if not text:
        raise _Unreadable("has an alternative that is empty; name a file in it, or write ** for everything")
    if _ELSEWHERE.match(text):
        raise _Unreadable(
            "starts with a drive or a home directory; patterns are relative to the folder of their file"
        )
    tokens = _gaps_once(_path(_names([_token(written) for written in _TOKEN.findall(text)])))
    return _Alternative(tokens, _fixed(tokens), _fixed(reversed(tokens))[::-1])


def _token(written: str) -> _Token:
    if written == "?":
        return _ANY
    if written[0] == "*":
        return _Wild.STAR if written == "*" else _Wild.DEEP
    if written[0] == "[":
        return _one_of(written)
    return _only(written[-1])


def _one_of(written: str) -> _Chars:
    if "/" in written:
        raise _Unreadable(
            "has a slash between [ and ], which stand for one character of a name; write {a,b/c} instead"
        )
    inverted = written[1] in "!^"
    ranges = [_range(found) for found in _RANGE.finditer(written, 1 + inverted, len(written) - 1)]
    return _others(_SLASH + (tuple(ranges) if inverted else _others(ranges)))


def _range(found: re.Match[str]) -> tuple[int, int]:
    low = found[1][-1]
    high = (found[2] or low)[-1]
    if high < low:
        raise _Unreadable(f"has the range {f'{low}-{high}'!a}, which runs backwards; swap its ends")
    return ord(low), ord(high)


def _only(character: str) -> _Chars:
    return ((ord(character), ord(character)),)


def _others(ranges: Iterable[tuple[int, int]]) -> _Chars:
    """All that lies outside these ranges."""
    outside, next_one = [], 0
    for low, high in sorted(ranges):
        if next_one < low:
            outside.append((next_one, low - 1))
        next_one = max(next_one, high + 1)
    return (*outside, (next_one, sys.maxunicode)) if next_one <= sys.maxunicode else tuple(outside)


_SLASH = _only("/")
_DOT = _only(".")
_ANY = _others(_SLASH)
_END = ((-1, -1),)  # the end of a path, read like one more character


def _names(tokens: list[_Token]) -> list[list[_Token]]:
    """The names between the slashes, each such as a path can have."""
    if tokens[-1] == _SLASH:
        tokens = [*tokens, _Wild.DEEP]
    names = _split(tokens[2:] if tokens[:2] == [_DOT, _SLASH] else tokens, _SLASH)
    if not names[0]:
        raise _Unreadable("starts with a slash; patterns are relative to the folder of their file")
    if [] in names:
        raise _Unreadable("has two slashes in a row, which no path has; write one")
    if [_DOT] in names or [_DOT, _DOT] in names:
        raise _Unreadable("has . or .. as a name, which no path has; leave it out")
    return names


def _split(tokens: Iterable[_Token], at: _Token) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _path(names: list[list[_Token]]) -> Iterator[_Token]:
    """The names joined again, with what a double star means where it stands."""
    *directories, last = names
    for name in directories:
        yield from _directory(name)
    if last == [_Wild.DEEP]:
        yield _Wild.GAP
        last = [_Wild.STAR]
    yield from _name(last)


def _directory(name: list[_Token]) -> list[_Token]:
    return [_Wild.GAP] if name == [_Wild.DEEP] else [*_name(name), _SLASH]


def _name(name: list[_Token]) -> Iterator[_Token]:
    if name == [_Wild.STAR]:
        yield _ANY  # a name has at least one character
    for token in name:
        if token is _Wild.DEEP:
            yield _Wild.GAP
        yield _Wild.STAR if token is _Wild.DEEP else token


def _gaps_once(tokens: Iterable[_Token]) -> list[_Token]:
    """A gap after a gap says nothing new."""
    kept: list[_Token] = []
    for token in tokens:
        if token is not _Wild.GAP or kept[-1:] != [_Wild.GAP]:
            kept.append(token)
    return kept


def _fixed(tokens: Iterable[_Token]) -> str:
    """The text up to the first token that leaves a choice."""
    return "".join(takewhile(bool, map(_character, tokens)))


def _character(token: _Token) -> str:
    """The only character it stands for, or nothing if it leaves a choice."""
    if isinstance(token, tuple) and len(token) == 1 and token[0][0] == token[0][1]:
        return chr(token[0][0])
    return ""


def _regex(tokens: Sequence[_Token]) -> str:
    """A regular expression that never has to look at the same thing twice.

    What stands between two gaps is best matched as soon as possible, since the gap after it can skip whatever
    a later match would have skipped; so also between two stars of a name. The first match is therefore
    final (`(?>`), and the time is at most the length of the pattern times that of the path.
    """
    first, *others = (_split(part, _Wild.STAR) for part in _split(tokens, _Wild.GAP))
    if not others:
        return _to_the_end(first)
    *between, last = others
    skipped = "".join(f"(?>(?:.*?/)??{_soonest(part)})" for part in between)
    is_one_name = not any(_SLASH in piece for piece in last)
    return _soonest(first) + skipped + ("(?>(?:.*/)?)" if is_one_name else "(?:.*/)?") + _to_the_end(last)


def _soonest(pieces: list[list[_Token]]) -> str:
    first, *others = map(_in_a_row, pieces)
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others)


def _to_the_end(pieces: list[list[_Token]]) -> str:
    *before, last = pieces
    return (_soonest(before) + "[^/]*" if before else "") + _in_a_row(last) + r"\Z"


def _in_a_row(piece: list[_Token]) -> str:
    return "".join(_one(token) for token in piece if isinstance(token, tuple))


def _one(chars: _Chars) -> str:
    if chars == _ANY:
        return "[^/]"
    if character := _character(chars):
        return re.escape(character)
    if chars[-1][1] == sys.maxunicode:  # `re` needs milliseconds for most of Unicode, so name the others
        return f"[^{_ranges(_others(chars))}]"
    return f"[{_ranges(chars)}]"


def _ranges(chars: _Chars) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in chars)


def _may_meet(ones: list[_Alternative], others: list[_Alternative]) -> bool:
    work = iter(range(_MOST_STEPS))
    return any(_meet(one, other, work) for one in ones for other in others if _agree(one, other))


def _meet(one: _Alternative, other: _Alternative, work: Iterator[int]) -> bool:
    """Whether both can be walked through with the same characters; True when the work is used up."""
    moves, other_moves = _moves(one.tokens), _moves(other.tokens)
    goal = (len(one.tokens) + 1, len(other.tokens) + 1)
    seen = {(0, 0)}
    ahead = [(0, 0)]
    while ahead and goal not in seen and next(work, None) is not None:
        place, other_place = ahead.pop()
        for (chars, to), (other_chars, other_to) in product(moves[place], other_moves[other_place]):
            if (to, other_to) not in seen and _share(chars, other_chars):
                seen.add((to, other_to))
                ahead.append((to, other_to))
    return bool(ahead)


def _agree(one: _Alternative, other: _Alternative) -> bool:
    """Most patterns differ where they are plain, and that is quickly seen."""
    return (one.start.startswith(other.start) or other.start.startswith(one.start)) and (
        one.end.endswith(other.end) or other.end.endswith(one.end)
    )


def _moves(tokens: Sequence[_Token]) -> _Moves:
    """For every place in a pattern, the characters that lead on from there, each with the place it leads to.

    A place is the index of the next token. `~place` is inside the gap there, with its slash still to come.
    """
    moves: _Moves = {len(tokens): [(_END, len(tokens) + 1)], len(tokens) + 1: []}
    for place, token in reversed(list(enumerate(tokens))):
        if token is _Wild.STAR:
            moves[place] = [(_ANY, place), *moves[place + 1]]
        elif token is _Wild.GAP:
            moves[~place] = [(_ANY, ~place), (_SLASH, place)]
            moves[place] = moves[~place] + moves[place + 1]
        elif isinstance(token, tuple):
            moves[place] = [(token, place + 1)]
    return moves


def _share(chars: _Chars, others: _Chars) -> bool:
    # Plain loops: this is asked for every step, and a generator would take twice as long.
    for low, high in chars:
        for first, last in others:
            if low <= last and first <= high:
                return True
    return False
