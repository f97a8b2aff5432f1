"""What a merge of two sides must have at each path, where their contents need not be merged."""

from __future__ import annotations

from collections.abc import Mapping

Versions = Mapping[str, str]
"""What is at each path, as mode and hash."""


def find_unexplained(base: Versions, ours: Versions, theirs: Versions, merged: Versions) -> list[str]:
    """List the paths where the sides alone do not tell why the result has what it has.

    What only one side changed must be in the result as that side has it, and so must what both changed in the
    same way. A path that they changed differently is always listed.
    """
    paths = {**base, **ours, **theirs, **merged}
    return sorted(
        path
        for path in paths
        if merged.get(path) != _choose(base.get(path), ours.get(path), theirs.get(path))
    )


def _choose(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """Return the version that a merge must have; an empty one, which nothing has, if that is unknown."""
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else ""
