"""Which files a project has, and which of them changed since its work left the default branch.

What differs from the base is what differs from it in the index, what differs from the index in the working
tree, and what git does not know yet: one command for each, and only one of them looks into files.
"""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepwork.errors import MAX_ECHOED, GitError, InvalidInput
from deepwork.git.command import check_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deepwork.git.command import Git

_DEFAULT_BASES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
_SHORTENED = re.compile(r"^refs/(heads|remotes)/")
# Neither an option, nor what no argument of a program can be.
_POSSIBLE_NAME = re.compile(r"(?!-)[^\0\ud800-\udc7f\udd00-\udfff]+")

_UNBORN = "does not have any commits yet"
_NO_WORKING_TREE = ("cannot use bare repository", "must be run in a work tree")

_MODIFIED = frozenset("CM")  # changed against the index, or in conflict
_NOT_CHECKED_OUT = "S"


@dataclass(frozen=True)
class Listing:
    """The files of a project that git would keep: tracked, or new and not ignored.

    Paths are relative to the project's root and sorted; a submodule is one path, and so is a symbolic link.
    """

    files: tuple[str, ...]
    untracked: frozenset[str]


@dataclass(frozen=True)
class Changes:
    """What changed against a base, as far as it is still there; before the first commit there is no base."""

    files: tuple[str, ...]
    base: str | None
    listing: Listing


@dataclass(frozen=True)
class _Base:
    name: str
    commit: str


@dataclass(frozen=True)
class _Tracked:
    """What git knows and the working tree has, and what the index holds differently."""

    present: frozenset[str]
    modified: frozenset[str]


def list_files(git: Git) -> Listing:
    """Every file of the project that is there, but for the ignored."""
    with _in_a_working_tree(git), ThreadPoolExecutor(1) as aside:
        tracked = aside.submit(_tracked, git)
        untracked = _untracked(git)
        return _listing(tracked.result(), untracked)


def changed_files(git: Git, base_ref: str | None = None) -> Changes:
    """Every file that is not as it was where HEAD left the base: committed, staged, neither, or new.

    The base is the default branch unless another is named. Before the first commit every file is a change.
    """
    with _in_a_working_tree(git), ThreadPoolExecutor(1) as aside:
        tracked = aside.submit(_tracked, git)  # looks at every file: as long as all the rest together
        base = _base(git, base_ref)
        in_index = _differing_in_index(git, base.commit) if base else frozenset()
        untracked = _untracked(git)
        listing = _listing(tracked.result(), untracked)
    if base is None:
        return Changes(listing.files, None, listing)
    changed = in_index | tracked.result().modified | listing.untracked
    return Changes(tuple(path for path in listing.files if path in changed), base.name, listing)


def _listing(tracked: _Tracked, untracked: frozenset[str]) -> Listing:
    return Listing(tuple(sorted(tracked.present | untracked)), untracked)


# --- the base


def _base(git: Git, base_ref: str | None) -> _Base | None:
    """What to compare with, and the last commit that HEAD has in common with it; None before any commit."""
    name, ref = _default_base(git) if base_ref is None else (base_ref, _checked(base_ref))
    try:
        common = git.run("merge-base", "--end-of-options", "HEAD", ref, ok_codes=(0, 1))
    except GitError:
        _check_exists(git, base_ref)
        if _is_unborn(git):
            return None
        raise
    if not common:
        raise _no_common_ancestor(name)
    return _Base(name, check_hash(common.decode().strip()))


def _default_base(git: Git) -> tuple[str, str]:
    """The name of the default branch as a person would say it, and as git cannot mistake it."""
    listed = git.run("for-each-ref", "--format=%(refname) %(symref)", *_DEFAULT_BASES)
    targets = dict(line.split(" ") for line in os.fsdecode(listed).split("\n") if line)
    for ref in _DEFAULT_BASES:
        if ref in targets:
            return _SHORTENED.sub("", targets[ref] or ref), ref
    return "HEAD", "HEAD"


