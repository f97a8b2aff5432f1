"""Which tests `make test` leaves to `make test-all`: those marked `thorough`, by hand or as a twin.

A test that runs on SQLite and on PostgreSQL is two tests; the second one is the first one's twin. Most of them ask
the same of the same SQL. So a twin is `thorough`, unless its test or module is marked `differs`: there the SQL or
the locking of the databases differs, or it is the story that runs the statements of its slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

FIRST, SECOND = "sqlite", "postgres"

COLLECTED = pytest.StashKey[set[tuple[Path, str]]]()
"""The file and the function of every test that pytest found, before any were left out."""


def note_collected(items: list[pytest.Item], config: pytest.Config) -> None:
    """Remember what was found, for the test that nothing is lost."""
    config.stash[COLLECTED] = {(item.path, getattr(item, "originalname", item.name)) for item in items}


def mark_twins(items: Iterable[pytest.Item]) -> None:
    """Mark the twins on PostgreSQL as `thorough`, except those of tests that are marked `differs`."""
    for item in list_twins(items):
        if item.get_closest_marker("differs") is None:
            item.add_marker("thorough")


def list_twins(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """List the tests that differ from another one only in that they run on PostgreSQL."""
    listed = list(items)
    first = {_describe(item) for item in listed if SECOND not in _get_parameters(item).values()}
    return [item for item in listed if SECOND in _get_parameters(item).values() and _describe(item) in first]


def _describe(item: pytest.Item) -> tuple[object, ...]:
    """Describe a test as it is on SQLite; a test and its twin have the same description."""
    parameters = {
        name: FIRST if value == SECOND else repr(value) if value != FIRST else FIRST
        for name, value in _get_parameters(item).items()
    }
    return item.path, getattr(item, "originalname", item.name), tuple(sorted(parameters.items()))


def _get_parameters(item: pytest.Item) -> Mapping[str, Any]:
    called = getattr(item, "callspec", None)
    return called.params if called is not None else {}
