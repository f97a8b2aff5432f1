from __future__ import annotations

import errno
import os
import re
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from access.other_users import use_home
from deepwork.edge.server.http import policy
from deepwork.edge.server.http.guard import RateLimit
from deepwork.edge.server.http.owner_token import load_token
from deepwork.kernel.environment import find_secret_problem
from deepwork.kernel.errors import DefinitionError, StorageError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3", "::ffff:127.0.0.1", "１２７.0.0.1"]
)
def test_loopback_addresses_need_no_token(host: str):
    assert policy.is_loopback(policy.require_safe_address(host, has_token=False))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "0", "0x0", "", "*", "::", "[::]", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "０", "0.0", "192.0.2.7"]
)  # fmt: skip
def test_every_spelling_of_all_interfaces_needs_a_token(host: str):
    with pytest.raises(DefinitionError, match="no token is set") as refused:
        policy.require_safe_address(host, has_token=False)

    assert "DEEPWORK_TOKEN" in refused.value.suggestion
    assert policy.require_safe_address(host, has_token=True)


def test_an_invalid_name_is_reported(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # some networks have an answer for any name

    with pytest.raises(DefinitionError, match="Cannot resolve the address"):
        policy.require_safe_address("no.such.name.invalid", has_token=True)


def test_a_taken_port_is_an_error_that_names_a_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(DefinitionError, match=f"Port {port} is taken") as refused:
            policy.bind_socket("127.0.0.1", port)

    assert "--port" in refused.value.suggestion


def test_the_search_for_a_free_port_ends_with_the_last_port(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: str, port: int) -> socket.socket:
        if port > policy.MAX_PORT:
            raise OverflowError("bind(): port must be 0-65535.")
        raise OSError(errno.EADDRINUSE, "taken")

    monkeypatch.setattr(policy, "_open_listener", refuse)

    with pytest.raises(DefinitionError, match="Port 65530 is taken"):
        policy.bind_socket("127.0.0.1", 65_530)


def test_a_generated_token_is_stored_readable_only_by_its_owner(tmp_path: Path):
    file = tmp_path / "state" / "token"

    token = load_token("", file)

    assert len(token) > 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_token("", file) == token


def test_a_token_file_that_others_can_read_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "token"
    token = load_token("", file)
    file.chmod(0o644)

    assert load_token("", file) != token
    assert "Other users can read" in caplog.text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_token_file_of_another_user_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "token"
    token = load_token("", file)
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)

    assert load_token("", file) != token


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_token_file_that_git_tracks_is_refused(tmp_path: Path, version: str):
    """With a strict umask, git gives the file of a clone the same mode as we do."""
    file = tmp_path / ".deepwork" / "token"
    token = load_token("", file)
    for words in (["init", "-q"], ["config", "index.version", version], ["add", "-f", ".deepwork/token"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    with pytest.raises(StorageError, match=r"git tracks .deepwork/token") as refused:
        load_token("", file)
    assert "git rm --cached .deepwork/token" in refused.value.suggestion
    assert load_token("t" * 40, file) == "t" * 40, "a configured token needs no file"

    subprocess.run(["git", "rm", "-q", "-f", ".deepwork/token"], cwd=tmp_path, check=True)
    assert load_token("", file) != token


def test_a_token_file_that_is_a_link_is_replaced(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x" * 40)
    file = tmp_path / "token"
    file.symlink_to(elsewhere)

    assert load_token("", file) != "x" * 40
    assert elsewhere.read_text() == "x" * 40


def test_every_secret_that_a_page_or_file_shows_is_refused():
    shown = [
        (name, value)
        for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").iterdir()]
        for name, value in re.findall(r"(DEEPWORK_(?:TOKEN|STORE_KEY))=([^\s`'\"]+)", file.read_text())
        if not value.startswith("$")
    ]

    assert {name for name, _ in shown} == {"DEEPWORK_TOKEN", "DEEPWORK_STORE_KEY"}
    for name, value in shown:
        problem = find_secret_problem(name, value, 8)
        assert problem is not None, value
        assert name in problem.message


@pytest.mark.parametrize(
    "token", ["replace-me-by-a-long-random-text", "CHANGE_ME_CHANGE_ME", "my-example-token-1"]
)
def test_an_example_is_refused_as_a_token(tmp_path: Path, token: str):
    with pytest.raises(DefinitionError, match="DEEPWORK_TOKEN is an example") as refused:
        load_token(token, tmp_path / "token")

    assert "secrets.token_urlsafe" in refused.value.suggestion


def test_a_short_token_is_refused(tmp_path: Path):
    with pytest.raises(DefinitionError, match="16 characters"):
        load_token("short", tmp_path / "token")


def test_a_caller_may_burst_and_is_then_limited_to_the_rate():
    now = 0.0
    limit = RateLimit(2, 4, clock=lambda: now)

    assert [limit.try_acquire("a") for _ in range(5)] == [True] * 4 + [False]
    assert limit.try_acquire("b")
    now = 1.0
    assert [limit.try_acquire("a") for _ in range(3)] == [True, True, False]


def test_a_token_that_came_in_an_archive_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """One of another user, one of an earlier version, and one whose mark was made up."""
    file = tmp_path / "token"
    with use_home(tmp_path / "theirs"):
        theirs = load_token("", file)
    file.unlink()
    own = load_token("", file)

    for known in (theirs, f"dw_{'a' * 43}", f"{own[:-32]}{'0' * 32}"):
        file.write_text(f"{known}\n")
        file.chmod(0o600)
        caplog.clear()

        used = load_token("", file)

        assert used != known
        assert "not marked as yours" in caplog.text
        assert load_token("", file) == used


def test_without_a_key_each_server_has_a_token_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "home").write_text("not a folder")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "token"

    assert load_token("", file) != load_token("", file)
