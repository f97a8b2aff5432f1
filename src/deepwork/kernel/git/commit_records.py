"""Reads many commits with one process: their trees and their parents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from deepwork.kernel.git.command import Git, check_hash

_BRANCH_REF_PREFIX = "refs/heads/"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit with its tree and its parents."""

    commit: str
    tree: str
    parents: tuple[str, ...]


def read_commits(git: Git, names: Iterable[str]) -> dict[str, CommitRecord]:
    """Map these hashes and refs to their commits; what the repository does not have is left out."""
    wanted = list(dict.fromkeys(names))
    question = "".join(f"{name}^{{commit}}\n" for name in wanted)
    answer = git.run("cat-file", "--batch", input=os.fsencode(question)) if wanted else b""
    found: dict[str, CommitRecord] = {}
    for name in wanted:
        head, _, answer = answer.partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or words[1] != b"commit":  # missing, or something else
            continue
        size = int(words[2])
        found[name] = _parse_commit(words[0].decode(), answer[:size])
        answer = answer[size + 1 :]
    return found


def list_newer_commits(git: Git, start: str, end: str) -> list[CommitRecord]:
    """List the commits that one commit contains and an older one does not; `--all` is what any ref has."""
    listed = git.run("log", "--format=%H %T %P", end, f"^{start}", "--").decode().splitlines()
    lines = (line.split() for line in listed)
    return [CommitRecord(check_hash(hash), check_hash(tree), tuple(more)) for hash, tree, *more in lines]


def read_branch_tips(git: Git, branches: Iterable[str]) -> dict[str, CommitRecord]:
    """Map the local branches that exist to their tips."""
    found = read_commits(git, [_BRANCH_REF_PREFIX + branch for branch in branches])
    return {name.removeprefix(_BRANCH_REF_PREFIX): record for name, record in found.items()}


def _parse_commit(commit: str, content: bytes) -> CommitRecord:
    header = content.partition(b"\n\n")[0].decode(errors="replace").splitlines()
    tree = header[0].removeprefix("tree ")
    parents = tuple(line.removeprefix("parent ") for line in header[1:] if line.startswith("parent "))
    return CommitRecord(check_hash(commit), check_hash(tree), parents)
