"""click parameter types for YAML and JSON documents, from a file or standard input; errors name the line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from deepwork.kernel.errors import DefinitionError

if TYPE_CHECKING:
    from deepwork.kernel.files.yaml import YamlDocument

MAX_BYTES = 16 * 2**20

_MAX_PROBLEMS = 20
_STDIN = "standard input"

ProblemPath = tuple[str | int, ...]
DocumentCheck = Callable[[Any], Iterator[tuple[ProblemPath, str]]]
"""Yields (path, message) for each problem in a document that is valid by its schema."""


class DocumentParam(click.ParamType[Any]):
    """A YAML or JSON document that must match a pydantic type; its value is plain data."""

    name = "file"

    def __init__(
        self, form: Callable[[], Any], *, check: DocumentCheck | None = None, inner: str = ""
    ) -> None:
        """`form`: returns the type. `inner`: a key under which the wanted value may also be found."""
        self._form, self._check, self._inner = form, check, inner

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and validate it."""
        if not isinstance(value, str):
            return value
        text = _read_text(value, param, ctx)
        data = _parse_data(text)
        at: ProblemPath = ()
        if self._inner and isinstance(data, dict) and self._inner in data:
            data, at = data[self._inner], (self._inner,)
        if wrong := list(self._find_problems(data)):
            raise DefinitionError(
                _format_problems(text, [((*at, *where), message) for where, message in wrong])
            )
        return data

    def _find_problems(self, data: Any) -> Iterator[tuple[ProblemPath, str]]:
        from pydantic import TypeAdapter, ValidationError

        try:
            read = TypeAdapter(self._form()).validate_python(data)
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                yield problem["loc"], _format_problem(dict(problem))
            return
        if self._check:
            yield from self._check(read)


class TextParam(click.ParamType[str]):
    """A string; `-` reads it from standard input."""

    name = "text"

    def __init__(self, *, may_be_empty: bool = True) -> None:
        self._may_be_empty = may_be_empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = _read_standard_input(param, ctx) if value == "-" else str(value)
        if not text and not self._may_be_empty:
            self.fail("it is empty.", param, ctx)
        return text


class OutputParam(click.ParamType[tuple[str, Any]]):
    """An output of a step, as `name=file`; or all outputs as one JSON object."""

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


def merge_outputs(_: click.Context, __: click.Parameter, given: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Merge the outputs that were given; a name given more than once gets a list of files."""
    found: dict[str, Any] = {}
    for each in given:
        for name, file in each.items():
            found[name] = [*_to_list(found[name]), *_to_list(file)] if name in found else file
    return found


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _SourceText(NamedTuple):
    source: str
    text: str


def _read_text(value: str, param: click.Parameter | None, ctx: click.Context | None) -> _SourceText:
    if value == "-":
        return _SourceText(_STDIN, _read_standard_input(param, ctx))
    if _looks_like_json(value):
        return _SourceText("argument", value)
    try:
        content = Path(value).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}.", ctx, param) from None
    return _SourceText(value, _decode(content, value))


def _read_standard_input(param: click.Parameter | None, ctx: click.Context | None) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise click.BadParameter(
            "nothing is piped into standard input; name a file, or pipe it in.", ctx, param
        )
    return _decode(sys.stdin.buffer.read(MAX_BYTES + 1), _STDIN)


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{source}:{line}: The text is not UTF-8.") from None


def _parse_data(text: _SourceText) -> Any:
    if _looks_like_json(text.text):
        try:
            return json.loads(text.text)
        except ValueError:
            pass  # it may be YAML, and the YAML parser reports the line of an error
    return _load_yaml_document(text).data


def _load_yaml_document(text: _SourceText) -> YamlDocument:
    from deepwork.kernel.files.yaml import load_yaml  # imported here because most commands read no document

    return load_yaml(text.text, source=text.source, max_bytes=MAX_BYTES)


def _looks_like_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _format_problems(text: _SourceText, problems: list[tuple[ProblemPath, str]]) -> str:
    try:
        get_line = _load_yaml_document(text).get_line
    except DefinitionError:  # valid JSON that our YAML loader rejects: line numbers are unknown
        lines = [f"{text.source}: {message}" for _, message in problems]
    else:
        lines = [f"{text.source}:{get_line(*where)}: {message}" for where, message in problems]
    more = [f"And {len(lines) - _MAX_PROBLEMS} more."] if len(lines) > _MAX_PROBLEMS else []
    return "\n".join([*lines[:_MAX_PROBLEMS], *more])


def _format_problem(problem: dict[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        return f"The key `{problem['loc'][-1]}` is unknown."
    from deepwork.edge.server.argument_errors import format_problem

    return format_problem(problem, ())
