"""Settings of config.yml that can act count only after a person trusted them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deepwork.kernel.config import Settings, load_settings
from deepwork.kernel.config_options import OPTIONS
from deepwork.kernel.environment import get_user_folder
from trust.make import trust_settings, write_config

ACTING = {
    "database": ("postgresql://h/d", "database", "postgresql://h/d"),
    "global": ("true", "global_store", True),
    "transport": ("http", "transport", "http"),
    "port": ("9000", "port", 9000),
    "additional_jobs_folders": ("[/srv/jobs]", "additional_jobs_folders", ("/srv/jobs",)),
    "quality_gate.external_runner": ("claude", "external_runner", "claude"),
    "workspace.setup": ("[[make, deps]]", "workspace_setup", (("make", "deps"),)),
}
"""What each acting key is set to, the name of the setting, and its value."""


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def load(root: Path, flags: dict[str, Any] | None = None, **environment: str) -> Settings:
    return load_settings(root, flags, {"XDG_CONFIG_HOME": str(get_user_folder().parent), **environment})


def write_key(root: Path, key: str, value: str) -> Path:
    group, _, name = key.rpartition(".")
    return write_config(root, f"{group}:\n  {name}: {value}\n" if group else f"{name}: {value}\n")


def test_the_keys_that_need_trust_are_known():
    assert {option.key for option in OPTIONS if option.needs_trust} == set(ACTING)


@pytest.mark.parametrize("key", ACTING)
def test_an_acting_key_is_ignored_until_it_is_trusted(tmp_path: Path, key: str):
    written, name, value = ACTING[key]
    root = write_key(tmp_path, key, written)

    assert getattr(load(root), name) == getattr(Settings(root), name)
    assert load(root).untrusted_keys == (key,)

    trust_settings(root)

    assert getattr(load(root), name) == value
    assert load(root).untrusted_keys == ()


@pytest.mark.parametrize(
    "text",
    [
        "transport: stdio\nglobal: false\nport: 8000\nadditional_jobs_folders: []\ndatabase: ''\n",
        "quality_gate: {external_runner: '', timeout: 60}\nlease_seconds: 30\ntoolsets: [jobs]\n",
        "",
    ],
)
def test_defaults_and_harmless_keys_need_no_trust(tmp_path: Path, text: str):
    assert load(write_config(tmp_path, text)).untrusted_keys == ()


def test_flags_and_variables_need_no_trust(tmp_path: Path):
    root = write_config(tmp_path, "database: evil.db\nport: 9000\ntransport: http\n")

    settings = load(root, {"database": "mine.db", "port": "9001"}, DEEPWORK_TRANSPORT="sse")

    assert (settings.database, settings.port, settings.transport) == ("mine.db", 9001, "sse")
    assert settings.untrusted_keys == ()


def test_other_edits_keep_the_trust(tmp_path: Path):
    root = trust_settings(
        write_config(tmp_path, "database: postgres://h/d\nadditional_jobs_folders: [a, b]\n")
    )
    write_config(
        root, "# reordered\nlease_seconds: 5\nadditional_jobs_folders: 'a:b'\ndatabase: 'postgresql://h/d'\n"
    )

    assert load(root).untrusted_keys == ()
    assert load(root).database == "postgresql://h/d"


def test_a_changed_key_needs_trust_again_and_the_others_keep_it(tmp_path: Path):
    root = trust_settings(write_config(tmp_path, "database: a.db\nport: 9000\n"))
    write_config(root, "database: b.db\nport: 9000\ntransport: http\n")

    settings = load(root)

    assert settings.untrusted_keys == ("transport", "database")
    assert (settings.database, settings.port, settings.transport) == ("", 9000, "stdio")


def test_trust_is_for_one_project(tmp_path: Path):
    trust_settings(write_config(tmp_path / "one", "port: 9000\n"))

    assert load(write_config(tmp_path / "two", "port: 9000\n")).untrusted_keys == ("port",)


def test_the_worktrees_of_a_repository_share_its_trust(tmp_path: Path):
    main, other = tmp_path / "main", tmp_path / "other"
    trust_settings(write_config(main, "port: 9000\n"))
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "x"],
        ["worktree", "add", "-q", str(other)],
    ):
        subprocess.run(["git", *words], cwd=main, check=True)

    assert load(other).port == 9000


def test_a_link_to_a_project_has_its_trust(tmp_path: Path):
    root = trust_settings(write_config(tmp_path / "one", "port: 9000\n"))
    (tmp_path / "link").symlink_to(root)

    assert load(tmp_path / "link").port == 9000


@pytest.mark.parametrize("text", ["lease_seconds: 5\n", None])
def test_without_acting_keys_loading_settings_reads_nothing_of_the_user(tmp_path: Path, text: str | None):
    """Every hook of every session loads them."""
    if text is not None:
        write_config(tmp_path, text)
    code = (
        "import os, sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == 'open' else None)\n"
        "from deepwork.kernel.config import load_settings\n"
        "del opened[:]\n"
        "load_settings(sys.argv[1])\n"
        "unwanted = {'deepwork.kernel.user_settings', 'hashlib', 'json'} | ({'yaml'} if len(sys.argv) > 2 else set())\n"
        "print([name for name in opened if os.environ['XDG_CONFIG_HOME'] in name], sorted(unwanted & set(sys.modules)))\n"
    )
    words = [str(tmp_path), *(["without"] if text is None else [])]

    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, *words], capture_output=True, text=True, check=True
    )

    assert ran.stdout == "[] []\n"
