"""Problems in definition files: where they are, what is wrong and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from deepwork.kernel.errors import Code, DefinitionError
from deepwork.kernel.records import dataclass

Where = tuple[str | int, ...]

MAX_PROBLEMS = 100
"""How many problems of one file are reported."""

_MAX_SHOWN = 80
_MAX_LISTED = 20
_MAX_COMPARED = 500  # comparing spellings is slow, and a file may contain thousands of names


@dataclass(frozen=True)
class DefinitionProblem:
    """A problem at a path in a document, and how to fix it."""

    where: Where
    what: str
    remedy: str
    also: Where = ()
    """Another path this problem depends on: if that is malformed, this may not be a problem."""

    def __str__(self) -> str:
        path = " -> ".join(_format_part(part) for part in self.where)
        return f"{path or 'root'}: {self.what}; {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


@dataclass(frozen=True)
class FileProblem:
    """A problem in a line of a file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class InvalidDefinition(DefinitionError):
    """A definition file that cannot be used, with its problems."""

    def __init__(self, *problems: FileProblem, code: Code | None = None) -> None:
        super().__init__("\n".join(map(str, problems)), code=code)
        self.problems = problems


def format_value(value: str | int) -> str:
    """Format a value from a file for a message: quoted and shortened."""
    text = str(value)
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}…"


def suggest_name(word: str, words: Sequence[str]) -> str:
    """Suggest the most similar word, or list the allowed ones."""
    near = find_nearest(word, words)
    return f"allowed: {format_list(words)}" if near is None else f"did you mean {near!r}?"


def find_nearest(word: str, words: Sequence[str]) -> str | None:
    """Return the most similar word, if there is one."""
    comparable = [known for known in words[:_MAX_COMPARED] if len(known) <= _MAX_SHOWN]
    return next(iter(get_close_matches(word[:_MAX_SHOWN], comparable, 1)), None)


def format_list(words: Sequence[str]) -> str:
    """Format words as a list, with the number of those left out."""
    row = ", ".join(map(format_value, words[:_MAX_LISTED])) or "none"
    more = len(words) - _MAX_LISTED
    return f"{row} and {more:,} more" if more > 0 else row


def _format_part(part: str | int) -> str:
    text = str(part)
    return text if text.isprintable() and 0 < len(text) <= _MAX_SHOWN else format_value(text)
