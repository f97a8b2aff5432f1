from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from application import Clock, make_app
from checks.make import Project
from deepwork.edge.server.application import Application
from gated_project import any_gated, gated  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def own_trust(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test trusts nothing at first."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def any_project(folder: Path, location: str, clock: Clock) -> Iterator[Project]:
    """A project on each kind of database."""
    app = make_app(folder, location, clock)
    yield Project(folder, app)
    app.close()


@pytest.fixture
def project(folder: Path, tmp_path: Path) -> Iterator[Project]:
    """A project on SQLite, for what does not depend on storage."""
    app: Application = make_app(folder, str(tmp_path / "deepwork.db"))
    yield Project(folder, app)
    app.close()
