"""A project that is a real git repository, and a store: in SQLite, unless a test asks for both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import empty_database
from workspaces.make import create_repository


@pytest.fixture
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty store. Most tests here are about files: SQLite suffices for them."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return str(tmp_path / "deepwork.db")
    url: str = request.getfixturevalue("postgres_url")
    empty_database(url)
    return url


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project: `app` keeps its SQLite file beside it, ignored by git."""
    return create_repository(tmp_path)
