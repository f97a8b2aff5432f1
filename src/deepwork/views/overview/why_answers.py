"""Answers about where code comes from: commits, and the chain behind each task that made them."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.provenance.rules import CommitVerdict, KnownBy
from deepwork.kernel.answers import Answer


class LinkView(Answer):
    """A task that made a commit."""

    task_id: str
    known_by: str
    certainty: str
    """certain or likely."""
    attempt_id: str | None = None
    agent_id: str | None = None


class CommitOrigin(Answer):
    """A commit, and who made it."""

    commit: str
    subject: str
    author: str
    committed_at: str
    lines: list[list[int]] | None = None
    """The first and last line of each part of the file that comes from it."""
    path: str | None = None
    """The name of the file in this commit, if it was renamed since."""
    links: list[LinkView]
    problems: list[str] | None = None
    """Why its trailers are not true."""
    note: str | None = None
    """What is not known, and why."""


class GoalView(Answer):
    """What the work was for: a plan, a tracked workflow or a run of a job."""

    kind: str
    id: str
    name: str
    text: str | None = None


class ApprovalLine(Answer):
    """What a person decided about the work."""

    id: str
    kind: str
    status: str
    decided_by: str | None = None
    decided_at: str | None = None
    comment: str | None = None


class ProofLine(Answer):
    """A check with whose proof the task counted as done."""

    check: str
    verdict: str
    proof_id: str
    created_at: str
    waived_by: str | None = None


class ChainDecision(Answer):
    """A decision that was recorded with the task."""

    id: str
    question: str
    chosen: str
    reasoning: str | None = None


class ChainAttempt(Answer):
    """An attempt of an agent at the task, what it cost, and where its output is."""

    id: str
    number: int
    stage: str
    agent_id: str
    profile: str
    vendor: str
    model: str | None = None
    vendor_session: str | None = None
    tokens: int
    usd: float
    usd_source: str | None = None
    host: str
    transcript: str | None = None
    """The file with what the agent wrote, if it is on this machine."""
    made_it: bool
    """Whether a commit of this answer is linked with this attempt."""


class ChainAgent(Answer):
    """An agent that held the task."""

    id: str
    name: str
    runtime: str | None = None
    role: str | None = None


class ChainLanding(Answer):
    """A landing of the task."""

    id: str
    status: str
    target: str
    branch: str | None = None
    merge_commit: str | None = None
    ended_at: str | None = None


class TaskChain(Answer):
    """A task, and everything that is known about why it was done and how."""

    id: str
    kind: str
    name: str
    status: str | None = None
    description: str | None = None
    outcome: str | None = None
    goal: GoalView | None = None
    decisions: list[ChainDecision]
    checks: list[ProofLine]
    approvals: list[ApprovalLine]
    attempts: list[ChainAttempt]
    agents: list[ChainAgent]
    models: list[str]
    tokens: int | None = None
    usd: float | None = None
    landings: list[ChainLanding]


class Why(Answer):
    """Why code exists."""

    question: str
    commits: list[CommitOrigin]
    commits_total: int
    uncommitted: list[list[int]] | None = None
    """Lines that are not committed yet."""
    running_tasks: list[str] | None = None
    """Tasks that run in this tree now, and may have written the uncommitted lines."""
    changed_by: str | None = None
    """Of a line of a task's diff: the task, if it changed the line."""
    changed_by_certainty: str | None = None
    """certain, or likely if another task may have changed the file at the same time."""
    tasks: list[TaskChain]


class ClaimView(Answer):
    """What the trailers of a commit say about who made it."""

    task_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    landing_id: str | None = None


class MatchView(Answer):
    """A task that made a commit, as far as it is known."""

    task_id: str
    known_by: KnownBy
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    is_likely: bool


class VerifiedCommitView(Answer):
    """A commit with what its trailers claim, what is known, and what is wrong."""

    commit: str
    subject: str
    verdict: CommitVerdict
    claims: list[ClaimView] | None = None
    links: list[MatchView] | None = None
    problems: list[str] | None = None


class VerifiedCommits(Answer):
    """Whether the trailers of the commits of a range are true."""

    verified: bool
    counts: dict[str, int]
    """How many commits have each verdict."""
    commits: list[VerifiedCommitView]


class ExportedCommits(Answer):
    """The commits of a range that tasks made, in a format of others."""

    format: str
    written: bool
    documents: list[dict[str, Any]]
