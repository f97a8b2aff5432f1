"""Answers for people: plain, aligned, and safe to show in a terminal."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime
from typing import Any

from deepwork.cli import terminal


def show(answer: Any, *, as_json: bool) -> None:
    """Print an answer, for a person or for a program."""
    if as_json:
        print(json.dumps(answer, ensure_ascii=False))
    else:
        print("\n".join(lines(answer)))


def lines(answer: Any) -> list[str]:
    """An answer as lines: lists of things as tables, everything else as `key  value`."""
    if isinstance(answer, str):
        return list(map(printable, answer.splitlines()))
    if _is_table(answer):
        return _table("", answer)
    if not isinstance(answer, dict):
        return [printable(answer)]
    tables = {key: value for key, value in answer.items() if _is_table(value)}
    plain = {key: value for key, value in answer.items() if key not in tables}
    written = [line for key, rows in tables.items() for line in _table(key, rows)]
    indent = max((len(key) for key in plain), default=0)
    return written + [line for key, value in plain.items() for line in _fact(key, value, indent)]


def cell(key: str, value: Any) -> str:
    """A value as a person reads it: moments as times, lists of words as words, nothing as nothing."""
    if isinstance(value, int) and (key.endswith("_at") or key in ("at", "last_heartbeat")):
        return datetime.fromtimestamp(value / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return printable(", ".join(value))
    return "" if value in (None, {}) else printable(value)


def printable(value: Any) -> str:
    """One line of text; control characters, which could drive the terminal, are shown instead of sent."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(
        character
        if unicodedata.category(character)[0] != "C"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def pretty(answer: Any) -> list[str]:
    """Something deep, as JSON that a person can read."""
    return list(map(printable, json.dumps(answer, ensure_ascii=False, indent=2).splitlines()))


def _fact(key: str, value: Any, indent: int) -> list[str]:
    """`key  value`; a text of several lines goes on below its first one."""
    if isinstance(value, str) and "\n" in value.strip():
        first, *others = map(printable, value.strip().splitlines())
        return [f"{key:<{indent}}  {first}", *(f"{'':<{indent}}  {line}".rstrip() for line in others)]
    return [f"{key:<{indent}}  {cell(key, value)}"]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _table(title: str, rows: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[cell(name, row.get(name)) for name in names] for row in rows]
    if terminal.is_rich():
        from deepwork.cli.rich_tables import drawn

        return drawn(title, names, cells, terminal.columns())
    from deepwork.cli.tables import aligned

    return [title.upper()] * bool(title) + aligned([names, *cells], names) + [""]
