"""Finds the commit that each line of a file comes from."""

from __future__ import annotations

import os
import re

from deepwork.kernel.errors import MAX_ECHOED, GitError, InvalidInput
from deepwork.kernel.git.command import BAD_LIST_OF_COMMITS, MAX_LISTING_BYTES, Git, check_hash
from deepwork.kernel.git.patches import unquote
from deepwork.kernel.records import dataclass

# The repository could name a file with commits to skip. Git reads it, then the empty name clears the list.
_COMMAND = ("blame", "--porcelain", "--root", "--ignore-revs-file=")
_ENTRY_PATTERN = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+) (\d+)")


@dataclass(frozen=True)
class LineOrigin:
    """Lines that come from one commit; `commit` is None for lines that are not committed."""

    commit: str | None
    path: str
    """The name of the file in that commit."""
    first: int
    last: int


def find_line_origins(git: Git, path: str, first: int, last: int, commit: str | None) -> list[LineOrigin]:
    """Find where lines of a file come from: as it is in the working tree, or in a commit. Follows renames."""
    at = [check_hash(commit)] if commit else []
    large = git.at(git.root, max_output=MAX_LISTING_BYTES)
    try:
        output = large.run(*_COMMAND, f"-L{first},{last}", *at, "--", path)
    except GitError as error:
        raise _explain(error, path, first) from error
    return _parse(os.fsdecode(output))


def _parse(output: str) -> list[LineOrigin]:
    found: list[tuple[str, int, int]] = []
    names: dict[str, str] = {}
    for line in output.split("\n"):
        if line.startswith("\t"):
            continue
        if entry := _ENTRY_PATTERN.fullmatch(line):
            found.append((entry[1], int(entry[3]), int(entry[4])))
        elif line.startswith("filename ") and found:
            names[found[-1][0]] = os.fsdecode(unquote(os.fsencode(line.removeprefix("filename "))))
    return [
        LineOrigin(hash if hash.strip("0") else None, names.get(hash, ""), first, first + count - 1)
        for hash, first, count in found
    ]


def _explain(error: GitError, path: str, first: int) -> GitError | InvalidInput:
    name = repr(path[:MAX_ECHOED])
    if "has only" in error.message:
        return InvalidInput(
            f"The file {name} has fewer than {first} lines.", suggestion="Name a line that it has."
        )
    if "no such path" in error.message:
        return InvalidInput(
            f"The file {name} is not in git.",
            suggestion="Name a file that is committed, or a commit that has it.",
        )
    if BAD_LIST_OF_COMMITS in error.message:
        return GitError(
            "The repository's setting blame.ignoreRevsFile names a file that is not a list of commits.",
            suggestion="Correct the file, or remove the setting with `git config --unset-all`.",
        )
    return error
