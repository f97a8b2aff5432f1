from __future__ import annotations

from pathlib import Path

import pytest

from package.installation import Installation, build_package, copy_source, install


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("source") / "deepwork")


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def deepwork(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """deepwork, installed from the wheel without extras."""
    return install(wheel, tmp_path_factory.mktemp("installed"))
