"""A project that is a real git repository, for every test of workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspaces.make import create_repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project: `app` keeps its SQLite file beside it, ignored by git."""
    return create_repository(tmp_path)
