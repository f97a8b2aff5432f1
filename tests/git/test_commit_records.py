"""Commits are read once, as long as the repository has them and they are what their hashes say."""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.history import list_new_commits
from deepwork.kernel.git.refs import (
    CommitRecord,
    find_trees,
    get_tree,
    read_commits,
    read_loose,
    resolve_commit,
)
from git.changes_project import Project, create_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = create_project(tmp_path / "project")
    project.commit("a.py", content=str(tmp_path))  # a commit that no other test has
    project.commit("b.py")
    return project


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of git that ran."""
    ran: list[str] = []
    run = Git.run

    def noted(git: Git, *args: str, **given: object) -> bytes:
        ran.append(args[0])
        return run(git, *args, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", noted)
    return ran


def find_object(project: Project, hash: str) -> Path:
    return project.root / ".git/objects" / hash[:2] / hash[2:]


def test_a_commit_has_the_tree_and_the_parents_that_git_says(project: Project) -> None:
    head, parent = project.head(), project.git("rev-parse", "HEAD^")

    found = read_commits(project.safe_git, ["HEAD", "refs/heads/main", head, "HEAD^", "f" * 40, "missing"])

    record = CommitRecord(head, project.git("rev-parse", "HEAD^{tree}"), (parent,))
    assert found.pop("HEAD^").commit == parent
    assert found == {"HEAD": record, "refs/heads/main": record, head: record}
    assert find_trees(project.safe_git, [head]) == {head: record.tree}


@pytest.mark.parametrize("end", ["\v", "\f", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_name_adds_no_parent(project: Project, end: str) -> None:
    """Git takes every character but a line feed for a part of the name."""
    parent, false = project.git("rev-parse", "HEAD^"), project.head()
    text = project.git("cat-file", "commit", "HEAD").replace(
        "author ", f"author A{end}parent {false}{end}", 1
    )

    made = store_commit(project, text)

    assert read_commits(project.safe_git, [made])[made].parents == (parent,)
    assert project.git("log", "-1", "--format=%P", made) == parent


def test_a_parent_below_the_author_is_none(project: Project) -> None:
    text = project.git("cat-file", "commit", "HEAD")
    false = project.head()

    made = store_commit(project, text.replace("\n\n", f"\nparent {false}\n\n", 1))

    found = read_commits(project.safe_git, [made])[made].parents
    assert found == (project.git("log", "-1", "--format=%P", made),)


def store_commit(project: Project, text: str) -> str:
    """Store a commit as it is, also one that git would not make."""
    flags = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    done = subprocess.run(
        ["git", *flags], cwd=project.root, input=text.encode(), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize(("is_packed", "ran"), [(False, []), (True, ["cat-file"])], ids=["loose", "packed"])
def test_a_commit_is_read_once(
    project: Project, programs: list[str], ran: list[str], *, is_packed: bool
) -> None:
    if is_packed:
        project.git("repack", "-a", "-d", "-q")
    head = project.head()

    for _ in range(3):
        get_tree(project.safe_git, head)
        resolve_commit(project.safe_git, head)

    assert programs == ran


@pytest.mark.parametrize("content", [b"", b"no object", zlib.compress(b"commit 3\0abc")])
def test_an_object_that_is_not_what_its_name_says_is_left_to_git(project: Project, content: bytes) -> None:
    objects, head = project.root / ".git/objects", project.head()
    place = find_object(project, head)
    place.chmod(0o600)

    place.write_bytes(content)

    assert read_loose(objects, head, "commit") is None


def test_an_object_that_is_a_pipe_stops_nobody(project: Project) -> None:
    place = find_object(project, project.head())
    place.unlink()

    os.mkfifo(place)

    assert read_loose(project.root / ".git/objects", project.head(), "commit") is None


def test_a_tree_is_no_commit(project: Project) -> None:
    tree = project.git("rev-parse", "HEAD^{tree}")

    assert read_loose(project.root / ".git/objects", tree, "commit") is None
    assert resolve_commit(project.safe_git, tree) is None


MESSAGES = [
    "one line",
    "two\n\nparagraphs\n",
    "\n\nlate",
    "",
    "tr\u00e9s \u2028 long\x0b\n\n\n",
    "x" * 70_000,
]


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
@pytest.mark.parametrize("author", ["Ada", "Ada \u00c4 de Lovelace", "A. \x85 B"])
def test_commits_in_a_row_are_listed_as_git_lists_them(
    project: Project, programs: list[str], message: str, author: str
) -> None:
    start = project.head()
    flags = ("-c", f"user.name={author}", "commit", "-q", "--allow-empty", "--allow-empty-message")
    for number in range(3):
        project.git(*flags, "--cleanup=verbatim", "-m", message and f"{message}{number}")

    alone = list_new_commits(project.safe_git, start, project.head(), 9)
    assert programs == []
    project.git("repack", "-a", "-d", "-q")
    asked = list_new_commits(project.safe_git, start, project.head(), 9)

    assert programs[0] == "log"
    assert alone == asked
    assert (len(alone.commits), alone.contains_start) == (3, True)


@pytest.mark.parametrize("author", ["Ada ", "  Ada\t", ""])
def test_an_author_is_named_as_git_names_them(project: Project, programs: list[str], author: str) -> None:
    start, text = project.git("rev-parse", "HEAD^"), project.git("cat-file", "commit", "HEAD")
    made = store_commit(project, re.sub(r"\nauthor .*? <", lambda _: f"\nauthor {author} <", text))

    alone = list_new_commits(project.safe_git, start, made, 9)
    assert programs == []
    project.git("update-ref", "refs/heads/kept", made)
    project.git("repack", "-a", "-d", "-q")

    assert list_new_commits(project.safe_git, start, made, 9) == alone


@pytest.mark.parametrize("added", ["encoding ISO-8859-1", "gpgsig no signature", "parent {start}"])
def test_commits_that_say_more_are_left_to_git(project: Project, programs: list[str], added: str) -> None:
    start, text = project.git("rev-parse", "HEAD^"), project.git("cat-file", "commit", "HEAD")
    before = "\nauthor " if added.startswith("parent") else "\n\n"
    made = store_commit(project, text.replace(before, f"\n{added.format(start=start)}{before}", 1))

    found = list_new_commits(project.safe_git, start, made, 9)

    assert "log" in programs
    assert [commit.hash for commit in found.commits] == [made]


def test_a_list_that_does_not_reach_its_start_is_left_to_git(project: Project, programs: list[str]) -> None:
    project.commit("c.py")
    start, head = project.git("rev-parse", "HEAD~2"), project.head()

    found = list_new_commits(project.safe_git, start, head, 1)

    assert "log" in programs
    assert ([commit.hash for commit in found.commits], found.contains_start) == ([head], True)


def test_what_one_repository_has_is_not_taken_for_that_of_another(project: Project, tmp_path: Path) -> None:
    other = create_project(tmp_path / "other")
    other.commit("c.py")
    get_tree(project.safe_git, project.head())

    assert resolve_commit(other.safe_git, project.head()) is None


@pytest.mark.parametrize("is_packed", [False, True], ids=["loose", "packed"])
def test_a_commit_that_the_repository_lost_is_not_found(project: Project, is_packed: bool) -> None:
    if is_packed:
        project.git("repack", "-a", "-d", "-q")
    head = project.head()
    get_tree(project.safe_git, head)

    project.git("reset", "-q", "--hard", "HEAD^")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")

    assert resolve_commit(project.safe_git, head) is None


def test_a_forged_commit_is_noticed(project: Project) -> None:
    project.git("config", "core.looseCompression", "0")
    project.commit("c.py")
    place = find_object(project, project.head())
    content = zlib.decompress(place.read_bytes())
    other = project.git("rev-parse", "HEAD^^{tree}").encode()
    place.chmod(0o600)
    place.write_bytes(
        zlib.compress(content[: content.index(b"tree ") + 5] + other + content[content.index(b"\nparent") :])
    )

    with pytest.raises(GitError):
        get_tree(project.safe_git, project.git("rev-parse", "main"))
