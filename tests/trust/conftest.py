from __future__ import annotations

from pathlib import Path

import pytest

from setup.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return Sandbox(tmp_path, monkeypatch)
