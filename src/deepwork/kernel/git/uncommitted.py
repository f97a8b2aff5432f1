"""Lists and commits what is not committed in a working tree."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.private_index import PrivateIndex, open_private_index
from deepwork.kernel.git.refs import IDENTITY, find_current_branch, get_commit

_LOCK_FILE_NAME = "deepwork-commit.lock"
_MAX_NAMED = 3


def list_uncommitted(git: Git) -> list[str]:
    """List the changed and untracked files of a working tree, relative to its root; a new folder as one."""
    with open_private_index(git) as index:
        listed = index.run("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
    return [os.fsdecode(entry[3:]) for entry in listed.split(b"\0") if entry]


class TreeChanged(NotAllowed):
    """A working tree is not as it was when its files were to be committed."""


class ExpectedFiles(NamedTuple):
    """What is to be committed: these files, on this commit."""

    tree: str
    head: str


def commit_uncommitted(
    git: Git, branch: str, message: str, expected: ExpectedFiles | None = None
) -> tuple[str | None, bool]:
    """Commit all changed and untracked files; return the commit, and whether git's config names an author.

    With `expected`, raises FilesChanged unless the commit is exactly that.

    None if there is nothing to commit; but if the last commit has this message, because two processes commit
    at the same time, it is returned. Ignored files and nested repositories are left out. Hooks and filters do
    not run, so files that need a filter, such as those of Git LFS, are refused; so are conflicts.
    """
    identity = find_identity(git)
    with hold_file_lock(git.find_places().git_dir / _LOCK_FILE_NAME):
        with open_private_index(git) as index:
            _require_branch(git, index, branch)
            nested = index.list_nested_repositories()
            index.add_all(without=nested)
            changed = _list_changed(index)
            if changed and expected is not None:
                _require_expected(git, ExpectedFiles(index.write_tree(), get_commit(git, "HEAD")), expected)
        if not changed:
            return _find_same_commit(git, message), identity is not None
        _require_no_filters(git, changed)
        excluded = (f":(top,exclude,literal){path}" for path in nested)
        git.run("add", "--all", "--sparse", "--", ":/", *excluded)
        git.run("commit", "--quiet", "--no-verify", "-m", message, env=identity or IDENTITY)
        commit = get_commit(git, "HEAD")
        if expected is not None:
            _take_back_changed(git, branch, commit, expected)
        return commit, identity is not None


def commit_file(git: Git, path: str, message: str) -> str:
    """Commit one file as it is, and nothing else, whatever is staged; return the commit.

    Also one that git ignores: a person wants it there. Hooks do not run.
    """
    identity = find_identity(git)
    with hold_file_lock(git.find_places().git_dir / _LOCK_FILE_NAME):
        git.run("add", "--force", "--", path)
        git.run(
            "commit", "--quiet", "--no-verify", "--only", "-m", message, "--", path, env=identity or IDENTITY
        )
        return get_commit(git, "HEAD")


def _require_expected(git: Git, found: ExpectedFiles, expected: ExpectedFiles) -> None:
    if found != expected:
        raise TreeChanged(f"{git.root} is not as it was when its files were to be committed.")


def _take_back_changed(git: Git, branch: str, commit: str, expected: ExpectedFiles) -> None:
    """Take a commit back if a file changed after they were compared; the files stay as they are."""
    tree = git.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    if tree != expected.tree:
        git.run("update-ref", f"refs/heads/{branch}", expected.head, commit, env=IDENTITY)
    _require_expected(git, ExpectedFiles(tree, expected.head), expected)


def find_identity(git: Git) -> dict[str, str] | None:
    """Return the author that git's config names, as variables; None if it names none.

    Our git ignores the user's own config, so it is read here: values only, no programs.
    """
    own = [("--file", str(path), "--includes") for path in _list_user_files(git)]
    for source in ((), *own):
        said = _read_settings(git, source, r"^user\.(name|email)$")
        name, email = said.get("user.name"), said.get("user.email")
        if name and email:
            people = ("AUTHOR", "COMMITTER")
            return {
                f"GIT_{who}_{key}": text for who in people for key, text in (("NAME", name), ("EMAIL", email))
            }
    return None


def _list_user_files(git: Git) -> list[Path]:
    home = git.home
    found = [home / ".gitconfig", home / ".config/git/config"] if home else []
    return [path for path in found if path.is_file()]


def _read_settings(git: Git, source: Collection[str], pattern: str) -> dict[str, str]:
    listed = git.run("config", *source, "-z", "--get-regexp", pattern, ok_codes=(0, 1))
    settings = (os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry)
    return {key: value.strip() for key, _, value in settings}


def _require_branch(git: Git, index: PrivateIndex, branch: str) -> None:
    current = find_current_branch(git)
    if current != branch:
        where = f"branch {current!r} is checked out" if current else "no branch is checked out"
        raise NotAllowed(f"In {git.root} {where}, not {branch!r}.")
    if index.has_conflicts():
        raise NotAllowed(f"{git.root} has conflicts of a merge that are not resolved.")


def _list_changed(index: PrivateIndex) -> list[bytes]:
    listed = index.run("diff-index", "--cached", "-z", "--name-only", "--no-renames", "HEAD")
    return listed.split(b"\0")[:-1]


def _require_no_filters(git: Git, paths: Collection[bytes]) -> None:
    """Raise NotAllowed if git would convert one of these files with a program."""
    answer = git.run("check-attr", "-z", "--stdin", "filter", input=b"\0".join(paths) + b"\0").split(b"\0")
    found = [path for path, value in zip(answer[::3], answer[2::3], strict=False) if value not in _NO_FILTER]
    if found:
        names = ", ".join(os.fsdecode(path) for path in found[:_MAX_NAMED])
        raise NotAllowed(f"Committing {names} needs a filter of the repository, such as Git LFS.")


_NO_FILTER = (b"unspecified", b"unset", b"")


def _find_same_commit(git: Git, message: str) -> str | None:
    last = os.fsdecode(git.run("log", "-1", "--format=%B", "HEAD")).strip()
    return get_commit(git, "HEAD") if last == message.strip() else None
