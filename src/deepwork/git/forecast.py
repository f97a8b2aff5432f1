"""What would conflict if two branches were merged, found out without merging them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.errors import MAX_ECHOED, GitError
from deepwork.git.command import Git
from deepwork.git.objects import stored_in
from deepwork.git.refs import commit_named, common_ancestor
from deepwork.git.versions import needs

_MERGE = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")


def conflicts_between(git: Git, ours: str, theirs: str) -> tuple[str, ...]:
    """The paths in conflict, sorted; none if the two would merge cleanly. No file, index or branch changes.

    Merge drivers that the repository names are off, so what one of them would have settled is told as well.
    """
    one, other = commit_named(git, ours), commit_named(git, theirs)
    if common_ancestor(git, one, other) is None:
        raise GitError(
            f"{ours[:MAX_ECHOED]!r} and {theirs[:MAX_ECHOED]!r} have no common ancestor in what is here.",
            suggestion="Fetch more history (`git fetch --unshallow`), or name branches of the same origin.",
        )
    with TemporaryDirectory(prefix="deepwork-merge-") as folder, needs(git, "2.38", "Foretelling conflicts"):
        merged = git.run(*_MERGE, one, other, env=stored_in(Path(folder), git), ok_codes=(0, 1))
    _, *paths = os.fsdecode(merged).split("\0")[:-1]
    return tuple(sorted(set(paths)))
