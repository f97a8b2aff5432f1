"""Builders for the tests of provenance: a task that made two commits in an attempt, and its repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from application import call_tool
from deepwork.delivery.provenance.rules import VerifiedCommit
from deepwork.delivery.provenance.verification import ProvenanceVerifier
from deepwork.delivery.runner.models import Attempt, AttemptStage, RunOptions
from deepwork.delivery.runner.service import create_run
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.git.command import Git
from deepwork.views.overview.provenance_store import StoredWork
from workspaces.make import commit, create_plan, run_git

LINES = [f"line {number}\n" for number in range(1, 41)]


@dataclass(frozen=True)
class Made:
    """A task that an attempt of an agent worked on, with the commits that it made."""

    app: Application
    project: Path
    workflow_id: str
    task_id: str
    attempt_id: str
    agent_id: str
    branch: str
    commits: tuple[str, ...]

    @property
    def trailers(self) -> str:
        return build_trailers(self.task_id, self.attempt_id, self.agent_id)


def build_trailers(task: str, attempt: str, agent: str) -> str:
    return f"Deepwork-Task: {task}\nDeepwork-Attempt: {attempt}\nDeepwork-Agent: {agent}"


def edit_lines(project: Path, **lines: str) -> None:
    """Replace lines of book.txt, `l7="new"` for the seventh."""
    book = project / "book.txt"
    text = book.read_text().splitlines(keepends=True) if book.exists() else list(LINES)
    for name, value in lines.items():
        text[int(name[1:]) - 1] = f"{value}\n"
    book.write_text("".join(text))


def commit_all(project: Path, message: str) -> str:
    return commit(project, message)


def start_attempt(app: Application, workflow_id: str, task_id: str, number: int = 1) -> Attempt:
    """Register an agent, let it claim the task, and store its attempt, as the runner does."""
    agent = call_tool(app, "agent_register", name=f"{task_id}-{number}", runtime="codex", caller=task_id)[
        "id"
    ]
    claimed = call_tool(app, "task_claim", task_id=task_id, agent_id=agent, caller=task_id)
    assert claimed["success"], claimed
    with app.database.transaction() as tx:
        run = create_run(
            repository_path=str(app.settings.repository_root),
            chain=["codex"],
            options=RunOptions(),
            created_by="human:ada",
            now=tx.now,
            job="a/b",
        )
        RunStore(tx).add(run)
        attempt = Attempt(
            id=f"at_{task_id[3:]}{number}",
            run_id=run.id,
            workflow_id=workflow_id,
            task_id=task_id,
            number=number,
            profile="codex",
            vendor="openai",
            agent_id=agent,
            claim_epoch=claimed["claim_epoch"],
            stage=AttemptStage.RUNNING,
            host="local",
            created_at=tx.now,
            updated_at=tx.now,
            starts=1,
            input_tokens=900,
            output_tokens=100,
            usd_micros=1_250_000,
            usd_source="reported",
        )
        AttemptStore(tx).add(attempt)
    return attempt


def make_work(app: Application, project: Path, name: str, *edits: dict[str, str]) -> Made:
    """Let an attempt at a new task make one commit for each of these edits, on a branch of its own."""
    workflow, (task,) = create_plan(app, name)
    run_git(project, "switch", "-q", "-c", f"task-{name}", "main")
    attempt = start_attempt(app, workflow, task)
    trailers = build_trailers(task, attempt.id, attempt.agent_id)
    commits = []
    for number, edit in enumerate(edits, 1):
        edit_lines(project, **edit)
        commits.append(commit_all(project, f"{name} {number}\n\nIt works.\n\n{trailers}"))
    agent = attempt.agent_id
    call_tool(
        app, "task_update_status", id=task, status="completed", outcome="Done.", agent_id=agent, caller=task
    )
    with app.database.transaction() as tx:
        AttemptStore(tx).save(attempt, end(attempt, tx.now))
    run_git(project, "switch", "-q", "main")
    return Made(app, project, workflow, task, attempt.id, agent, f"task-{name}", tuple(commits))


def end(attempt: Attempt, now: int) -> Attempt:
    from dataclasses import replace

    return replace(attempt, stage=AttemptStage.DONE, ended_at=now)


def verify(
    app: Application, project: Path, wanted: str, *, is_required: bool = False
) -> list[VerifiedCommit]:
    git = Git(project, environment=build_child_environment())
    return ProvenanceVerifier(app.database, git, StoredWork()).verify(wanted, is_required=is_required)


def list_verdicts(app: Application, project: Path, wanted: str, *, is_required: bool = False) -> list[str]:
    return [each.verdict.value for each in verify(app, project, wanted, is_required=is_required)]
