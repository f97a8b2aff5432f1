"""A repository whose branch `main` is checked out nowhere, so that work lands on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import Clock
from deepwork.edge.server.application import Application
from landing.make import LandingProject
from workspaces.make import create_repository


@pytest.fixture(autouse=True)
def own_trust(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test trusts nothing at first."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture
def project(tmp_path: Path, app: Application, clock: Clock) -> LandingProject:
    """A project on each kind of database."""
    return LandingProject(create_repository(tmp_path), app, clock)
