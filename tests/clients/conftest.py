"""Real clients, installed as users install them; `make clients` sets the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clients.machine import Machine

FOLDER = os.environ.get("DEEPWORK_CLIENT_TESTS")
collect_ignore_glob = [] if FOLDER else ["test_*.py"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A fresh home and a fresh project on a machine that has the clients."""
    assert FOLDER is not None
    return Machine(tmp_path, Path(FOLDER).resolve() / "node_modules" / ".bin")
