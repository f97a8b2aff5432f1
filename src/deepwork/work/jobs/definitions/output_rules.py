"""Checks submitted outputs against the outputs that a step declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deepwork.work.jobs.definitions.models import OutputSpec, OutputType

FindProblem = Callable[[str], str | None]


def find_output_problems(
    submitted: Mapping[str, Any], declared: Sequence[OutputSpec], find_path_problem: FindProblem
) -> Iterator[str]:
    """Find what is wrong, in the order a caller should fix it; `find_path_problem` checks a single path."""
    specs = {spec.name: spec for spec in declared}
    if unknown := [name for name in submitted if name not in specs]:
        valid = ", ".join(specs) or "none"
        yield f"Unknown output names: {', '.join(unknown)}. Declared outputs: {valid}."
    if missing := [spec.name for spec in declared if spec.required and spec.name not in submitted]:
        yield f"Missing required outputs: {', '.join(missing)}."
    for name, value in submitted.items():
        if name in specs:
            yield from _find_value_problems(specs[name], value, find_path_problem)


def _find_value_problems(spec: OutputSpec, value: Any, find_path_problem: FindProblem) -> Iterator[str]:
    if spec.type is OutputType.FILE:
        if not isinstance(value, str):
            yield f"{_describe_spec(spec)}: pass a single string path, not {_describe_type(value)}."
            return
        paths = [value]
    else:
        if not isinstance(value, list):
            yield f"{_describe_spec(spec)}: pass a list of paths, not {_describe_type(value)}."
            return
        if not value and spec.required:
            yield f"Output '{spec.name}' is required: its list of paths may not be empty."
        if odd := [each for each in value if not isinstance(each, str)]:
            yield f"{_describe_spec(spec)}: each path is a string, not {_describe_type(odd[0])}."
        paths = [each for each in value if isinstance(each, str)]
    for path in paths:
        if problem := find_path_problem(path):
            yield f"Output '{spec.name}': {problem}"


def _describe_spec(spec: OutputSpec) -> str:
    return f"Output '{spec.name}' is declared as type '{spec.type}'"


def _describe_type(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
