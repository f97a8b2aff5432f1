"""Using PostgreSQL without its extra: an immediate error says what to install."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.errors import StorageError
from package.installation import Installation

URL = "postgresql://ada@127.0.0.1:1/deepwork"
ADVICE = "pip install 'deepwork[postgres]'"


def test_without_the_extra_every_command_says_what_to_install(deepwork: Installation, tmp_path: Path):
    for command in (["agents", "list", "--json"], ["serve"], ["db", "info"]):
        done = deepwork.run(*command, "--path", str(tmp_path), DEEPWORK_DATABASE_URL=URL)

        assert done.returncode == 1, done
        assert ADVICE in done.stderr
        assert "Traceback" not in done.stderr
        if "--json" in command:
            assert json.loads(done.stderr)["code"] == "STORAGE_ERROR"


@pytest.mark.parametrize("module", ["psycopg", "psycopg_pool"])
def test_either_part_of_the_driver_may_be_missing(module: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "deepwork.kernel.database.postgres", raising=False)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(StorageError, match="PostgreSQL driver") as refused:
        open_engine(URL)

    assert ADVICE in refused.value.suggestion


def test_another_failed_import_is_not_reported_as_a_missing_driver(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "deepwork.kernel.database.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "deepwork.kernel.database.table_store", None)

    with pytest.raises(ModuleNotFoundError, match="table_store"):
        open_engine(URL)
