"""The key of a user is created once, and read only if nobody else can know or change it."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepwork.kernel.database.store_key import find_key_problems, find_user_key, get_or_create_user_key
from deepwork.kernel.errors import DefinitionError, StorageError


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "deepwork" / "store.key"


def test_a_key_is_created_on_first_use_and_for_its_user_only(environment: dict[str, str], file: Path):
    assert find_user_key(environment) is None

    key = get_or_create_user_key(environment)

    assert key == get_or_create_user_key(environment) == find_user_key(environment)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [each.name for each in file.parent.iterdir()] == ["store.key"]


def test_a_server_that_is_started_without_the_variable_uses_the_same_key(
    environment: dict[str, str], tmp_path: Path
):
    """Most clients pass on HOME, but not XDG_CONFIG_HOME."""
    assert get_or_create_user_key(environment) == find_user_key({})
    assert (tmp_path / "home" / ".config" / "deepwork" / "store.key").stat().st_mode & 0o077 == 0


def test_a_key_that_such_a_server_created_is_used_with_the_variable_too(
    environment: dict[str, str], file: Path
):
    key = get_or_create_user_key({"HOME": "ignored"})

    assert get_or_create_user_key(environment) == key
    assert not file.exists()


def test_of_many_that_create_a_key_at_once_all_use_the_same(environment: dict[str, str]):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: get_or_create_user_key(environment), range(40)))

    assert len(set(keys)) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o601])
def test_a_file_that_others_can_open_is_refused_with_the_fix(
    environment: dict[str, str], file: Path, mode: int
):
    get_or_create_user_key(environment)
    file.chmod(mode)

    with pytest.raises(StorageError, match="open to other users") as refused:
        get_or_create_user_key(environment)

    assert "chmod 600" in refused.value.suggestion
    [problem] = find_key_problems(environment)
    assert problem.message == refused.value.message


def test_a_folder_that_others_can_write_is_refused(environment: dict[str, str], file: Path):
    get_or_create_user_key(environment)
    file.parent.chmod(0o777)

    with pytest.raises(StorageError, match="folder that other users can change") as refused:
        find_user_key(environment)

    assert "chmod 700" in refused.value.suggestion


def test_a_link_is_not_followed(environment: dict[str, str], file: Path, tmp_path: Path):
    known = tmp_path / "known"
    known.write_text("a" * 64)
    known.chmod(0o600)
    file.parent.mkdir(parents=True, mode=0o700)
    file.symlink_to(known)

    with pytest.raises(StorageError, match="is a link"):
        get_or_create_user_key(environment)


def test_a_folder_that_is_a_link_is_refused_as_such(environment: dict[str, str], file: Path, tmp_path: Path):
    """Such as one in a repository of settings; its mode is not the reason."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    file.parent.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="in a folder that is a link") as refused:
        get_or_create_user_key(environment)

    assert "DEEPWORK_STORE_KEY" in refused.value.suggestion


def test_what_is_not_a_file_or_too_short_is_refused(environment: dict[str, str], file: Path):
    file.parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(file, 0o600)
    with pytest.raises(StorageError, match="is not a file"):
        get_or_create_user_key(environment)
    file.unlink()
    file.touch(0o600)
    with pytest.raises(StorageError, match="too short"):
        get_or_create_user_key(environment)


def test_a_file_of_another_user_is_refused(
    environment: dict[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
):
    get_or_create_user_key(environment)
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)

    with pytest.raises(StorageError, match="belongs to another user"):
        find_user_key(environment)


def test_a_folder_that_cannot_be_created_is_reported_with_the_variable(
    environment: dict[str, str], tmp_path: Path
):
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match="cannot be created") as refused:
        get_or_create_user_key({"XDG_CONFIG_HOME": str(tmp_path / "file")})

    assert "DEEPWORK_STORE_KEY" in refused.value.suggestion


def test_the_text_of_the_file_in_the_environment_is_the_same_key(environment: dict[str, str], file: Path):
    key = get_or_create_user_key(environment)

    assert find_user_key({"DEEPWORK_STORE_KEY": file.read_text()}) == key


@pytest.mark.parametrize("text", ["too short", "replace-me-by-a-long-random-text-of-yours"])
def test_a_key_that_others_can_guess_is_refused(text: str):
    with pytest.raises(DefinitionError, match="DEEPWORK_STORE_KEY") as refused:
        find_user_key({"DEEPWORK_STORE_KEY": text})

    assert text not in refused.value.message
    assert "secrets" in refused.value.suggestion
