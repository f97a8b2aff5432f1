from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from http_tests.http_server import HttpServer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One server for the tests of a module."""
    with HttpServer(Path(tmp_path_factory.mktemp("project"))) as server:
        yield server
