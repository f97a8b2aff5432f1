"""Translates the SQL of our stores to the form of each driver.

Stores write `:name` for a value and `IN :names` for a list. The rest is the same for both databases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

# A colon that starts a parameter; not part of a `::cast`, nor inside a word such as 'agent:updated'.
_PARAMETER_PATTERN = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_LIMIT_PATTERN = re.compile(r"\bLIMIT (:[a-z_]\w*)")

_LIST_TYPES = (list, tuple)

Placeholder = Callable[[str], str]


def format_colon_placeholder(name: str, /) -> str:
    """Format a parameter for SQLite."""
    return f":{name}"


def format_percent_placeholder(name: str, /) -> str:
    """Format a parameter for psycopg."""
    return f"%({name})s"


def prepare_statement(
    sql: str, values: Mapping[str, Any], placeholder: Placeholder
) -> tuple[str, Mapping[str, Any]]:
    """Return the statement and its values in the driver's form, with lists expanded."""
    for value in values.values():
        if isinstance(value, _LIST_TYPES):
            break
    else:  # the common case
        return _translate(sql, (), placeholder), values
    lists = tuple([(name, len(value)) for name, value in values.items() if isinstance(value, _LIST_TYPES)])
    spread = dict(values)
    for name, length in lists:
        spread.update(zip(_list_item_names(name, length), spread.pop(name), strict=True))
    return _translate(sql, lists, placeholder), spread


@lru_cache(maxsize=1024)
def _list_item_names(name: str, length: int) -> list[str]:
    """Return the parameter names of a list's items."""
    return [f"{name}_{place}" for place in range(length)]


@lru_cache(maxsize=1024)
def _translate(sql: str, lists: tuple[tuple[str, int], ...], placeholder: Placeholder) -> str:
    lengths = dict(lists)

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name not in lengths:
            return placeholder(name)
        items = ", ".join(map(placeholder, _list_item_names(name, lengths[name])))
        # An empty list matches nothing; `IN ()` would be an error on PostgreSQL.
        return f"({items or 'NULL'})"

    return _PARAMETER_PATTERN.sub(
        replace, _stabilise_limit(sql) if placeholder is format_colon_placeholder else sql.replace("%", "%%")
    )


def _stabilise_limit(sql: str) -> str:
    """Change `LIMIT :limit` so that SQLite prepares the statement only once.

    SQLite's planner uses the value of a bare `LIMIT :limit`, and so prepares the statement again for every
    bound value, which takes longer than most of our queries. With `+ 0` it does not.
    """
    return _LIMIT_PATTERN.sub(r"LIMIT \1 + 0", sql)


@lru_cache(maxsize=256)
def build_insert(table: str, columns: tuple[str, ...]) -> str:
    """Build an INSERT for these columns; names come from our stores, never from a caller."""
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


@lru_cache(maxsize=256)
def build_positional_insert(table: str, columns: tuple[str, ...], placeholder: Placeholder) -> str:
    """Build an INSERT in the driver's form, with values in the order of the columns."""
    mark = "?" if placeholder is format_colon_placeholder else "%s"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608


@lru_cache(maxsize=256)
def build_update(table: str, columns: tuple[str, ...]) -> str:
    """Build an UPDATE of these columns for the row `:id`; names come from our stores, never from a caller."""
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    return f"UPDATE {table} SET {changes} WHERE id = :id"  # noqa: S608


def build_where(conditions: Mapping[str, Any]) -> str:
    """Build a WHERE clause of the conditions whose value is not None; the SQL is never from a caller."""
    given = [condition for condition, value in conditions.items() if value is not None]
    return f"WHERE {' AND '.join(given)}" if given else ""


def build_like_pattern(text: str) -> str:
    """Build the LIKE pattern for strings that contain this text, with `!` as escape character."""
    return "%" + re.sub(r"([!%_])", r"!\1", text) + "%"
