"""Chooses the tests that `make test` runs on PostgreSQL, too, and writes them to `tests/twins.txt`.

Runs every test that has a twin on PostgreSQL, notes the SQL of each, and takes few and quick ones that together run
every statement. Takes minutes; run it after a change of many tests or stores: `python scripts/choose_twins.py`.
"""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for `selection`, which is not installed

from selection import LISTED_TWINS, get_function_id, list_twins  # noqa: E402

_START_SECONDS = 0.1
"""Added to what each test takes, so that one long test is better than many short ones."""


class Recorder:
    """A plugin of pytest that runs only the twins, and notes which statements each function runs."""

    def __init__(self) -> None:
        self.statements: defaultdict[str, set[str]] = defaultdict(set)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._function = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = list_twins(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._function, began = get_function_id(item), time.process_time()
        result = yield
        self.seconds[self._function] += time.process_time() - began
        self._function = ""
        return result

    def watch(self) -> None:
        """Note the statements that this process sends from now on."""
        execute: Any = psycopg.Cursor.execute

        def execute_noted(cursor: Any, query: Any, *given: Any, **named: Any) -> Any:
            if self._function and isinstance(query, str):
                self.statements[self._function].add(normalize(query))
            return execute(cursor, query, *given, **named)

        psycopg.Cursor.execute = execute_noted  # type: ignore[assignment,method-assign]


def normalize(statement: str) -> str:
    """Leave out how many values a list has."""
    one_line = re.sub(r"\s+", " ", statement)
    numbered = re.sub(r"%\((\w+?)_?\d+\)s", r"%(\1)s", one_line)
    return re.sub(r"\d{4,}", "N", re.sub(r"(%\(\w+\)s(?:::\w+)?, ?)+(?=%\()", "", numbered))


def choose(statements: Mapping[str, set[str]], seconds: Mapping[str, float]) -> list[str]:
    """Choose tests that run all statements: always the one that runs most new ones for its time."""
    missing = set[str]().union(*statements.values())
    chosen = []
    while missing:
        best = max(
            sorted(statements),
            key=lambda name: len(statements[name] & missing) / (seconds[name] + _START_SECONDS),
        )
        missing -= statements[best]
        chosen.append(best)
    return sorted(chosen)


def main() -> None:
    recorder = Recorder()
    recorder.watch()
    if code := pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[recorder]):
        sys.exit(code)
    chosen = choose(recorder.statements, recorder.seconds)
    LISTED_TWINS.write_text("".join(f"{name}\n" for name in chosen))
    print(f"{len(chosen)} of {len(recorder.statements)} tests run every statement.")


if __name__ == "__main__":
    main()
