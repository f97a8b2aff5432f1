"""An index and an object store of our own, which read a working tree without changing the user's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.call import current_call, ignore_progress
from deepwork.kernel.errors import GitError
from deepwork.kernel.files.repositories import IndexFacts, Places, read_index_facts
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git, check_hash
from deepwork.kernel.git.refs import resolve_commit
from deepwork.kernel.git.safety import to_variables

_QUOTE_ESCAPES = {ord(character): f"\\{character}" for character in '"\\'} | {ord("\n"): "\\n"}


def build_object_environment(folder: Path, places: Places) -> dict[str, str]:
    """Build an environment in which git writes objects to the folder and also reads the repository's."""
    repository = str(places.find("objects"))
    return {
        "GIT_OBJECT_DIRECTORY": str(folder),
        # Quoted, because a colon separates paths.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{repository.translate(_QUOTE_ESCAPES)}"',
    }


def remove_unneeded_objects(folder: Path, needed: set[str]) -> int:
    """Delete every loose object that is not needed, and unfinished files; return how many."""
    removed = 0
    for path in folder.glob("??/*"):
        if path.parent.name + path.name not in needed:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


_SETTINGS = {
    "core.splitIndex": "false",  # would write a shared part next to the user's index
    "core.ignoreStat": "false",  # would treat every file it has read as unchanged from then on
    # Otherwise a file of the same size with its old timestamp would count as unchanged.
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignorecase": "false",  # would take a new file for another one of nearly the same name
    "core.safecrlf": "false",  # would reject files because of their line endings
    # Makes git detect files that exist although they are marked as not checked out.
    "core.sparseCheckout": "true",
    "sparse.expectFilesOutsideOfPatterns": "false",
}


# `git replace` could make a tree look like another one.
_ENVIRONMENT = {**to_variables(_SETTINGS.items()), "GIT_NO_REPLACE_OBJECTS": "1"}
DIFF_ENVIRONMENT = to_variables([*_SETTINGS.items(), ("core.bigFileThreshold", "5m")])
"""For commands that compare contents: larger files are only reported as different."""


_ADD_FLAGS = ("--add", "--remove", "--replace")
_BATCH_SIZE = 5_000
_MAX_REFUSED_FILES = 100


class PrivateIndex:
    """A copy of a working tree's index that hides no change; `git` runs at the tree's root."""

    def __init__(
        self,
        git: Git,
        file: Path,
        *,
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._git = git
        self._file = file
        own = to_variables({**_SETTINGS, **settings}.items()) if settings else {}
        self._env = {**_ENVIRONMENT, **own, **(env or {}), "GIT_INDEX_FILE": str(file)}

    def seed(self) -> str | None:
        """Start from a copy of the user's index, if there is one; return its tree, if it names one."""
        self._file.unlink(missing_ok=True)
        # Keeps the timestamp: git re-reads every file that is not older than the index.
        with suppress(FileNotFoundError):
            shutil.copy2(self._git.find_path("index"), self._file)
            head = resolve_commit(self._git, "HEAD")  # its length tells that of the hashes
            facts = read_index_facts(self._file.read_bytes(), len(head) // 2) if head else IndexFacts()
            if not facts.may_hide_changes:
                return facts.tree
            self._clear_assume_unchanged_flags()
        return None

    def run(self, *args: str, input: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Run git with this index instead of the user's."""
        return self._git.run(*args, input=input, env={**self._env, **(env or {})})

    def add_all(self, *, without: Collection[str] = ()) -> None:
        """Make the index hold exactly the files of the working tree that are not ignored."""
        excluded = (f":(top,exclude,literal){path}" for path in without)
        self.run("add", "--all", "--sparse", "--", ":/", *excluded)

    def write_tree(self) -> str:
        """Write the index as a tree and return its hash; fails while there are conflicts."""
        # A partial clone does not have all objects.
        return check_hash(self.run("write-tree", "--missing-ok").decode().strip())

    def list_differing(self) -> dict[str, str]:
        """Map each path that differs from the index to git's status letter; D means deleted.

        Includes files whose timestamp changed but whose content did not.
        """
        entries = _split_names(self.run("diff-files", "-z", "--name-status", "--no-renames"))
        return dict(zip(entries[1::2], entries[::2], strict=True))

    def list_untracked(self) -> list[str]:
        """List files that are neither in the index nor ignored; a nested repository ends with a slash."""
        return _split_names(self.run("ls-files", "-z", "--others", "--exclude-standard"))

    def remove(self, paths: Collection[str]) -> None:
        """Remove paths from the index, whether or not their files exist."""
        if paths:
            self.run("update-index", "--force-remove", "-z", "--stdin", input=_to_input(paths))

    def add(self, paths: Sequence[str]) -> list[str]:
        """Add the files as they are now; return the paths that git cannot add."""
        refused: list[str] = []
        waiting = [paths[start : start + _BATCH_SIZE] for start in range(0, len(paths), _BATCH_SIZE)]
        report = current_call().report_progress if len(waiting) > 1 else ignore_progress
        while waiting:
            left = sum(map(len, waiting))
            report(len(paths) - left, len(paths), f"Read {len(paths) - left} of {len(paths)} changed files")
            some = waiting.pop()
            try:
                self.run("update-index", *_ADD_FLAGS, "-z", "--stdin", input=_to_input(some))
            except GitError:
                if len(refused) > _MAX_REFUSED_FILES:
                    raise
                if len(some) == 1:
                    refused += some
                else:  # one unreadable file fails the whole batch: bisect to find it
                    waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
        return refused

    def filter_ignored(self, paths: Collection[str]) -> list[str]:
        """Return the paths that match an ignore rule, even if they are tracked."""
        if not paths:
            return []
        answer = self._git.run(
            "check-ignore",
            "-z",
            "--stdin",
            "--no-index",
            input=_to_input(paths),
            env=self._env,
            ok_codes=(0, 1),
        )
        return _split_names(answer)

    def has_conflicts(self) -> bool:
        """Return whether the index has unmerged entries."""
        return self.run("ls-files", "-z", "--unmerged") != b""

    def list_nested_repositories(self) -> list[str]:
        """List untracked nested repositories: git would record their commit, not their files."""
        return [entry.rstrip("/") for entry in self.list_untracked() if entry.endswith("/")]

    def list_submodules(self) -> list[str]:
        """List submodules, which git records as one commit each."""
        entries = (entry.partition("\t") for entry in _split_names(self.run("ls-files", "-z", "--stage")))
        return sorted({path for mode, _, path in entries if mode.startswith("160000")})

    def _clear_assume_unchanged_flags(self) -> None:
        """Clear the flags that make git assume that a file is unchanged."""
        entries = [(entry[0], entry[2:]) for entry in _split_names(self.run("ls-files", "-z", "-v"))]
        assumed = [path for tag, path in entries if tag.islower()]
        skipped = [path for tag, path in entries if tag in "Ss" and os.path.lexists(self._git.root / path)]
        for flag, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
            if paths:
                self.run("update-index", flag, "-z", "--stdin", input=_to_input(paths))


@contextmanager
def open_private_index(git: Git) -> Iterator[PrivateIndex]:
    """Yield a temporary copy of the index of the working tree that contains `git.root`."""
    top = git.at(git.find_places().top, max_output=MAX_LISTING_BYTES)
    with TemporaryDirectory(prefix="deepwork-index-") as folder:
        index = PrivateIndex(top, Path(folder) / "index")
        index.seed()
        yield index


def _split_names(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _to_input(paths: Collection[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
