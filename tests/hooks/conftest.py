from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hooks.make_hooks import Project
from house import house_at


@pytest.fixture
def project(tmp_path: Path, location: str) -> Iterator[Project]:
    """A project on each kind of database, in real time."""
    made = Project(house_at(tmp_path, location))
    yield made
    made.house.close()


@pytest.fixture
def file_project(tmp_path: Path) -> Iterator[Project]:
    """A project on a file, for what is the same on every database."""
    made = Project(house_at(tmp_path, ""))
    yield made
    made.house.close()
