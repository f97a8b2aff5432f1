"""Prints answers: as JSON for programs, as aligned text without control characters for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.terminal import to_heading
from deepwork.kernel.foreign_text import dump_json, escape_line, split_lines

Render = Callable[[Any], Iterable[str]]


def print_answer(answer: Any, *, as_json: bool, render: Render | None = None) -> None:
    """Print an answer as JSON, or as text: as `render` writes it, whose lines must be printable."""
    if as_json:
        print(dump_json(answer))
    else:
        print("\n".join((render or render_lines)(answer)))


def print_said(answer: Any, *lines: str, as_json: bool) -> None:
    """Print an answer as JSON, or what is said about it to people."""
    if as_json:
        print(dump_json(answer))
    else:
        print_lines(lines)


def print_listed(answer: Any, name: str, rows: list[dict[str, Any]], none: str, *, as_json: bool) -> None:
    """Print a list as JSON, or its rows as a table; `none` says that there are none."""
    if as_json or not rows:
        print_said(answer, none, as_json=as_json)
    else:
        print_answer({name: rows}, as_json=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    for line in lines:
        print(to_printable(line))


def render_lines(answer: Any) -> list[str]:
    """Render an answer as lines: lists of objects as tables, everything else as `heading  value`."""
    if isinstance(answer, str):
        return list(map(to_printable, split_lines(answer)))
    if _is_table(answer):
        return _render_table("", answer)
    if not isinstance(answer, dict):
        return [to_printable(answer)]
    tables = {key: value for key, value in answer.items() if _is_table(value)}
    plain = {key: value for key, value in answer.items() if key not in tables}
    written = [line for key, rows in tables.items() for line in _render_table(key, rows)]
    indent = max((len(to_heading(key)) for key in plain), default=0)
    return written + [line for key, value in plain.items() for line in _render_fact(key, value, indent)]


def format_cell(key: str, value: Any) -> str:
    """Format a value for people: times by `clock`, lists of strings joined, null as empty."""
    if (moment := terminal.parse_moment(key, value)) is not None:
        return terminal.format_moment(moment)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return to_printable(", ".join(value))
    return "" if value in (None, {}) else to_printable(value)


def to_printable(value: Any) -> str:
    """Return one line of text with control characters escaped, because they could control the terminal."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape_line(text)


def render_json(answer: Any) -> list[str]:
    """Render a nested value as indented JSON."""
    return list(map(to_printable, split_lines(json.dumps(answer, ensure_ascii=False, indent=2))))


def _render_fact(key: str, value: Any, indent: int) -> list[str]:
    """Render `heading  value`; further lines of the value are aligned below its first."""
    heading = to_heading(key)
    if isinstance(value, str) and "\n" in value.strip():
        first, *others = map(to_printable, split_lines(value.strip()))
        return [f"{heading:<{indent}}  {first}", *(f"{'':<{indent}}  {line}".rstrip() for line in others)]
    text = "none" if value == [] else format_cell(key, value)
    return [f"{heading:<{indent}}  {text}"]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _render_table(title: str, rows: list[dict[str, Any]]) -> list[str]:
    found = dict.fromkeys(key for row in rows for key in row)
    names = sorted(found, key="id".__eq__)  # people read names first; an id is for the next command
    cells = [[format_cell(name, row.get(name)) for name in names] for row in rows]
    if terminal.supports_rich_output():
        from deepwork.edge.cli.framework.rich_tables import render_table

        return render_table(title, names, cells, terminal.get_width())
    from deepwork.edge.cli.framework.tables import align_rows

    headings = [to_heading(name) for name in names]
    return [to_heading(title).upper()] * bool(title) + align_rows([headings, *cells], names) + [""]
