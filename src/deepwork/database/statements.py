"""SQL as our stores write it, turned into what each driver takes.

Stores write `:name` for a value and `IN :names` for a list of values. Both databases speak the rest alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

# A colon that begins a parameter; not one of a `::cast`, nor one inside a word such as 'agent:updated'.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_LIMIT = re.compile(r"\bLIMIT (:[a-z_]\w*)")

_LISTS = (list, tuple)

Placeholder = Callable[[str], str]


def colon(name: str, /) -> str:
    """SQLite's form."""
    return f":{name}"


def percent(name: str, /) -> str:
    """psycopg's form."""
    return f"%({name})s"


def prepared(sql: str, values: Mapping[str, Any], placeholder: Placeholder) -> tuple[str, Mapping[str, Any]]:
    """The statement and its values in the driver's form, lists spread out."""
    lists = tuple([(name, len(value)) for name, value in values.items() if isinstance(value, _LISTS)])
    if not lists:
        return _translated(sql, (), placeholder), values
    spread = dict(values)
    for name, length in lists:
        spread.update(zip(_places(name, length), spread.pop(name), strict=True))
    return _translated(sql, lists, placeholder), spread


@lru_cache(maxsize=1024)
def _places(name: str, length: int) -> list[str]:
    """The names of a list's items."""
    return [f"{name}_{place}" for place in range(length)]


@lru_cache(maxsize=1024)
def _translated(sql: str, lists: tuple[tuple[str, int], ...], placeholder: Placeholder) -> str:
    lengths = dict(lists)

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name not in lengths:
            return placeholder(name)
        items = ", ".join(map(placeholder, _places(name, lengths[name])))
        # An empty list matches nothing; `IN ()` would be an error on PostgreSQL.
        return f"({items or 'NULL'})"

    return _PARAMETER.sub(replace, _steady(sql) if placeholder is colon else sql.replace("%", "%%"))


def _steady(sql: str) -> str:
    """The statement so that SQLite prepares it once.

    It plans by the value of a bare `LIMIT :limit`, and so plans anew whenever a value is bound to it: that
    takes longer than most of our queries.
    """
    return _LIMIT.sub(r"LIMIT \1 + 0", sql)


@lru_cache(maxsize=256)
def insertion(table: str, columns: tuple[str, ...]) -> str:
    """An INSERT for these columns; names come from our stores, never from a caller."""
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


@lru_cache(maxsize=256)
def update(table: str, columns: tuple[str, ...]) -> str:
    """An UPDATE of these columns of the row `:id`; names come from our stores, never from a caller."""
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    return f"UPDATE {table} SET {changes} WHERE id = :id"  # noqa: S608


def where(conditions: Mapping[str, Any]) -> str:
    """A WHERE of those conditions that were given a value; the text is our stores', never a caller's."""
    given = [condition for condition, value in conditions.items() if value is not None]
    return f"WHERE {' AND '.join(given)}" if given else ""
