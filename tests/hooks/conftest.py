from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from application import make_app
from hooks.make import Project


@pytest.fixture
def project(tmp_path: Path, location: str) -> Iterator[Project]:
    """A project on each kind of database, in real time."""
    made = Project(make_app(tmp_path, location))
    yield made
    made.app.close()


@pytest.fixture
def file_project(tmp_path: Path) -> Iterator[Project]:
    """A project on a file, for what is the same on every database."""
    made = Project(make_app(tmp_path, ""))
    yield made
    made.app.close()