def _checked(base_ref: str) -> str:
    if not _POSSIBLE_NAME.fullmatch(base_ref):
        raise _no_such_base(base_ref)
    return base_ref


def _check_exists(git: Git, base_ref: str | None) -> None:
    if base_ref is None or base_ref == "HEAD":
        return
    # Asked over its input: among arguments, `a..b` would be the name of two commits.
    question = os.fsencode(f"{base_ref}^{{commit}}\n")
    if git.run("cat-file", "--batch-check=%(objecttype)", input=question) != b"commit\n":
        raise _no_such_base(base_ref)


def _no_such_base(base_ref: str) -> InvalidInput:
    return InvalidInput(
        f"There is no branch, tag or commit {base_ref[:MAX_ECHOED]!r} in this repository.",
        suggestion="Name one that `git branch --all` or `git log` shows, or none for the default branch.",
    )


def _no_common_ancestor(name: str) -> GitError:
    return GitError(
        f"HEAD and {name[:MAX_ECHOED]!r} have no common ancestor in the history that is here.",
        suggestion="Fetch more history (`git fetch --unshallow`), or name another base.",
    )


def _is_unborn(git: Git) -> bool:
    """Whether HEAD has no commit yet.

    Other commands that could tell take a damaged branch for an unborn one; `log` does not.
    """
    try:
        git.run("log", "-1", "--format=")
    except GitError as error:
        return _UNBORN in error.message
    return False


# --- the files


def _differing_in_index(git: Git, commit: str) -> frozenset[str]:
    flags = ("--cached", "--name-only", "-z", "--no-renames", "--relative")
    return frozenset(_names(git.run("diff-index", *flags, commit, "--")))


def _untracked(git: Git) -> frozenset[str]:
    names = _names(git.run("ls-files", "-z", "--others", "--exclude-standard"))
    return frozenset(name for name in names if not name.endswith("/"))  # that is a repository of its own


def _tracked(git: Git) -> _Tracked:
    entries = _names(git.run("ls-files", "-z", "-t", "--cached", "--modified"))
    paths = {entry[2:] for entry in entries}
    modified = frozenset(entry[2:] for entry in entries if entry[0] in _MODIFIED)
    not_checked_out = {entry[2:] for entry in entries if entry[0] == _NOT_CHECKED_OUT}
    root = os.fspath(git.root)
    gone = {path for path in modified | not_checked_out if not _is_file(root, path)}
    return _Tracked(frozenset(paths - gone - _below_links(root, paths)), modified)


def _below_links(root: str, paths: Collection[str]) -> set[str]:
    """Those that only a symbolic link leads to.

    `ls-files` sees through a link that took the place of a directory, and would list what is elsewhere.
    """
    directories = _with_ancestors({_parent(path) for path in paths})
    links = {directory for directory in directories if stat.S_ISLNK(_mode(root, directory))}
    if not links:
        return set()
    return {path for path in paths if not links.isdisjoint(_with_ancestors([_parent(path)]))}


def _with_ancestors(directories: Collection[str]) -> set[str]:
    found: set[str] = set()
    for directory in directories:
        while directory and directory not in found:
            found.add(directory)
            directory = _parent(directory)  # noqa: PLW2901 (that is the walk)
    return found


def _is_file(root: str, path: str) -> bool:
    """Whether something is there that git would keep under that name; a directory only if a repository."""
    mode = _mode(root, path)
    if stat.S_ISDIR(mode):
        return _mode(root, f"{path}/.git") != 0
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _mode(root: str, path: str) -> int:
    try:
        return os.lstat(f"{root}/{path}").st_mode
    except OSError:
        return 0


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _names(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


@contextmanager
def _in_a_working_tree(git: Git) -> Iterator[None]:
    try:
        yield
    except GitError as error:
        if not any(said in error.message for said in _NO_WORKING_TREE):
            raise
        raise GitError(
            f"{git.root} is a bare repository or the inside of .git: there are no project files in it.",
            suggestion="Work in the directory that holds the files of the project.",
        ) from error
