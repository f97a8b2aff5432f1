"""Shared types of tool parameters, and the input checks that apply to every tool.

Does not import pydantic: a server starts several times faster without it, and most calls do not need it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any, Final

from deepwork.kernel.errors import Code, InvalidInput

MAX_NAME = 200
MAX_TEXT = 1024 * 1024
MAX_LIST = 10_000
MAX_DEPTH = 64
_SHORT = 4096
_MAX_LIST_BY_PATH = {"plan.tasks": 20_000, "template.tasks": 20_000, "tasks": 20_000}
MAX_INTEGER = 2**53


class Field:
    """Limits and description of a parameter, for `Annotated`.

    Takes the same arguments as pydantic's `Field`, and pydantic understands it.
    """

    __slots__ = ("_description", "_limits")

    def __init__(self, *, description: str = "", **limits: int) -> None:
        self._description, self._limits = description, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return self._add_limits(handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> Any:
        described = {"description": self._description} if self._description else {}
        return {**handler(schema), **described}

    def _add_limits(self, schema: dict[str, Any]) -> dict[str, Any]:
        if schema["type"] == "nullable":
            return {**schema, "schema": self._add_limits(schema["schema"])}
        return {**schema, **self._limits}


Name = Annotated[str, Field(strip_whitespace=True, min_length=1, max_length=MAX_NAME)]
Id = Annotated[str, Field(strip_whitespace=True, min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Field(min_length=1)]
Limit200 = Annotated[int, Field(ge=1, le=200)]
Limit1000 = Annotated[int, Field(ge=1, le=1000)]


def check_object(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a caller-defined object if its JSON is at most MAX_TEXT bytes; raises otherwise."""
    if (size := len(json.dumps(value, ensure_ascii=False).encode())) > MAX_TEXT:
        raise _build_too_large_error(name, f"{size} bytes", f"{MAX_TEXT} bytes")
    return value


UNCHANGED: Final[Any] = type("Unchanged", (), {"__repr__": lambda _: "UNCHANGED"})()
"""Default of a parameter for which null is a value: leaving it out keeps the current value."""


def check_input(arguments: dict[str, Any]) -> None:
    """Reject arguments that cannot be stored: too large, too deeply nested, or invalid text.

    Runs before every tool, so that both databases receive the same values.
    """
    _check_ids(arguments)
    if _are_short(arguments) or _is_obviously_valid(arguments):
        return
    for path, value, depth in _walk_values(arguments):
        if depth > MAX_DEPTH:
            raise InvalidInput(f"`{_get_first_part(path)}` is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, str):
            _check_text(path, value)
        elif isinstance(value, list) and len(value) > (most := _MAX_LIST_BY_PATH.get(path, MAX_LIST)):
            raise _build_too_large_error(path, f"{len(value)} items", f"{most} items")
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise InvalidInput(f"`{path}` is outside ±2**53, the range in which JSON numbers are exact.")
        elif isinstance(value, float) and value - value != 0:
            raise InvalidInput(f"`{path}` is {value}, which is not a JSON number.")


def is_id_parameter(name: str) -> bool:
    return name == "id" or name.endswith(("_id", "_ids"))


def _check_ids(arguments: dict[str, Any]) -> None:
    """Reject ids that are too long to be any; some are parts of file names."""
    for name in filter(is_id_parameter, arguments):
        given = arguments[name]
        for id in given if type(given) is list else (given,):
            if type(id) is str and len(id) > MAX_NAME:
                raise InvalidInput(
                    f"`{name}` has {len(id)} characters; an id has at most {MAX_NAME}.",
                    suggestion="Pass the id as an earlier answer showed it.",
                )


def _are_short(arguments: dict[str, Any]) -> bool:
    """Fast path for most calls: a few short ASCII strings, numbers and flags; False if in doubt."""
    texts = [*arguments]
    for value in arguments.values():
        if type(value) is str:
            texts.append(value)
        elif not _is_valid_scalar(value):
            return False
    joined = "".join(texts)
    return len(joined) <= _SHORT and joined.isascii() and "\0" not in joined


def _is_obviously_valid(arguments: dict[str, Any]) -> bool:
    """Fast path: check a large plan level by level instead of value by value; False if in doubt."""
    level: list[Any] = [arguments]
    for _ in range(MAX_DEPTH + 1):
        mappings = [value for value in level if type(value) is dict]
        lists = [value for value in level if type(value) is list]
        texts = [value for value in level if type(value) is str]
        others = [value for value in level if type(value) not in (dict, list, str)]
        if max(map(len, lists), default=0) > MAX_LIST or not (
            _are_valid_texts(texts) and all(map(_is_valid_scalar, others))
        ):
            return False
        level = [*chain(*mappings), *chain(*map(dict.values, mappings)), *chain(*lists)]
        if not level:
            return True
    return False


def _are_valid_texts(texts: list[str]) -> bool:
    joined = "".join(texts)
    fits = max(map(len, texts), default=0) * 4 <= MAX_TEXT
    return fits and "\0" not in joined and (joined.isascii() or _is_unicode(joined))


def _is_valid_scalar(value: Any) -> bool:
    if type(value) is int:
        return abs(value) <= MAX_INTEGER
    return value is None or type(value) is bool


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_text(path: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _build_unstorable_error(path, text[error.start]) from None
    if "\0" in text:
        raise _build_unstorable_error(path, "\0")
    if size > MAX_TEXT:
        raise _build_too_large_error(path, f"{size} bytes", f"{MAX_TEXT} bytes")


def _build_unstorable_error(path: str, character: str) -> InvalidInput:
    return InvalidInput(
        f"`{path}` contains the character U+{ord(character):04X}, which cannot be stored.",
        suggestion="Remove NUL characters and lone surrogates, then call again.",
    )


def _build_too_large_error(path: str, size: str, cap: str) -> InvalidInput:
    return InvalidInput(
        f"`{path}` has {size}; at most {cap} are accepted.",
        code=Code.TOO_LARGE,
        suggestion="Send less, or write it to a file and send the path.",
    )


def _walk_values(arguments: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield every value with its path and depth; keys count as values, because they are stored too."""
    waiting: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in arguments.items()]
    while waiting:
        path, value, depth = waiting.pop()
        yield path, value, depth
        if depth > MAX_DEPTH:
            continue
        if isinstance(value, dict):
            yield from ((f"{path} (a key)", key, depth) for key in value)
            waiting += [(f"{path}.{key}", inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{place}]", inner, depth + 1) for place, inner in enumerate(value)]


def _get_first_part(path: str) -> str:
    return path.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]
