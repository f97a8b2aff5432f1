"""Git runs within limits, and its failures become GitError."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.git.command import Git, check_hash
from git.waiting import pass_time_after

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
LONG = 600  # seconds; nothing waits for them, because `pass_time_after` advances the clock


def write_fake_git(tmp_path: Path, script: str) -> str:
    """Write a script to use instead of git."""
    path = tmp_path / "fake-git"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def wait_until_ended(pid: int) -> bool:
    """Return whether the process has exited, after waiting a moment for a kill to take effect."""
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_returns_bytes(git: Git) -> None:
    assert git.run("ls-files", "-z") == b"file.txt\0"


def test_input_reaches_the_command(git: Git) -> None:
    content = b"x" * 1_000_000

    hash = git.run("hash-object", "-w", "--stdin", input=content).decode().strip()

    assert git.run("cat-file", "blob", check_hash(hash)) == content


def test_without_input_there_is_nothing_to_read(git: Git) -> None:
    assert git.run("hash-object", "--stdin").startswith(b"e69de29b")


def test_the_version_is_a_number(git: Git) -> None:
    assert int(git.get_version().split(".")[0]) >= 2


def test_an_allowed_exit_code_is_not_a_failure(git: Git) -> None:
    assert git.run("diff", "--quiet", "HEAD", ok_codes=(0, 1)) == b""
    with pytest.raises(GitError, match="git diff failed with code 1"):
        git.run("diff", "--quiet", "HEAD")


def test_a_failure_includes_gits_message(git: Git) -> None:
    with pytest.raises(GitError, match="nonsense"):
        git.run("log", "--end-of-options", "nonsense", "--")


def test_a_directory_outside_any_repository_is_recognised(tmp_path: Path, git: Git) -> None:
    outside = Git(tmp_path, environment=ENVIRONMENT)

    with pytest.raises(GitError, match="is not a git repository") as refused:
        outside.run("status")

    assert "git init" in refused.value.suggestion
    assert not outside.is_repository()
    assert git.is_repository()


def test_a_directory_that_becomes_a_repository_is_one(tmp_path: Path) -> None:
    git = Git(tmp_path, environment=ENVIRONMENT)
    assert not git.is_repository()

    git.run("init", "-q")

    assert git.is_repository()
    assert git.run("status", "--porcelain", "-z") == b""


def test_a_broken_repository_is_not_mistaken_for_none(git: Git) -> None:
    (git.root / ".git" / "config").write_text("[broken")

    with pytest.raises(GitError, match="bad config"):
        git.is_repository()
    with pytest.raises(GitError, match="bad config"):
        git.run("status")


def test_git_works_below_the_repository_root(git: Git) -> None:
    (git.root / "docs").mkdir()
    below = Git(git.root / "docs", environment=ENVIRONMENT)

    assert below.is_repository()
    assert b"file.txt" in below.run("status", "--porcelain", "-z")


def test_a_missing_program_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="no-such-git") as missing:
        Git(tmp_path, environment=ENVIRONMENT, program="no-such-git").get_version()

    assert "Install git" in missing.value.suggestion


def test_a_missing_directory_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="nowhere"):
        Git(tmp_path / "nowhere", environment=ENVIRONMENT).get_version()


def test_a_slow_program_is_killed_with_all_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_fake_git(tmp_path, f"sleep {LONG} & echo $! > {tmp_path}/child\nsleep {LONG}")
    pass_time_after(tmp_path / "child", monkeypatch)

    with pytest.raises(GitError, match=rf"took longer than {LONG} s"):
        Git(tmp_path, environment=ENVIRONMENT, program=program, timeout=LONG).get_version()

    assert wait_until_ended(int((tmp_path / "child").read_text()))


def test_a_child_that_keeps_the_output_open_does_not_delay_the_result(tmp_path: Path) -> None:
    program = write_fake_git(tmp_path, f"sleep {LONG} & echo $! > {tmp_path}/child\necho git version 9.9")

    assert Git(tmp_path, environment=ENVIRONMENT, program=program, timeout=LONG).get_version() == "9.9"

    assert wait_until_ended(int((tmp_path / "child").read_text()))


def test_a_program_that_is_not_git_is_detected(tmp_path: Path) -> None:
    for said in ("", "hello", "git version"):
        with pytest.raises(GitError, match="is it git"):
            Git(
                tmp_path, environment=ENVIRONMENT, program=write_fake_git(tmp_path, f"echo {said}")
            ).get_version()


def test_a_program_that_closes_its_output_and_keeps_running_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_fake_git(tmp_path, f"exec >&- 2>&-\necho $$ > {tmp_path}/pid\nsleep {LONG}")
    pass_time_after(tmp_path / "pid", monkeypatch)

    with pytest.raises(GitError, match="took longer"):
        Git(tmp_path, environment=ENVIRONMENT, program=program, timeout=LONG).get_version()

    assert wait_until_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("where", ["", ">&2"])
def test_a_program_that_writes_too_much_is_killed(tmp_path: Path, where: str) -> None:
    program = write_fake_git(tmp_path, f"yes {where}")

    with pytest.raises(GitError, match=r"wrote more than 1,000,000 bytes"):
        Git(tmp_path, environment=ENVIRONMENT, program=program, max_output=1_000_000).get_version()


def test_settings_are_read_once_and_again_after_a_change(tmp_path: Path, git: Git) -> None:
    calls = tmp_path / "calls"
    counting = Git(
        git.root, environment=ENVIRONMENT, program=write_fake_git(tmp_path, f'echo >> {calls}\nexec git "$@"')
    )

    def calls_for_one() -> int:
        calls.write_text("")
        counting.run("rev-parse", "HEAD")
        return calls.read_text().count("\n")

    git.run("config", "user.name", str(tmp_path))  # settings that no other test has
    first, second = calls_for_one(), calls_for_one()
    git.run("config", "user.name", "somebody")
    third, fourth = calls_for_one(), calls_for_one()

    assert (first, second, third, fourth) == (2, 1, 2, 1)


INJECTIONS = [
    "--output=stolen",
    "-ostolen",
    "--ext-diff",
    "--no-index",
    "-O/etc/passwd",
    "--upload-pack=x",
    "-x",
]


@pytest.mark.parametrize("named_by_a_user", INJECTIONS)
def test_an_option_like_name_is_a_name_after_end_of_options(git: Git, named_by_a_user: str) -> None:
    with pytest.raises(GitError):
        git.run("diff", "-z", "--end-of-options", named_by_a_user, "--")

    assert git.run("diff", "-z", "--end-of-options", "HEAD", "--", named_by_a_user) == b""
    assert not (git.root / "stolen").exists()


def test_without_end_of_options_git_would_write_the_file(git: Git) -> None:
    git.run("diff", "--output=stolen", "HEAD")

    assert (git.root / "stolen").exists()


@pytest.mark.parametrize("hash", ["0123456789abcdef0123456789abcdef01234567", "a" * 64])
def test_a_full_hash_is_accepted(hash: str) -> None:
    assert check_hash(hash) == hash


@pytest.mark.parametrize(
    "hash", ["", "HEAD", "abc", "A" * 40, "a" * 41, "a" * 63, "-" * 40, "a" * 40 + "\n", "é" * 40]
)
def test_anything_else_is_not_a_hash(hash: str) -> None:
    with pytest.raises(InvalidInput):
        check_hash(hash)


def test_strange_names_are_returned_unchanged(git: Git) -> None:
    names = [
        b"with\nnewline",
        b'with"quote',
        b"with\ttab",
        b"not-utf-8-\xff",
        "é日本".encode(),
        b"-dash",
        b":(top)",
        b" ",
    ]
    for name in names:
        Path(os.fsdecode(bytes(git.root) + b"/" + name)).write_bytes(b"x")

    listed = git.run("ls-files", "-z", "--others")
    status = git.run("status", "--porcelain=v1", "-z", "--untracked-files=all")

    assert set(names) <= set(listed.split(b"\0"))
    assert {b"?? " + name for name in names} <= set(status.split(b"\0"))


NAME = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name not in {".", ".."} and not name.lower().startswith((".git", "git~"))
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sets(NAME, max_size=10))
def test_every_name_a_file_can_have_is_listed(git: Git, names: set[str]) -> None:
    made = {name for name in names if len(name.encode()) < 200}
    for name in made:
        (git.root / name).touch()

    listed = git.run("ls-files", "-z", "--others", "--cached")

    assert {name.encode() for name in made} <= set(listed.split(b"\0"))


def test_a_path_is_literal_when_requested(git: Git) -> None:
    pattern, literal = "*.txt", {"GIT_LITERAL_PATHSPECS": "1"}

    assert git.run("ls-files", "-z", "--", pattern) == b"file.txt\0"
    assert git.run("ls-files", "-z", "--", pattern, env=literal) == b""
