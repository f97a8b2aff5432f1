"""A browser before a store with some of everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dashboard.make_dashboard import World, browser, everything
from deepwork.server.house import House
from house import Clock


@pytest.fixture
def world(house: House, tmp_path: Path, clock: Clock) -> World:
    return everything(house, tmp_path, clock)


@pytest.fixture
def page(house: House) -> TestClient:
    return browser(house)
