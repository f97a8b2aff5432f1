"""Lists a project's files, and those that changed since HEAD left the default branch.

A file changed if the index differs from the base, if the working tree differs from the index, or if it is
untracked. Each takes one git command, and only one of them reads file contents.
"""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deepwork.kernel.errors import MAX_ECHOED, GitError, InvalidInput
from deepwork.kernel.git.command import check_hash
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deepwork.kernel.git.command import Git

_DEFAULT_BASES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
_REF_PREFIX_PATTERN = re.compile(r"^refs/(heads|remotes)/")
# Excludes options, NUL, and surrogates that cannot be passed as a program argument.
_REF_NAME_PATTERN = re.compile(r"(?!-)[^\0\ud800-\udc7f\udd00-\udfff]+")

_NO_COMMITS_MESSAGE = "does not have any commits yet"
_NO_WORKING_TREE_MESSAGES = ("cannot use bare repository", "must be run in a work tree")

_MODIFIED_TAGS = frozenset("CM")  # changed against the index, or in conflict
_NOT_CHECKED_OUT_TAG = "S"


@dataclass(frozen=True)
class FileListing:
    """The files of a project: tracked ones, and untracked ones that are not ignored.

    Paths are relative to the project's root and sorted; a submodule is one path, and so is a symbolic link.
    """

    files: tuple[str, ...]
    untracked: frozenset[str]


@dataclass(frozen=True)
class ChangedFiles:
    """Existing files that differ from the base; `base` is None before the first commit."""

    files: tuple[str, ...]
    base: str | None
    listing: FileListing


@dataclass(frozen=True)
class _Base:
    name: str
    commit: str


@dataclass(frozen=True)
class _Tracked:
    """Tracked files present in the working tree, and those that differ from the index."""

    present: frozenset[str]
    modified: frozenset[str]


def list_files(git: Git) -> FileListing:
    """List every existing file of the project that is not ignored."""
    with _require_working_tree(git), ThreadPoolExecutor(1) as aside:
        tracked = aside.submit(_list_tracked, git)
        untracked = _list_untracked(git)
        return _build_listing(tracked.result(), untracked)


def find_changed_files(git: Git, base_ref: str | None = None) -> ChangedFiles:
    """List every file that differs from the merge base: committed, staged, unstaged or untracked.

    `base_ref` defaults to the default branch. Before the first commit every file counts as changed.
    """
    with _require_working_tree(git), ThreadPoolExecutor(1) as aside:
        tracked = aside.submit(_list_tracked, git)  # stats every file: takes as long as all the rest
        base = _resolve_base(git, base_ref)
        in_index = _list_index_changes(git, base.commit) if base else frozenset()
        untracked = _list_untracked(git)
        listing = _build_listing(tracked.result(), untracked)
    if base is None:
        return ChangedFiles(listing.files, None, listing)
    changed = in_index | tracked.result().modified | listing.untracked
    return ChangedFiles(tuple(path for path in listing.files if path in changed), base.name, listing)


def _build_listing(tracked: _Tracked, untracked: frozenset[str]) -> FileListing:
    return FileListing(tuple(sorted(tracked.present | untracked)), untracked)


# --- the base


def _resolve_base(git: Git, base_ref: str | None) -> _Base | None:
    """Return the base's name and its merge base with HEAD; None before the first commit."""
    name, ref = _find_default_base(git) if base_ref is None else (base_ref, _validate_ref(base_ref))
    try:
        common = git.run("merge-base", "--end-of-options", "HEAD", ref, ok_codes=(0, 1))
    except GitError:
        _check_exists(git, base_ref)
        if _is_unborn(git):
            return None
        raise
    if not common:
        raise _build_no_ancestor_error(name)
    return _Base(name, check_hash(common.decode().strip()))


def _find_default_base(git: Git) -> tuple[str, str]:
    """Return the default branch as a short name and as a full, unambiguous ref."""
    listed = git.run("for-each-ref", "--format=%(refname) %(symref)", *_DEFAULT_BASES)
    targets = dict(line.split(" ") for line in os.fsdecode(listed).split("\n") if line)
    for ref in _DEFAULT_BASES:
        if ref in targets:
            return _REF_PREFIX_PATTERN.sub("", targets[ref] or ref), ref
    return "HEAD", "HEAD"


