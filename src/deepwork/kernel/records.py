"""Fast copies of frozen dataclasses, for the values that every call reads and changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")


def build_record(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Build a frozen dataclass from all its fields, several times as fast as its constructor.

    Only for values that are complete by construction, such as the row of a query that names every field.
    """
    record = object.__new__(kind)
    record.__dict__.update(values)
    return record


def copy_with(record: Record, /, **changes: Any) -> Record:
    """Return a copy of a frozen dataclass with these changes; `replace` takes ten times as long."""
    fields = record.__dict__
    if not fields.keys() >= changes.keys():
        raise TypeError(f"{type(record).__name__} has no field {min(changes.keys() - fields.keys())!r}.")
    copy = object.__new__(type(record))
    copy.__dict__.update(fields, **changes)
    return copy
