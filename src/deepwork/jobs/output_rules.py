"""Whether what was submitted is what a step must deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deepwork.jobs.models import OutputSpec, OutputType

FindProblem = Callable[[str], str | None]


def output_problems(
    submitted: Mapping[str, Any], declared: Sequence[OutputSpec], problem_with: FindProblem
) -> Iterator[str]:
    """What is wrong, in the order in which a caller should mend it; `problem_with` looks at one path."""
    specs = {spec.name: spec for spec in declared}
    if unknown := [name for name in submitted if name not in specs]:
        valid = ", ".join(specs) or "none"
        yield f"Unknown output names: {', '.join(unknown)}. Declared outputs: {valid}."
    if missing := [spec.name for spec in declared if spec.required and spec.name not in submitted]:
        yield f"Missing required outputs: {', '.join(missing)}."
    for name, value in submitted.items():
        if name in specs:
            yield from _value_problems(specs[name], value, problem_with)


def _value_problems(spec: OutputSpec, value: Any, problem_with: FindProblem) -> Iterator[str]:
    if spec.type is OutputType.FILE:
        if not isinstance(value, str):
            yield f"{_declared(spec)}: pass a single string path, not {_kind(value)}."
            return
        paths = [value]
    else:
        if not isinstance(value, list):
            yield f"{_declared(spec)}: pass a list of paths, not {_kind(value)}."
            return
        if not value and spec.required:
            yield f"Output '{spec.name}' is required: its list of paths may not be empty."
        if odd := [each for each in value if not isinstance(each, str)]:
            yield f"{_declared(spec)}: each path is a string, not {_kind(odd[0])}."
        paths = [each for each in value if isinstance(each, str)]
    for path in paths:
        if problem := problem_with(path):
            yield f"Output '{spec.name}': {problem}"


def _declared(spec: OutputSpec) -> str:
    return f"Output '{spec.name}' is declared as type '{spec.type}'"


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
