"""What a command is given as YAML or JSON, in a file or on standard input; its mistakes are told by line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from pydantic import TypeAdapter, ValidationError

from deepwork.errors import DefinitionError
from deepwork.server.complaints import sentence

MAX_BYTES = 16 * 2**20

_MOST_TOLD = 20
_STDIN = "standard input"

Where = tuple[str | int, ...]
Check = Callable[[Any], Iterator[tuple[Where, str]]]
"""What is wrong with a document that has the right form: where, and a sentence."""


class Document(click.ParamType[Any]):
    """A document of a certain form; the value is what it says, as plain data."""

    name = "file"

    def __init__(self, form: Any, *, check: Check | None = None, inner: str = "") -> None:
        """`inner`: a key under which the wanted thing may stand, in a document that holds more."""
        self._form, self._check, self._inner = form, check, inner

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and examine it."""
        if not isinstance(value, str):
            return value
        text = _text(value, param, ctx)
        data = _data(text)
        at: Where = ()
        if self._inner and isinstance(data, dict) and self._inner in data:
            data, at = data[self._inner], (self._inner,)
        if wrong := list(self._problems(data)):
            raise DefinitionError(_told(text, [((*at, *where), said) for where, said in wrong]))
        return data

    def _problems(self, data: Any) -> Iterator[tuple[Where, str]]:
        try:
            read = TypeAdapter(self._form).validate_python(data)
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                yield problem["loc"], _sentence(dict(problem))
            return
        if self._check:
            yield from self._check(read)


class LongText(click.ParamType[str]):
    """A text; `-` reads it from standard input."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return _standard_input(param, ctx) if value == "-" else str(value)


class Output(click.ParamType[tuple[str, Any]]):
    """What a step delivers: `name=file`, or all of it as one JSON object."""

    name = "name=file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            try:
                return json.loads(value)
            except ValueError as error:
                self.fail(f"not JSON: {error}", param, ctx)
        name, equals, file = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is neither of the form name=file nor a JSON object.", param, ctx)
        return {name.strip(): file}


def outputs(_: click.Context, __: click.Parameter, given: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """All that was named; a name given more than once has a list of files."""
    found: dict[str, Any] = {}
    for each in given:
        for name, file in each.items():
            found[name] = [*_listed(found[name]), *_listed(file)] if name in found else file
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _Text(NamedTuple):
    source: str
    text: str


def _text(value: str, param: click.Parameter | None, ctx: click.Context | None) -> _Text:
    if value == "-":
        return _Text(_STDIN, _standard_input(param, ctx))
    if _looks_like_json(value):
        return _Text("argument", value)
    try:
        content = Path(value).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}.", ctx, param) from None
    return _Text(value, _decoded(content, value))


def _standard_input(param: click.Parameter | None, ctx: click.Context | None) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise click.BadParameter("nothing comes on standard input; name a file, or pipe it in.", ctx, param)
    return _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), _STDIN)


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{source}:{line}: The text is not UTF-8.") from None


def _data(text: _Text) -> Any:
    if _looks_like_json(text.text):
        try:
            return json.loads(text.text)
        except ValueError:
            pass  # YAML may look so too, and it names the line of what is wrong
    return _document(text).data


def _document(text: _Text) -> Any:
    from deepwork.files.yaml import load_yaml  # most commands are given no document

    return load_yaml(text.text, source=text.source, max_bytes=MAX_BYTES)


def _looks_like_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _told(text: _Text, problems: list[tuple[Where, str]]) -> str:
    try:
        line = _document(text).line
    except DefinitionError:  # JSON can be more than YAML takes; then a problem is told by its path alone
        lines = [f"{text.source}: {said}" for _, said in problems]
    else:
        lines = [f"{text.source}:{line(*where)}: {said}" for where, said in problems]
    more = [f"And {len(lines) - _MOST_TOLD} more."] if len(lines) > _MOST_TOLD else []
    return "\n".join([*lines[:_MOST_TOLD], *more])


def _sentence(problem: dict[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        return f"The key `{problem['loc'][-1]}` is unknown."
    if not problem["loc"]:
        return f"{problem['msg']}."
    return sentence(problem, ())
