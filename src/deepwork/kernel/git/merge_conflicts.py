"""Predicts which files would conflict if two branches were merged, without merging them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import MAX_ECHOED, GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.object_store import build_object_environment
from deepwork.kernel.git.refs import find_common_ancestor, get_commit
from deepwork.kernel.git.versions import require_version

MERGE_TREE_COMMAND = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")


def find_merge_conflicts(git: Git, ours: str, theirs: str) -> tuple[str, ...]:
    """Return the conflicting paths, sorted; empty if the merge is clean. Changes no file, index or branch.

    Merge drivers of the repository are disabled, so conflicts that a driver would resolve are included.
    """
    one, other = get_commit(git, ours), get_commit(git, theirs)
    if find_common_ancestor(git, one, other) is None:
        raise GitError(
            f"{ours[:MAX_ECHOED]!r} and {theirs[:MAX_ECHOED]!r} have no common ancestor in local history.",
            suggestion="Fetch more history (`git fetch --unshallow`), or name branches that share history.",
        )
    with (
        TemporaryDirectory(prefix="deepwork-merge-") as folder,
        require_version(git, "2.38", "Predicting conflicts"),
    ):
        merged = git.run(
            *MERGE_TREE_COMMAND, one, other, env=build_object_environment(Path(folder), git), ok_codes=(0, 1)
        )
    _, *paths = os.fsdecode(merged).split("\0")[:-1]
    return tuple(sorted(set(paths)))
