"""Git's errors never show what is in another file that a repository names, by a setting or by a link.

Each case is tried with plain git first, which must show it (or the case would prove nothing).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.line_origins import find_line_origins

SECRET = "root:x:0"
PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
Case = tuple[Callable[[Path, Path], object], tuple[str, ...]]


def run_plain(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, env=PLAIN, capture_output=True, text=True, check=False)


def set_to_file(name: str) -> Callable[[Path, Path], object]:
    return lambda folder, secret: run_plain(folder, "config", name, str(secret))


def link(name: str) -> Callable[[Path, Path], object]:
    return lambda folder, secret: (folder / ".git" / name).symlink_to(secret)


def include_value(folder: Path, secret: Path) -> None:
    secret.write_text(f"[core]\n\tbigFileThreshold = {SECRET}\n")
    run_plain(folder, "config", "include.path", str(secret))


CASES: dict[str, Case] = {
    "blame.ignoreRevsFile": (set_to_file("blame.ignoreRevsFile"), ("blame", "--", "a.txt")),
    "fsck.skipList": (set_to_file("fsck.skipList"), ("fsck",)),
    "core.attributesFile": (set_to_file("core.attributesFile"), ("diff", "--exit-code")),
    "include.path": (include_value, ("status",)),
    "shallow": (link("shallow"), ("log",)),
    "packed-refs": (link("packed-refs"), ("branch", "--list")),
    "alternates": (link("objects/info/alternates"), ("cat-file", "-p", "1" * 40)),
    "MERGE_HEAD": (link("MERGE_HEAD"), ("commit", "-m", "x", "--allow-empty")),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    run_plain(folder, "init", "-q")
    (folder / "a.txt").write_text("one\n")
    run_plain(folder, "add", ".")
    run_plain(folder, "config", "user.name", "a")
    run_plain(folder, "config", "user.email", "a@example.org")
    run_plain(folder, "commit", "-qm", "a")
    (folder / "a.txt").write_text("two\n")
    return folder


@pytest.mark.parametrize("name", CASES)
def test_an_error_does_not_quote_a_file_that_the_repository_names(folder: Path, tmp_path: Path, name: str):
    prepare, words = CASES[name]
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET} {SECRET}\n")
    prepare(folder, secret)
    assert SECRET in run_plain(folder, *words).stderr

    with pytest.raises(GitError) as failed:
        Git(folder, environment=PLAIN).run(*words)

    assert SECRET not in str(failed.value.to_dict())


def test_a_file_that_is_no_list_of_commits_is_named_as_the_reason(folder: Path, tmp_path: Path):
    (tmp_path / "secret").write_text(SECRET)
    run_plain(folder, "config", "blame.ignoreRevsFile", str(tmp_path / "secret"))

    with pytest.raises(GitError, match=r"blame\.ignoreRevsFile") as failed:
        find_line_origins(Git(folder, environment=PLAIN), "a.txt", 1, 1, None)

    assert SECRET not in str(failed.value.to_dict())
