"""An index of our own, by which git looks at a working tree, or stores it, without touching the user's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.errors import GitError
from deepwork.git.command import Git, check_hash

_SETTINGS = {
    "core.splitIndex": "false",  # half of a split index would be written next to the user's
    "core.ignoreStat": "false",  # would take every file that it has read as unchanged from then on
    "core.safecrlf": "false",  # would refuse a file for its line endings
    # Git itself then looks for files that are there although they are marked as not checked out.
    "core.sparseCheckout": "true",
    "sparse.expectFilesOutsideOfPatterns": "false",
}


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(settings)},
        **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(settings.values())},
    }


_ENVIRONMENT = _as_environment(_SETTINGS)
FOR_DIFFS = _as_environment({**_SETTINGS, "core.bigFileThreshold": "5m"})
"""For commands that compare contents: of larger files it is only told that they differ."""


_TAKING = ("--add", "--remove", "--replace")
_AT_ONCE = 5_000
_MOST_REFUSED = 100


class PrivateIndex:
    """A copy of a working tree's index that hides no change; `git` stands at the tree's top."""

    def __init__(self, git: Git, file: Path, *, env: dict[str, str] | None = None) -> None:
        self._git = git
        self._file = file
        self._env = {**_ENVIRONMENT, **(env or {}), "GIT_INDEX_FILE": str(file)}

    def seed(self) -> None:
        """Begin with what the user's index holds; there may be none yet."""
        self._file.unlink(missing_ok=True)
        # With its time: git mistrusts its record of any file that is not older than its index.
        with suppress(FileNotFoundError):
            shutil.copy2(users_index(self._git), self._file)
            self._unhide()

    def run(self, *args: str, input: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Ask git with this index in place of the user's."""
        return self._git.run(*args, input=input, env={**self._env, **(env or {})})

    def take_all(self, *, without: Collection[str] = ()) -> None:
        """Make it hold every file of the working tree that git does not ignore, and no other."""
        excluded = (f":(top,exclude,literal){path}" for path in without)
        self.run("add", "--all", "--sparse", "--", ":/", *excluded)

    def write_tree(self) -> str:
        """The tree that it holds; what is in conflict cannot be written."""
        # A clone that left objects where it came from need not have them all.
        return check_hash(self.run("write-tree", "--missing-ok").decode().strip())

    def differing(self) -> dict[str, str]:
        """Every path whose file is not as it is here, with git's letter for it: D is gone, others are there.

        A file that was only touched counts as well.
        """
        entries = _names(self.run("diff-files", "-z", "--name-status", "--no-renames"))
        return dict(zip(entries[1::2], entries[::2], strict=True))

    def untracked(self) -> list[str]:
        """Files that are neither in here nor ignored; a repository among them ends with a slash."""
        return _names(self.run("ls-files", "-z", "--others", "--exclude-standard"))

    def drop(self, paths: Collection[str]) -> None:
        """Let go of them, whatever became of their files."""
        if paths:
            self.run("update-index", "--force-remove", "-z", "--stdin", input=_as_input(paths))

    def take(self, paths: Sequence[str]) -> list[str]:
        """Hold their files as they are now; tells those that git cannot take."""
        refused: list[str] = []
        waiting = [paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE)]
        while waiting:
            some = waiting.pop()
            try:
                self.run("update-index", *_TAKING, "-z", "--stdin", input=_as_input(some))
            except GitError:
                if len(refused) > _MOST_REFUSED:
                    raise
                if len(some) == 1:
                    refused += some
                else:  # one bad file spoils them all: find it
                    waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
        return refused

    def ignored(self, paths: Collection[str]) -> list[str]:
        """Those of them that git would ignore if it did not know them."""
        if not paths:
            return []
        answer = self._git.run(
            "check-ignore", "-z", "--stdin", "--no-index",
            input=_as_input(paths), env=self._env, ok_codes=(0, 1),
        )  # fmt: skip
        return _names(answer)

    def has_conflicts(self) -> bool:
        """Whether a merge has left files in several versions."""
        return self.run("ls-files", "-z", "--unmerged") != b""

    def nested_repositories(self) -> list[str]:
        """Repositories among what git does not know: it would note their commit, not their files."""
        return [entry.rstrip("/") for entry in self.untracked() if entry.endswith("/")]

    def submodules(self) -> list[str]:
        """Repositories that git knows as one commit each."""
        entries = (entry.partition("\t") for entry in _names(self.run("ls-files", "-z", "--stage")))
        return sorted({path for mode, _, path in entries if mode.startswith("160000")})

    def _unhide(self) -> None:
        """Look at files, too, that the user asked git to take as unchanged."""
        entries = [(entry[0], entry[2:]) for entry in _names(self.run("ls-files", "-z", "-v"))]
        assumed = [path for tag, path in entries if tag.islower()]
        skipped = [path for tag, path in entries if tag in "Ss" and os.path.lexists(self._git.root / path)]
        for flag, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
            if paths:
                self.run("update-index", flag, "-z", "--stdin", input=_as_input(paths))


@contextmanager
def private_index(git: Git) -> Iterator[PrivateIndex]:
    """An index for the length of the block, seeded, of the tree that `git` stands in or below."""
    top = git.at(top_of(git), max_output=LONGEST_LISTING)
    with TemporaryDirectory(prefix="deepwork-index-") as folder:
        index = PrivateIndex(top, Path(folder) / "index")
        index.seed()
        yield index


def users_index(git: Git) -> Path:
    """Where git keeps the index of the tree that `git` stands in; there may be none yet."""
    return path_in_git(git, "index")


def path_in_git(git: Git, name: str) -> Path:
    """Where git keeps a file of that name for this tree."""
    answer = git.run("rev-parse", "--path-format=absolute", "--git-path", name)
    return Path(os.fsdecode(answer.removesuffix(b"\n")))


def top_of(git: Git) -> Path:
    """The top of the working tree that `git` stands in."""
    return Path(os.fsdecode(git.run("rev-parse", "--show-toplevel").removesuffix(b"\n")))


LONGEST_LISTING = 256 * 2**20
"""Of our own questions: a million files."""


def _names(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _as_input(paths: Collection[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
