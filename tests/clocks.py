"""Coarse clocks, for `make flaky`."""

from __future__ import annotations

import os
from collections.abc import Callable

from deepwork.kernel.database.postgres import PostgreSQL
from deepwork.kernel.database.sqlite import SQLite


def coarsen_clocks() -> None:
    """Make the databases' clocks move in steps, if configured, so that many rows get the same time."""
    if not (step := int(os.environ.get("DEEPWORK_TESTS_CLOCK_MS", "0"))):
        return

    def coarsen(read: Callable[..., int]) -> Callable[..., int]:
        return lambda *arguments: read(*arguments) // step * step

    for engine in (SQLite, PostgreSQL):
        engine.now = coarsen(engine.now)  # type: ignore[method-assign]
