"""Which tests `make test` leaves to `make test-all`: those marked `thorough`, by hand or as a twin.

A test that runs on SQLite and on PostgreSQL is two tests; the second one is the first one's twin. Most twins ask the
same of the same SQL. So a twin is `thorough`, unless it is listed in `twins.txt`, whose tests together run the
statements of their slices (`scripts/choose_twins.py`), is marked `differs` because it is a race or a migration, or is
in a folder that is about the databases themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

FIRST, SECOND = "sqlite", "postgres"
DIFFERING_FOLDERS = ("database", "store_admin", "chaos", "events")
LISTED_TWINS = Path(__file__).with_name("twins.txt")

COLLECTED = pytest.StashKey[set[tuple[Path, str]]]()
"""The file and the function of every test that pytest found, before any were left out."""


def note_collected(items: list[pytest.Item], config: pytest.Config) -> None:
    """Remember what was found, for the test that nothing is lost."""
    config.stash[COLLECTED] = {(item.path, getattr(item, "originalname", item.name)) for item in items}


def mark_twins(items: Iterable[pytest.Item]) -> None:
    """Mark the twins on PostgreSQL as `thorough`, except those that are listed or marked `differs`."""
    listed = read_listed_twins()
    for item in list_twins(items):
        if not (get_function_id(item) in listed or _differs(item)):
            item.add_marker("thorough")


def _differs(item: pytest.Item) -> bool:
    return item.path.parent.name in DIFFERING_FOLDERS or item.get_closest_marker("differs") is not None


def read_listed_twins() -> set[str]:
    """Read which tests are listed."""
    return set(LISTED_TWINS.read_text(encoding="utf-8").split())


def get_function_id(item: pytest.Item) -> str:
    """Return the id of a test without its parameters."""
    return item.nodeid.partition("[")[0]


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
