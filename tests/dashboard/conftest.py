"""Fixtures: a store with data of every kind, and an HTTP client for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from application import Clock
from dashboard.make import World, create_client, make_everything
from deepwork.edge.server.application import Application


@pytest.fixture
def world(app: Application, tmp_path: Path, clock: Clock) -> World:
    return make_everything(app, tmp_path, clock)


@pytest.fixture
def page(app: Application) -> TestClient:
    return create_client(app)