def _validate_ref(base_ref: str) -> str:
    if not _REF_NAME_PATTERN.fullmatch(base_ref):
        raise _build_unknown_base_error(base_ref)
    return base_ref


def _check_exists(git: Git, base_ref: str | None) -> None:
    if base_ref is None or base_ref == "HEAD":
        return
    # Passed on stdin: as an argument, `a..b` would name a range of commits.
    question = os.fsencode(f"{base_ref}^{{commit}}\n")
    if git.run("cat-file", "--batch-check=%(objecttype)", input=question) != b"commit\n":
        raise _build_unknown_base_error(base_ref)


def _build_unknown_base_error(base_ref: str) -> InvalidInput:
    return InvalidInput(
        f"There is no branch, tag or commit {base_ref[:MAX_ECHOED]!r} in this repository.",
        suggestion="Name one that `git branch --all` or `git log` shows, or omit it for the default branch.",
    )


def _build_no_ancestor_error(name: str) -> GitError:
    return GitError(
        f"HEAD and {name[:MAX_ECHOED]!r} have no common ancestor in the local history.",
        suggestion="Fetch more history (`git fetch --unshallow`), or name another base.",
    )


def _is_unborn(git: Git) -> bool:
    """Return whether HEAD has no commit yet.

    Uses `log`, because other commands report a damaged branch as unborn.
    """
    try:
        git.run("log", "-1", "--format=")
    except GitError as error:
        return _NO_COMMITS_MESSAGE in error.message
    return False


# --- the files


def _list_index_changes(git: Git, commit: str) -> frozenset[str]:
    flags = ("--cached", "--name-only", "-z", "--no-renames", "--relative")
    return frozenset(_split_names(git.run("diff-index", *flags, commit, "--")))


def _list_untracked(git: Git) -> frozenset[str]:
    names = _split_names(git.run("ls-files", "-z", "--others", "--exclude-standard"))
    return frozenset(name for name in names if not name.endswith("/"))  # a nested repository


def _list_tracked(git: Git) -> _Tracked:
    entries = _split_names(git.run("ls-files", "-z", "-t", "--cached", "--modified"))
    paths = {entry[2:] for entry in entries}
    modified = frozenset(entry[2:] for entry in entries if entry[0] in _MODIFIED_TAGS)
    not_checked_out = {entry[2:] for entry in entries if entry[0] == _NOT_CHECKED_OUT_TAG}
    root = os.fspath(git.root)
    gone = {path for path in modified | not_checked_out if not _is_file(root, path)}
    return _Tracked(frozenset(paths - gone - _find_below_links(root, paths)), modified)


def _find_below_links(root: str, paths: Collection[str]) -> set[str]:
    """Return the paths that are reachable only through a symbolic link.

    `ls-files` follows a link that replaced a directory, and so lists files outside the project.
    """
    directories = _add_ancestors({_get_parent(path) for path in paths})
    links = {directory for directory in directories if stat.S_ISLNK(_get_mode(root, directory))}
    if not links:
        return set()
    return {path for path in paths if not links.isdisjoint(_add_ancestors([_get_parent(path)]))}


def _add_ancestors(directories: Collection[str]) -> set[str]:
    found: set[str] = set()
    for directory in directories:
        while directory and directory not in found:
            found.add(directory)
            directory = _get_parent(directory)  # noqa: PLW2901 (that is the walk)
    return found


def _is_file(root: str, path: str) -> bool:
    """Return whether git would track what is at the path; a directory only if it is a repository."""
    mode = _get_mode(root, path)
    if stat.S_ISDIR(mode):
        return _get_mode(root, f"{path}/.git") != 0
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _get_mode(root: str, path: str) -> int:
    try:
        return os.lstat(f"{root}/{path}").st_mode
    except OSError:
        return 0


def _get_parent(path: str) -> str:
    return path.rpartition("/")[0]


def _split_names(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


@contextmanager
def _require_working_tree(git: Git) -> Iterator[None]:
    try:
        yield
    except GitError as error:
        if not any(said in error.message for said in _NO_WORKING_TREE_MESSAGES):
            raise
        raise GitError(
            f"{git.root} is a bare repository or inside .git, so it has no project files.",
            suggestion="Work in the directory that contains the project's files.",
        ) from error
