"""A browser before a store with some of everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from application import Clock
from dashboard.make_dashboard import World, browser, everything
from deepwork.server.application import Application


@pytest.fixture
def world(app: Application, tmp_path: Path, clock: Clock) -> World:
    return everything(app, tmp_path, clock)


@pytest.fixture
def page(app: Application) -> TestClient:
    return browser(app)
