r"""Glob patterns: the one dialect used everywhere.

A pattern matches a whole relative path with `/` between its names. It is case-sensitive, and a leading dot
has no special meaning.

    *          any number of characters of one name
    ?          one character; [abc] and [a-z] one of these, [!abc] and [^abc] any other; never a slash
    **/        any number of directories, including none
    docs/**    everything below docs; docs/ means the same
    **         elsewhere, as in src/**.py or lib**/x: any characters, slashes too
    {a,b}      either one; they may contain slashes, wildcards, braces or nothing
    \x         the literal character x

Braces are expanded first, so a pattern is a list of alternatives. Each is parsed into single characters with
stars and gaps between them; both matching and overlap detection use that form.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain, product, takewhile
from typing import NamedTuple, TypeAlias

from deepwork.kernel.errors import MAX_ECHOED, InvalidInput

# Patterns are untrusted: these limits keep the most expensive one to about a second.
_MAX_LENGTH = 4096
_MAX_EXPANDED_LENGTH = 32_768
_MAX_ALTERNATIVES = 1000
_MAX_CHAR_SETS = 500
_MAX_OVERLAP_STEPS = 20_000

_CHAR_SET_REGEX = r"\[[!^]?+\]?+(?:\\.|[^\\\]])*\]"
_BRACE_PIECE_PATTERN = re.compile(rf"\\.|{_CHAR_SET_REGEX}|[^\\\[\]{{}},]+|.", re.DOTALL)
_TOKEN_PATTERN = re.compile(rf"\\.|{_CHAR_SET_REGEX}|\*+|.", re.DOTALL)
_RANGE_PATTERN = re.compile(r"(\\.|[^\\])(?:-(\\.|[^\\]))?", re.DOTALL)
_HOME_OR_DRIVE_PATTERN = re.compile(r"~/|[A-Za-z]:")
_PLAIN_PATH_PATTERN = re.compile(
    rf"(?!{_HOME_OR_DRIVE_PATTERN.pattern})(?:(?!\.\.?(?:/|\Z))[^/*?\[\]{{}}\\]+(?:/(?!\Z)|\Z))+"
)
_NEVER_MATCHING_REGEX = "(?!)"
_SPECIAL_CHARS = frozenset("*?[]{}\\")

_UNBALANCED_ERRORS = {
    "\\": r"ends with a backslash; write \\ for the character itself",
    "[": r"has a [ without a ]; close it, or write \[ for the character itself",
    "]": r"has a ] without a [; open it, or write \] for the character itself",
    "{": r"has a { without a }; close it, or write \{ for the character itself",
    "}": r"has a } without a {; open it, or write \} for the character itself",
}


class Globs:
    """A set of patterns; a path matches if any of them does."""

    def __init__(self, patterns: Iterable[str]) -> None:
        alternatives = list(chain.from_iterable(map(_parse_or_raise, patterns)))
        self._plain_paths = frozenset(found.start for found in alternatives if found.is_plain)
        self.starts = tuple(found.start for found in alternatives if not found.is_plain)
        """The literal beginnings of the patterns with wildcards: every path that matches begins with one."""
        wild = dict.fromkeys(_build_regex(found.tokens) for found in alternatives if not found.is_plain)
        self._match_wild = re.compile("|".join(wild) or _NEVER_MATCHING_REGEX, re.DOTALL).match

    @property
    def plain_paths(self) -> frozenset[str]:
        """The patterns without wildcards."""
        return self._plain_paths

    def may_match_below(self, folder: str) -> bool:
        """Return whether some path below a folder could match; False is always right."""
        below = f"{folder}/"
        found = (*self._plain_paths, *self.starts)
        return any(start.startswith(below) for start in found) or any(map(below.startswith, self.starts))

    def matches(self, path: str) -> bool:
        """Return whether a relative path, without empty names, matches one of the patterns."""
        return path in self._plain_paths or self._match_wild(path) is not None

    def filter(self, paths: Iterable[str]) -> list[str]:
        """Return the matching paths, in order."""
        names, match = self._plain_paths, self._match_wild
        return [path for path in paths if path in names or match(path)]


def find_problem(pattern: str) -> str | None:
    """Explain why a pattern is invalid or can never match; None if it is fine.

    The text continues a sentence that begins with "the pattern 'x' ".
    """
    try:
        _parse_pattern(pattern)
    except _InvalidPattern as unreadable:
        return str(unreadable)
    return None


def may_overlap(one: str, other: str) -> bool:
    """Return whether some path could match both; False is always right, True may be a false alarm."""
    return _may_any_overlap(_parse_or_raise(one), _parse_or_raise(other))


def escape(name: str) -> str:
    """Return the pattern that matches exactly this name."""
    return "".join(f"\\{sign}" if sign in _SPECIAL_CHARS else sign for sign in name)


class _InvalidPattern(Exception):
    """A pattern is invalid; the message is a clause."""


class _Wildcard(Enum):
    """A token that matches any number of characters."""

    STAR = "characters of one name"
    GAP = "nothing, or everything up to and including some later slash"
    DEEP = "a double star as written; it is converted to gaps and stars"


_Chars: TypeAlias = tuple[tuple[int, int], ...]  # one character: the ranges of code points it may come from
_Token: TypeAlias = _Chars | _Wildcard
_Transitions: TypeAlias = dict[int, list[tuple[_Chars, int]]]


class _Alternative(NamedTuple):
    """One of the brace-free patterns that a pattern expands to."""

    tokens: Sequence[_Token]
    start: str  # of every path that matches
    end: str

    @property
    def is_plain(self) -> bool:
        """Whether it has no wildcard: only the path `start` matches."""
        return len(self.start) == len(self.tokens)


def _parse_or_raise(pattern: str) -> list[_Alternative]:
    try:
        return _parse_pattern(pattern)
    except _InvalidPattern as unreadable:
        raise InvalidInput(f"The pattern {pattern[:MAX_ECHOED]!a} {unreadable}.") from None


def _parse_pattern(pattern: str) -> list[_Alternative]:
    if not pattern:
        raise _InvalidPattern("is empty; name a file, or write ** for everything")
    if len(pattern) > _MAX_LENGTH:
        raise _InvalidPattern(f"is longer than {_MAX_LENGTH:,} characters; split it into several")
    if "\0" in pattern:
        raise _InvalidPattern("contains a NUL character, which no path has; leave it out")
    texts = _expand_braces(pattern)
    if sum(text.count("[") for text in texts) > _MAX_CHAR_SETS:
        raise _InvalidPattern(
            f"has more than {_MAX_CHAR_SETS} [...] in its alternatives; split it into several"
        )
    return [_parse_alternative(text) for text in texts]


def _expand_braces(pattern: str) -> list[str]:
    """Return one brace-free pattern for every combination of alternatives."""
    levels = [[[""]]]  # for each open brace its alternatives so far, each expanded so far
    for piece in _BRACE_PIECE_PATTERN.findall(pattern):
        if piece == "{":
            levels.append([[""]])
        elif piece == "," and len(levels) > 1:
            levels[-1].append([""])
        elif piece == "}" and len(levels) > 1:
            choices = list(chain.from_iterable(levels.pop()))
            levels[-1][-1] = _append_choices(levels[-1][-1], choices)
        elif piece in _UNBALANCED_ERRORS:
            raise _InvalidPattern(_UNBALANCED_ERRORS[piece])
        else:
            levels[-1][-1] = _append_choices(levels[-1][-1], [piece])
    if len(levels) > 1:
        raise _InvalidPattern(_UNBALANCED_ERRORS["{"])
    return list(dict.fromkeys(levels[0][0]))


def _append_choices(texts: list[str], choices: list[str]) -> list[str]:
    if len(texts) * len(choices) > _MAX_ALTERNATIVES:
        raise _InvalidPattern(f"has more than {_MAX_ALTERNATIVES:,} alternatives; split it into several")
    joined = [text + choice for text in texts for choice in choices]
    if sum(map(len, joined)) > _MAX_EXPANDED_LENGTH:
        raise _InvalidPattern(
            f"is longer than {_MAX_EXPANDED_LENGTH:,} characters without its braces; split it into several"
        )
    return joined


def _parse_alternative(text: str) -> _Alternative:
    if _PLAIN_PATH_PATTERN.fullmatch(text):  # fast path: most patterns are plain file names
        return _Alternative([_to_chars(character) for character in text], text, text)
    if not text:
        raise _InvalidPattern(
            "has an alternative that is empty; name a file in it, or write ** for everything"
        )
    if _HOME_OR_DRIVE_PATTERN.match(text):
        raise _InvalidPattern(
            "starts with a drive or a home directory; patterns are relative to the folder of their file"
        )
    tokens = _merge_gaps(
        _join_names(_split_names([_parse_token(written) for written in _TOKEN_PATTERN.findall(text)]))
    )
    return _Alternative(tokens, _get_fixed_text(tokens), _get_fixed_text(reversed(tokens))[::-1])


def _parse_token(written: str) -> _Token:
    if written == "?":
        return _ANY_CHAR
    if written[0] == "*":
        return _Wildcard.STAR if written == "*" else _Wildcard.DEEP
    if written[0] == "[":
        return _parse_set(written)
    return _to_chars(written[-1])


def _parse_set(written: str) -> _Chars:
    if "/" in written:
        raise _InvalidPattern(
            "has a slash between [ and ], which stand for one character of a name; write {a,b/c} instead"
        )
    inverted = written[1] in "!^"
    ranges = [
        _parse_range(found) for found in _RANGE_PATTERN.finditer(written, 1 + inverted, len(written) - 1)
    ]
    return _invert_ranges(_SLASH + (tuple(ranges) if inverted else _invert_ranges(ranges)))


def _parse_range(found: re.Match[str]) -> tuple[int, int]:
    low = found[1][-1]
    high = (found[2] or low)[-1]
    if high < low:
        raise _InvalidPattern(f"has the range {f'{low}-{high}'!a}, which is reversed; swap its ends")
    return ord(low), ord(high)


def _to_chars(character: str) -> _Chars:
    return ((ord(character), ord(character)),)


def _invert_ranges(ranges: Iterable[tuple[int, int]]) -> _Chars:
    """Return the code points outside these ranges."""
    outside, next_one = [], 0
    for low, high in sorted(ranges):
        if next_one < low:
            outside.append((next_one, low - 1))
        next_one = max(next_one, high + 1)
    return (*outside, (next_one, sys.maxunicode)) if next_one <= sys.maxunicode else tuple(outside)


_SLASH = _to_chars("/")
_DOT = _to_chars(".")
_ANY_CHAR = _invert_ranges(_SLASH)
_END_OF_PATH = ((-1, -1),)  # the end of a path, treated as one more character


def _split_names(tokens: list[_Token]) -> list[list[_Token]]:
    """Split at slashes; raises if a name cannot occur in a path."""
    if tokens[-1] == _SLASH:
        tokens = [*tokens, _Wildcard.DEEP]
    names = _split_tokens(tokens[2:] if tokens[:2] == [_DOT, _SLASH] else tokens, _SLASH)
    if not names[0]:
        raise _InvalidPattern("starts with a slash; patterns are relative to the folder of their file")
    if [] in names:
        raise _InvalidPattern("has two slashes in a row, which no path has; write one")
    if [_DOT] in names or [_DOT, _DOT] in names:
        raise _InvalidPattern("has . or .. as a name, which no path has; leave it out")
    return names


def _split_tokens(tokens: Iterable[_Token], at: _Token) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _join_names(names: list[list[_Token]]) -> Iterator[_Token]:
    """Join the names again, with each double star converted according to its position."""
    *directories, last = names
    for name in directories:
        yield from _expand_directory(name)
    if last == [_Wildcard.DEEP]:
        yield _Wildcard.GAP
        last = [_Wildcard.STAR]
    yield from _expand_name(last)


def _expand_directory(name: list[_Token]) -> list[_Token]:
    return [_Wildcard.GAP] if name == [_Wildcard.DEEP] else [*_expand_name(name), _SLASH]


def _expand_name(name: list[_Token]) -> Iterator[_Token]:
    if name == [_Wildcard.STAR]:
        yield _ANY_CHAR  # a name has at least one character
    for token in name:
        if token is _Wildcard.DEEP:
            yield _Wildcard.GAP
        yield _Wildcard.STAR if token is _Wildcard.DEEP else token


def _merge_gaps(tokens: Iterable[_Token]) -> list[_Token]:
    """Collapse consecutive gaps into one."""
    kept: list[_Token] = []
    for token in tokens:
        if token is not _Wildcard.GAP or kept[-1:] != [_Wildcard.GAP]:
            kept.append(token)
    return kept


def _get_fixed_text(tokens: Iterable[_Token]) -> str:
    """Return the literal text before the first token that matches more than one character."""
    return "".join(takewhile(bool, map(_get_only_character, tokens)))


def _get_only_character(token: _Token) -> str:
    """Return the one character that the token matches, or "" if there are several."""
    if isinstance(token, tuple) and len(token) == 1 and token[0][0] == token[0][1]:
        return chr(token[0][0])
    return ""


def _build_regex(tokens: Sequence[_Token]) -> str:
    """Build a regular expression without catastrophic backtracking.

    The part between two gaps can always be matched at its earliest position, since the gap after it can skip
    whatever a later match would have skipped; the same holds between two stars of a name. So the first match
    is final (an atomic group, `(?>`), and the time is at most pattern length times path length.
    """
    first, *others = (_split_tokens(part, _Wildcard.STAR) for part in _split_tokens(tokens, _Wildcard.GAP))
    if not others:
        return _build_final_match(first)
    *between, last = others
    skipped = "".join(f"(?>(?:.*?/)??{_build_earliest_match(part)})" for part in between)
    is_one_name = not any(_SLASH in piece for piece in last)
    return (
        _build_earliest_match(first)
        + skipped
        + ("(?>(?:.*/)?)" if is_one_name else "(?:.*/)?")
        + _build_final_match(last)
    )


def _build_earliest_match(pieces: list[list[_Token]]) -> str:
    first, *others = map(_build_sequence, pieces)
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others)


def _build_final_match(pieces: list[list[_Token]]) -> str:
    *before, last = pieces
    return (_build_earliest_match(before) + "[^/]*" if before else "") + _build_sequence(last) + r"\Z"


def _build_sequence(piece: list[_Token]) -> str:
    return "".join(_build_char_class(token) for token in piece if isinstance(token, tuple))


def _build_char_class(chars: _Chars) -> str:
    if chars == _ANY_CHAR:
        return "[^/]"
    if character := _get_only_character(chars):
        return re.escape(character)
    if chars[-1][1] == sys.maxunicode:  # negated, because `re` needs milliseconds to compile large ranges
        return f"[^{_format_ranges(_invert_ranges(chars))}]"
    return f"[{_format_ranges(chars)}]"


def _format_ranges(chars: _Chars) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in chars)


def _may_any_overlap(ones: list[_Alternative], others: list[_Alternative]) -> bool:
    work = iter(range(_MAX_OVERLAP_STEPS))
    return any(
        _can_both_match(one, other, work)
        for one in ones
        for other in others
        if _have_compatible_ends(one, other)
    )


def _can_both_match(one: _Alternative, other: _Alternative, work: Iterator[int]) -> bool:
    """Return whether some path matches both (a product automaton); True when the step limit is reached."""
    moves, other_moves = _build_transitions(one.tokens), _build_transitions(other.tokens)
    goal = (len(one.tokens) + 1, len(other.tokens) + 1)
    seen = {(0, 0)}
    ahead = [(0, 0)]
    while ahead and goal not in seen and next(work, None) is not None:
        place, other_place = ahead.pop()
        for (chars, to), (other_chars, other_to) in product(moves[place], other_moves[other_place]):
            if (to, other_to) not in seen and _have_common_char(chars, other_chars):
                seen.add((to, other_to))
                ahead.append((to, other_to))
    return bool(ahead)


def _have_compatible_ends(one: _Alternative, other: _Alternative) -> bool:
    """Cheap pre-check: the literal starts and ends of most patterns already differ."""
    return (one.start.startswith(other.start) or other.start.startswith(one.start)) and (
        one.end.endswith(other.end) or other.end.endswith(one.end)
    )


def _build_transitions(tokens: Sequence[_Token]) -> _Transitions:
    """Build an automaton: for each state, the characters that lead on and the state each leads to.

    A state is the index of the next token. `~state` is inside that gap, with its slash still to come.
    """
    moves: _Transitions = {len(tokens): [(_END_OF_PATH, len(tokens) + 1)], len(tokens) + 1: []}
    for place, token in reversed(list(enumerate(tokens))):
        if token is _Wildcard.STAR:
            moves[place] = [(_ANY_CHAR, place), *moves[place + 1]]
        elif token is _Wildcard.GAP:
            moves[~place] = [(_ANY_CHAR, ~place), (_SLASH, place)]
            moves[place] = moves[~place] + moves[place + 1]
        elif isinstance(token, tuple):
            moves[place] = [(token, place + 1)]
    return moves


def _have_common_char(chars: _Chars, others: _Chars) -> bool:
    # Plain loops: this runs for every step, and a generator would take twice as long.
    for low, high in chars:
        for first, last in others:
            if low <= last and first <= high:
                return True
    return False
