"""Texts in JSON columns: the few SQL clauses in which SQLite and PostgreSQL differ."""

from __future__ import annotations

from deepwork.kernel.records import dataclass


@dataclass(frozen=True)
class JsonTexts:
    """The clauses of one database."""

    texts: str
    """A table with the column `value`: the texts under {key}, of the JSON object in the column {column}."""
    is_unusual_path: str
    """The condition that `value` is not a plain relative path: perhaps a glob, or written in another way."""
    given: str
    """A query for the texts of the JSON array that is passed as the value {name}: one value, however many."""
    joined: str
    """The aggregate of the texts {text} with spaces between them; NULL if there are none."""


SQLITE = JsonTexts(
    texts="json_each({column}, '$.{key}')",
    is_unusual_path="value GLOB '*[^-A-Za-z0-9_./]*' OR value GLOB '[./]*' OR value GLOB '*/'",
    given="SELECT value FROM json_each(:{name})",
    joined="group_concat({text}, ' ')",
)
_GIVEN = "CAST({column} AS jsonb) -> '{key}'"
POSTGRES = JsonTexts(
    texts=f"""
        jsonb_array_elements_text(CASE jsonb_typeof({_GIVEN}) WHEN 'array' THEN {_GIVEN}
            WHEN 'string' THEN jsonb_build_array({_GIVEN}) ELSE '[]' END) AS texts(value)
    """,
    is_unusual_path="value ~ '[^-A-Za-z0-9_./]|^[./]|/$'",
    given="SELECT jsonb_array_elements_text(CAST(:{name} AS jsonb))",
    joined="string_agg({text}, ' ')",
)
