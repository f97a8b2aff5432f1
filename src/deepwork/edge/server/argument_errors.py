"""Turns pydantic validation errors into messages that name the parameter."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from deepwork.kernel.errors import InvalidArguments

MAX_NAMED = 5
MAX_SHOWN = 60

_OBJECT, _WHOLE_NUMBER = "an object", "a whole number"
_WANTED = {
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "int_type": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "none_required": "null",
}
"""Words of JSON for the types of pydantic's errors, which speak of Python."""


def build_argument_error(tool: str, error: ValidationError, parameters: Sequence[str]) -> InvalidArguments:
    """Build one error that lists every problem, so that a caller can fix them all before the next call."""
    problems = [format_problem(dict(problem), parameters) for problem in error.errors(include_url=False)]
    more = f" And {len(problems) - MAX_NAMED} more." if len(problems) > MAX_NAMED else ""
    return InvalidArguments(" ".join(problems[:MAX_NAMED]) + more, tool, parameters)


def format_problem(problem: dict[str, Any], parameters: Sequence[str]) -> str:
    """Format one pydantic error as a sentence."""
    path = _format_path(problem["loc"])
    kind = problem["type"]
    if kind == "missing":
        return f"`{path}` is missing."
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(path, parameters, n=1)
        return f"There is no parameter `{path}`." + (f" Did you mean `{close[0]}`?" if close else "")
    given = _format_value(problem["input"])
    wanted = problem["ctx"]["expected"] if kind in ("enum", "literal_error") else _WANTED.get(kind)
    if wanted:
        return f"{f'`{path}`' if path else 'It'} must be {wanted}, not {given}."
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return f"`{path}`: {message}, not {given}."


def _format_path(location: tuple[str | int, ...]) -> str:
    """Format a location as `steps[2].name`, without the names of union members that pydantic tried."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not path:
            path = part[:MAX_SHOWN]
        elif part.isidentifier() and part not in {"str", "int", "dict", "list"}:
            path += f".{part}"
    return path


def _format_value(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
