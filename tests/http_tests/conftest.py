from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from http_tests.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a module."""
    with Served(Path(tmp_path_factory.mktemp("project"))) as server:
        yield server
