"""Links between commits and the work that made them, and what trailers claim about it.

Named tuples, because there are many: Python creates them in a third of the time of frozen dataclasses.
"""

from __future__ import annotations

from typing import NamedTuple

from deepwork.kernel.names import CaseInsensitiveEnum


class KnownBy(CaseInsensitiveEnum):
    """How a link between a commit and a task is known. Recorded links have one of the first three."""

    RUNNER = "runner"  # the runner made the commit
    LANDING = "landing"  # a landing made the merge commit
    WATCHED = "watched"  # it was made in the task's tree while the task ran
    TREE = "tree"  # it changes the same files from the same to the same content
    PATCH_ID = "patch_id"  # it makes the same change to other content: rebased or cherry-picked
    PARENTS = "parents"  # a merge of recorded commits that adds nothing itself
    TRAILER = "trailer"  # only its trailers say so


class CommitLink(NamedTuple):
    """A change that a task made. `commit_hash` is empty for the work of the task as a whole."""

    task_id: str
    commit_hash: str
    tree_before: str
    tree: str
    known_by: KnownBy
    patch_id: str | None = None
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    is_likely: bool = False
    """Whether another task may have made it as well."""
    recorded_at: int = 0


class TrailerClaim(NamedTuple):
    """What the trailers of a commit say about who made it."""

    task_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    landing_id: str | None = None


class AttemptIdentity(NamedTuple):
    """Which task an attempt was made at, and by which agent."""

    id: str
    task_id: str
    agent_id: str


class Match(NamedTuple):
    """A task that made a commit, as far as it is known."""

    task_id: str
    known_by: KnownBy
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    is_likely: bool = False


class CommitVerdict(CaseInsensitiveEnum):
    """What verification says about a commit."""

    VERIFIED = "verified"  # its trailers are true
    LINKED = "linked"  # no trailers, but it is known which task made it
    UNLINKED = "unlinked"  # no trailers, and nothing is known
    FORGED = "forged"  # a trailer is not true
    UNVERIFIABLE = "unverifiable"  # its history is cut off, so it cannot be compared

    def fails(self, *, is_required: bool) -> bool:
        """Whether verification fails because of it; `is_required`: a task must be known to have made it."""
        is_bad = self in (CommitVerdict.FORGED, CommitVerdict.UNVERIFIABLE)
        return is_bad or (is_required and self is CommitVerdict.UNLINKED)


class VerifiedCommit(NamedTuple):
    """A commit with what its trailers claim, what is known, and what is wrong."""

    hash: str
    subject: str
    verdict: CommitVerdict
    claims: tuple[TrailerClaim, ...] = ()
    matches: tuple[Match, ...] = ()
    problems: tuple[str, ...] = ()
