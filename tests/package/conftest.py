from __future__ import annotations

from pathlib import Path

import pytest

from package.installing import Installed, built, copy_of_the_source, installed


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_source(tmp_path_factory.mktemp("source") / "deepwork")


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def deepwork(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Installed from the wheel, without extras."""
    return installed(wheel, tmp_path_factory.mktemp("installed"))
