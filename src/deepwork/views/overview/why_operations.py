"""What people can read about where code comes from: why it exists, whether trailers are true, exports."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from deepwork import __version__
from deepwork.delivery.provenance.exports import ExportedCommit, build_note, build_statement, build_trace
from deepwork.delivery.provenance.rules import VerifiedCommit
from deepwork.delivery.provenance.verification import ProvenanceVerifier
from deepwork.kernel.answers import Field
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.notes import write_notes
from deepwork.kernel.operations import Traits, operation
from deepwork.views.overview.why import MAX_LINES, WhyService
from deepwork.views.overview.why_answers import (
    ClaimView,
    ExportedCommits,
    MatchView,
    VerifiedCommits,
    VerifiedCommitView,
    Why,
)

NOTES_REF = "refs/notes/deepwork"
LineNumber = Annotated[int | None, Field(ge=1, le=10**9, description="A line of it; else the whole file")]
Text = Annotated[str | None, Field(max_length=4096)]
ExportFormat = Literal["agent-trace", "in-toto", "git-notes"]
Range = Annotated[str, Field(description="A..B, or one commit")]
WithPrompts = Annotated[bool, Field(description="Also prompts, outcomes, comments and places of transcripts")]


class WhyOperations:
    """What people read about the origins of the code of one repository. All of it asks git."""

    traits: ClassVar = Traits(toolset="provenance", people_only=True)

    def __init__(self, service: WhyService, verifier: ProvenanceVerifier, git: Git) -> None:
        self._service, self._verifier, self._git = service, verifier, git

    @operation("read", long_running=True)
    def explain_code(
        self,
        path: Annotated[Text, Field(description="A file, relative to the repository")] = None,
        line: LineNumber = None,
        last_line: Annotated[LineNumber, Field(description="The last of several lines")] = None,
        commit: Annotated[
            Text, Field(description="A commit or a range A..B; with `path`, the file as it is there")
        ] = None,
        task_id: Annotated[Text, Field(description="`line` is one of its diff")] = None,
        side: Annotated[
            Literal["new", "old"],
            Field(description="Of a task's diff: the file as the task left it, or as it was before"),
        ] = "new",
    ) -> Why:
        """Why code exists: the commits, and the tasks, goals, decisions, checks and agents behind them."""
        if path is None and commit is None:
            raise InvalidInput(
                "Neither `path` nor `commit` is given.", suggestion="Name a file, or a commit, or both."
            )
        if task_id is not None:
            return self._explain_task_line(task_id, path, line, is_old=side == "old")
        if path is None:
            return self._service.explain_commits(commit or "")
        if line is None:
            return self._service.explain_lines(path, 1, MAX_LINES, commit)
        return self._service.explain_lines(path, line, last_line or line, commit)

    @operation("read", long_running=True)
    def verify_provenance(
        self,
        range: Range,
        required: Annotated[bool, Field(description="Commits that no task is known of fail, too")] = False,
    ) -> VerifiedCommits:
        """Compare the trailers of commits with what the tasks they name made."""
        found = self._verifier.verify(range, is_required=required)
        verdicts = [each.verdict.value for each in found]
        is_verified = not any(each.verdict.fails(is_required=required) for each in found)
        return VerifiedCommits(
            verified=is_verified,
            counts={verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)},
            commits=[_describe(each) for each in found],
        )

    @operation("read", long_running=True)
    def export_provenance(
        self, range: Range, format: ExportFormat, include_prompts: WithPrompts = False
    ) -> ExportedCommits:
        """Who made the commits of a range that tasks made, for other programs; nobody has signed it."""
        commits = self._service.export_commits(range, includes_prompts=include_prompts)
        documents = [_BUILDERS[format](commit) for commit in commits]
        return ExportedCommits(format=format, written=False, documents=documents)

    @operation("work", long_running=True, idempotent=True)
    def write_provenance_notes(self, range: Range, include_prompts: WithPrompts = False) -> ExportedCommits:
        """Write who made the commits of a range as git notes, to refs/notes/deepwork."""
        commits = self._service.export_commits(range, includes_prompts=include_prompts)
        if notes := {commit.hash: build_note(commit) for commit in commits}:
            write_notes(self._git, NOTES_REF, notes, "Add notes of deepwork", int(time.time()))
        documents = [_describe_note(commit) for commit in commits]
        return ExportedCommits(format="git-notes", written=True, documents=documents)

    def _explain_task_line(self, task_id: str, path: str | None, line: int | None, *, is_old: bool) -> Why:
        if path is None or line is None:
            raise InvalidInput(
                "`task_id` needs `path` and `line`.", suggestion="Name a file and a line of the task's diff."
            )
        return self._service.explain_task_line(task_id, path, line, is_old=is_old)


def _describe(commit: VerifiedCommit) -> VerifiedCommitView:
    return VerifiedCommitView.of(
        commit,
        commit=commit.hash,
        claims=[ClaimView.of(each) for each in commit.claims] or None,
        links=[MatchView.of(each) for each in commit.matches] or None,
        problems=list(commit.problems) or None,
    )


def _describe_note(commit: ExportedCommit) -> dict[str, Any]:
    return {"commit": commit.hash, "note": build_note(commit)}


_BUILDERS: dict[ExportFormat, Callable[[ExportedCommit], dict[str, Any]]] = {
    "agent-trace": lambda commit: build_trace(commit, __version__),
    "in-toto": build_statement,
    "git-notes": _describe_note,
}
