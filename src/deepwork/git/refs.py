"""Branches and commits by name: which there are, what they point at, what contains what."""

from __future__ import annotations

import os
import re
from bisect import bisect_left

from deepwork.errors import MAX_ECHOED, GitError, InvalidInput, NotAllowed
from deepwork.git.command import Git, check_hash

IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "deepwork"), ("EMAIL", "deepwork@localhost"))
}
"""Who makes commits that no person made."""

_MAX_NAME = 200
_HEADS = "refs/heads/"
# What neither an argument of a program nor a line of its input can be.
_POSSIBLE_NAME = re.compile(r"[^\0\n\ud800-\udc7f\udd00-\udfff]+")
_HASH_LIKE = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def current_branch(git: Git) -> str | None:
    """The branch that HEAD is on, be it without a commit yet; None where HEAD is detached."""
    ref = os.fsdecode(git.run("symbolic-ref", "--quiet", "HEAD", ok_codes=(0, 1))).strip()
    return ref.removeprefix(_HEADS) or None


def resolve_commit(git: Git, name: str) -> str | None:
    """The full hash of the commit that a branch, a tag or any other name of git's stands for, if any."""
    if not _POSSIBLE_NAME.fullmatch(name):
        return None
    # Asked over its input: among arguments, `-x` would be an option and `a..b` two commits.
    question = os.fsencode(f"{name}^{{commit}}\n")
    answer = git.run("cat-file", "--batch-check=%(objecttype) %(objectname)", input=question)
    kind, _, hash = answer.strip().partition(b" ")
    return check_hash(hash.decode()) if kind == b"commit" else None


def branch_tip(git: Git, branch: str) -> str | None:
    """Where the branch is, or a remote one such as origin/main; a tag of the same name is no branch."""
    return resolve_commit(git, _HEADS + branch) or resolve_commit(git, branch)


def commit_named(git: Git, name: str | None) -> str:
    """The commit of that name, of HEAD if none is given; an error that names what is missing."""
    commit = resolve_commit(git, name or "HEAD")
    if commit is not None:
        return commit
    if name in (None, "HEAD"):
        raise NotAllowed(
            f"The repository in {git.root} has no commit yet.",
            suggestion="Make a first commit, then call again.",
        )
    raise InvalidInput(
        f"There is no branch, tag or commit {str(name)[:MAX_ECHOED]!r} in this repository.",
        suggestion="Name one that `git branch --all` or `git log` shows, or none for HEAD.",
    )


def contains(git: Git, commit: str, branch: str) -> bool:
    """Whether the commit holds all of the branch; of what is not there, nothing does."""
    hash, tip = resolve_commit(git, commit), branch_tip(git, branch)
    return hash is not None and tip is not None and is_within(git, tip, hash)


def merge_of(git: Git, branch: str, base: str) -> str | None:
    """The commit by which the branch came into the base; None if it did not, or only as a squash.

    It is the first on the base's own line that contains the branch: a merge, or after a fast-forward the tip
    of the branch itself. A branch without a commit of its own counts as fast-forwarded.
    """
    tip, end = branch_tip(git, branch), branch_tip(git, base)
    if tip is None or end is None or not is_within(git, tip, end):
        return None
    listed = git.run("rev-list", "--first-parent", "--reverse", "--parents", end, f"^{tip}", "--").decode()
    line = [entry.split(" ") for entry in listed.splitlines()]
    if not line or line[0][1:2] == [tip]:
        return tip
    commits = [entry[0] for entry in line]
    # Once it is in, it stays in: a few questions find where it came, however long the line is.
    return commits[bisect_left(commits, True, key=lambda commit: is_within(git, tip, commit))]


def check_branch_name(git: Git, branch: str) -> None:
    """An error that names the branch, unless git would take it for the name of a new one."""
    if len(branch) > _MAX_NAME:
        raise _no_branch_name(branch, f"is longer than {_MAX_NAME} characters")
    if not _POSSIBLE_NAME.fullmatch(branch) or branch.startswith("-") or "@{" in branch or branch == "@":
        raise _no_branch_name(branch, "is none that git accepts")
    if _HASH_LIKE.fullmatch(branch):
        raise _no_branch_name(branch, "would be taken for a commit")
    # Each part is a file's name, with ".lock" while it changes and a number where it is rescued.
    if any(len(os.fsencode(part)) > _MAX_NAME for part in branch.split("/")):
        raise _no_branch_name(branch, f"has a part longer than {_MAX_NAME} bytes")
    try:
        git.run("check-ref-format", "--branch", branch)
    except GitError:
        raise _no_branch_name(branch, "is none that git accepts") from None


def branch_in_the_way(git: Git, branch: str) -> str | None:
    """A branch that this one cannot be next to: `a` and `a/b` exclude each other."""
    parts = branch.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    listed = git.run("for-each-ref", "--format=%(refname)", *(_HEADS + name for name in (*above, branch)))
    taken = {ref.removeprefix(_HEADS) for ref in os.fsdecode(listed).splitlines()}
    below = sorted(name for name in taken if name.startswith(f"{branch}/"))
    return next((name for name in (*above, *below) if name in taken), None)


def has_branch(git: Git, branch: str) -> bool:
    return resolve_commit(git, _HEADS + branch) is not None


def create_branch(git: Git, branch: str, commit: str) -> None:
    """Make a new branch; of two who make the same at once, one gets an error."""
    git.run("update-ref", _HEADS + branch, commit, "0" * len(commit), env=IDENTITY)


def delete_branch(git: Git, branch: str, commit: str) -> None:
    """Take a branch away that is still where it was made."""
    git.run("update-ref", "-d", _HEADS + branch, commit, env=IDENTITY)


def is_kept(git: Git, commit: str) -> bool:
    """Whether a branch or a tag holds the commit, so that git will never throw it away."""
    holders = ("refs/heads", "refs/tags", "refs/remotes")
    return git.run("for-each-ref", "--count=1", f"--contains={commit}", *holders) != b""


def is_within(git: Git, commit: str, tip: str) -> bool:
    """Whether the commit is in the history that ends with the tip."""
    return git.run("rev-list", "--max-count=1", commit, f"^{tip}", "--") == b""


def common_ancestor(git: Git, one: str, other: str) -> str | None:
    """The last commit that two have in common; None where their histories are unrelated."""
    found = git.run("merge-base", one, other, ok_codes=(0, 1)).decode().strip()
    return check_hash(found) if found else None


def _no_branch_name(branch: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"The branch name {branch[:MAX_ECHOED]!r} {reason}.",
        suggestion="Use letters, digits, dashes and slashes, for instance 'deepwork/fix-login'.",
    )
