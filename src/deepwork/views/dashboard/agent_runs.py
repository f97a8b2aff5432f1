"""REST endpoints for runs of agents that deepwork starts, and their attempts.

Elsewhere in the dashboard a run is a plan, a tracked workflow or a job session; here that is the `workflow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run
from deepwork.delivery.runner.responses import AttemptView, RunView, describe_attempt, describe_run
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.kernel.offered_actions import Act
from deepwork.views.dashboard import offered_actions
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    NoParameters,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.overview.attempt_list_store import AttemptListStore
from deepwork.views.overview.run_refs import find_run_refs
from deepwork.views.overview.states.models import Standing
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.task_names import find_task_names
from deepwork.work.tracking.list_responses import RunRef

MAX_ATTEMPTS = 500


class AttemptLine(AttemptView):
    """An attempt, with its state and the names of its task and workflow."""

    state: str
    because: str | None = None
    next: str | None = None

    task_name: str
    workflow: RunRef | None = None
    tokens: int


class AgentRun(RunView):
    """A run of agents. In a list, `attempts` are those that have not ended."""

    state: str
    because: str | None = None
    next: str | None = None
    workflow: RunRef | None = None
    tokens: int
    attempts_total: int | None = None
    attempts: list[AttemptLine]  # type: ignore[assignment]
    hosts: dict[str, int] | None = None
    actions: list[Act]


class AgentRuns(PagedAnswer):
    runs: list[AgentRun]


class AgentRunsQuery(PageQuery):
    state: Literal["current", "ended"] | None = Field(
        default=None, description="`current`: has not ended, or has attempts that have not"
    )
    workflow_id: str | None = Field(default=None, description="Of this plan")


class Attempts(PagedAnswer):
    attempts: list[AttemptLine]


class AttemptsQuery(PageQuery):
    state: Literal["current", "ended"] | None = Field(default=None, description="`current`: has not ended")
    stage: AttemptStage | None = None
    run_id: str | None = Field(default=None, description="Of this run of agents")
    workflow_id: str | None = Field(default=None, description="Of this plan")
    task_id: str | None = Field(default=None, description="At this task")


def read_agent_runs(context: ReadContext, query: AgentRunsQuery) -> AgentRuns:
    """Read runs of agents, newest first, with the attempts that have not ended."""
    tx = context.tx
    after = tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None
    found, total = RunStore(tx).list_page(
        is_current=None if query.state is None else query.state == "current",
        workflow_id=query.workflow_id,
        after=after,
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    attempts = AttemptStore(tx).list_open_of_runs([run.id for run in page]) if page else []
    return AgentRuns(runs=_build_runs(context.states, page, attempts), total=total, cursor=cursor)


def read_agent_run(context: ReadContext, _: NoParameters) -> AgentRun:
    """Read one run of agents with its newest attempts, the oldest of them first."""
    tx, run = context.tx, RunStore(context.tx).find(context.id)
    if run is None:
        raise build_missing_run_error(context.id)
    attempts = AttemptStore(tx).list_of_run(run.id)
    [line] = _build_runs(context.states, [run], attempts[-MAX_ATTEMPTS:])
    return line.model_copy({"attempts_total": len(attempts), "hosts": RunStore(tx).list_hosts(run.id)})


def read_attempt(context: ReadContext, _: NoParameters) -> AttemptLine:
    """Read one attempt."""
    [line] = build_attempt_lines(context.states, [AttemptStore(context.tx).get(context.id)])
    return line


def read_attempts(context: ReadContext, query: AttemptsQuery) -> Attempts:
    """Read attempts, the newest first."""
    found, total = AttemptListStore(context.tx).list_page(
        is_current=None if query.state is None else query.state == "current",
        stage=query.stage,
        run_id=query.run_id,
        workflow_id=query.workflow_id,
        task_id=query.task_id,
        after=tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None,
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    return Attempts(attempts=build_attempt_lines(context.states, page), total=total, cursor=cursor)


def list_attempts_of_task(view: StateView, task_id: str) -> list[AttemptLine]:
    """List the attempts at a task, the oldest first."""
    return build_attempt_lines(view, AttemptStore(view.tx).list_of_task(task_id)[-MAX_ATTEMPTS:])


def build_attempt_lines(view: StateView, attempts: Sequence[Attempt]) -> list[AttemptLine]:
    """Build attempts with their states and the names of what they work on."""
    names = find_task_names(view.tx, (each.task_id for each in attempts))
    workflows = find_run_refs(view.tx, {_get_workflow_id(each) for each in attempts})
    states = view.judge_attempts(attempts)
    return [_build_attempt_line(each, states[each.id], names, workflows) for each in attempts]


def _build_attempt_line(
    attempt: Attempt, standing: Standing, names: Mapping[str, str], workflows: Mapping[str, RunRef]
) -> AttemptLine:
    return AttemptLine(
        **vars(describe_attempt(attempt)) | standing.to_answer(),
        task_name=names.get(attempt.task_id, attempt.task_id),
        workflow=workflows.get(_get_workflow_id(attempt)),
        tokens=attempt.tokens,
    )


def _get_workflow_id(attempt: Attempt) -> str:
    """Return the plan of a task, or the session of a job's step."""
    return attempt.workflow_id or attempt.task_id.partition("/")[0]


def _build_runs(view: StateView, runs: Sequence[Run], attempts: Iterable[Attempt]) -> list[AgentRun]:
    tx, states = view.tx, view.judge_runs(runs)
    usage = RunStore(tx).sum_usage([run.id for run in runs]) if runs else {}
    workflows = find_run_refs(tx, {id for run in runs if (id := run.workflow_id or run.session_id)})
    lines: dict[str, list[AttemptLine]] = {run.id: [] for run in runs}
    for line in build_attempt_lines(view, list(attempts)):
        lines[line.run_id].append(line)
    return [
        _build_run(run, states[run.id], usage.get(run.id, (0, 0)), workflows, lines[run.id]) for run in runs
    ]


def _build_run(
    run: Run,
    standing: Standing,
    usage: tuple[int, int],
    workflows: Mapping[str, RunRef],
    attempts: list[AttemptLine],
) -> AgentRun:
    tokens, usd_micros = usage
    values = vars(describe_run(run, usd_micros=usd_micros))
    return AgentRun(
        **values
        | standing.to_answer()
        | {
            "attempts": attempts,
            "workflow": workflows.get(run.workflow_id or run.session_id or ""),
            "tokens": tokens,
            "actions": offered_actions.list_run_actions(run.id, run.status),
        }
    )


ENDPOINTS = (
    Endpoint(
        "/api/v1/runner/runs",
        "Runs of agents that deepwork starts, newest first.",
        AgentRunsQuery,
        AgentRuns,
        read_agent_runs,
    ),
    Endpoint(
        "/api/v1/runner/runs/{id}",
        "One run of agents, with its attempts.",
        NoParameters,
        AgentRun,
        read_agent_run,
    ),
    Endpoint(
        "/api/v1/runner/attempts",
        "What agents did for which task, newest first.",
        AttemptsQuery,
        Attempts,
        read_attempts,
    ),
    Endpoint(
        "/api/v1/runner/attempts/{id}",
        "One agent's work on one task.",
        NoParameters,
        AttemptLine,
        read_attempt,
    ),
)
