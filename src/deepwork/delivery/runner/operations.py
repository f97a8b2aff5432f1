"""What people read about runs of agents and their attempts, and do: pause, resume and stop a run.

The operations store what a person wants; the process that drives the run carries it out. Elsewhere a run is
also a plan, a tracked workflow or a job session; here that is the `workflow` of a run.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

from deepwork.delivery.runner.attempt_files import AttemptFiles, read_tail
from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunStatus
from deepwork.delivery.runner.responses import (
    AgentRun,
    AgentRuns,
    AttemptLine,
    AttemptOutput,
    Attempts,
    RunView,
    SessionTree,
    SessionTrees,
    VendorWindow,
    VendorWindows,
    WorkRef,
    describe_activity,
    describe_run,
    offer_run_actions,
)
from deepwork.delivery.runner.rules import PERSON_MOVES, explain_absence
from deepwork.delivery.runner.service import AllowParallelTasks, RunService
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.kernel.answers import Field, Id
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.foreign_text import escape_controls
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position
from deepwork.kernel.states import Standing
from deepwork.kernel.values import format_optional_timestamp
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_ATTEMPTS = 500
_MAX_AGENTS = 1000
_MAX_OUTPUT_BYTES = 256 * 1024
_OfPlan = Annotated[str | None, Field(description="Of this plan")]


class RunStates(Protocol):
    """Judges runs and attempts in one transaction."""

    def judge_runs(self, runs: Sequence[Run], /) -> Mapping[str, Standing]: ...
    def judge_attempts(self, attempts: Sequence[Attempt], /) -> Mapping[str, Standing]: ...


NameWork = Callable[[Transaction, Collection[str]], Mapping[str, tuple[str, str]]]
"""Returns kind and name of plans and job sessions, by their ids."""
FindTree = Callable[[Database, str], Path | None]
"""Returns the worktree in which a run of this machine works on a job session."""


class RunOperations:
    """What people read and decide about runs of agents."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(
        self,
        database: Database,
        state_folder: Path | None,
        view_states: Callable[[Transaction], RunStates],
        name_work: NameWork,
        find_tree: FindTree,
        allow_parallel_tasks: AllowParallelTasks,
    ) -> None:
        """`state_folder` has the output of agents; None if it is not on this machine."""
        self._database, self._state_folder = database, state_folder
        self._view_states, self._name_work, self._find_tree = view_states, name_work, find_tree
        self._allow_parallel_tasks = allow_parallel_tasks

    # Decisions

    @operation("work", for_people=True)
    def pause_run(self, run_id: Id) -> RunView:
        """Start no more agents; those that work finish what they do."""
        return self._move(run_id, RunStatus.PAUSED, "Paused")

    @operation("work", for_people=True)
    def resume_run(self, run_id: Id) -> RunView:
        """Start agents again in a run that was paused or is stopping."""
        return self._move(run_id, RunStatus.ACTIVE, None)

    @operation("work", for_people=True)
    def stop_run(
        self, run_id: Id, now: Annotated[bool, Field(description="End the agents that work")] = False
    ) -> RunView:
        """Start no more agents, and end the run when those that work have finished."""
        return self._move(run_id, RunStatus.ENDING if now else RunStatus.STOPPING, "Stopped")

    @operation("work", for_people=True)
    def set_run(
        self,
        run_id: Id,
        max_usd: Annotated[float | None, Field(gt=0, description="What it may cost in all")] = None,
        agents: Annotated[
            int | None, Field(ge=1, le=_MAX_AGENTS, description="How many each of its machines starts")
        ] = None,
    ) -> RunView:
        """Change the limits of a run: its agents; its dollars, which also continue one that used them up."""
        if max_usd is None and agents is None:
            raise InvalidInput("Give a new limit: `max_usd` or `agents`.")
        service = RunService(self._database)
        with self._database.transaction() as tx, join_transaction(tx):
            changed = None if max_usd is None else service.set_max_usd(run_id, max_usd)
            if agents is not None:
                changed = service.set_agents(run_id, agents, self._allow_parallel_tasks)
            assert changed is not None, "one of them was given"
            return describe_run(changed)

    def _move(self, id: str, status: RunStatus, verb: str | None) -> RunView:
        with self._database.transaction() as tx:
            run = RunStore(tx).get_for_update(id)
            _require_possible(run, status)
            reason = f"{verb} by {tx.caller}." if verb else None
            return describe_run(RunService(self._database).set_status(id, status, reason))

    # Reading

    @operation("read")
    def list_runs(
        self,
        state: Annotated[
            Literal["current", "ended"] | None,
            Field(description="`current`: has not ended, or has attempts that have not"),
        ] = None,
        open: Annotated[bool, Field(description="Only those that have not ended")] = False,
        workflow_id: _OfPlan = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> AgentRuns:
        """Runs of agents that deepwork starts, newest first, with the attempts that have not ended."""
        with self._database.reading() as tx:
            found, total = RunStore(tx).list_page(
                is_current=None if state is None else state == "current",
                is_open=open,
                workflow_id=workflow_id,
                after=parse_position(cursor),
                limit=limit + 1,
            )
            page, next_cursor = cut_page(found, limit)
            attempts = AttemptStore(tx).list_open_of_runs([run.id for run in page]) if page else []
            runs = self._view_lines(tx).build_runs(page, attempts)
            return AgentRuns(runs=runs, total=total, cursor=next_cursor)

    @operation("read")
    def get_run(self, id: Id) -> AgentRun:
        """One run of agents, with its newest attempts, the oldest of them first."""
        with self._database.reading() as tx:
            run = RunStore(tx).find(id)
            if run is None:
                raise build_missing_run_error(id)
            attempts = AttemptStore(tx).list_of_run(run.id)
            [line] = self._view_lines(tx).build_runs([run], attempts[-_MAX_ATTEMPTS:])
            hosts = RunStore(tx).list_hosts(run.id)
            return line.model_copy({"attempts_total": len(attempts), "hosts": hosts})

    @operation("read")
    def find_session_tree(self, session_id: Id) -> SessionTree:
        """The worktree of this machine in which a run works on a job session."""
        tree = self._find_tree(self._database, session_id)
        return SessionTree(tree=None if tree is None else str(tree))

    @operation("read")
    def list_session_trees(self) -> SessionTrees:
        """The worktrees of this machine in which runs work, or worked, on job sessions."""
        with self._database.reading() as tx:
            ids = RunStore(tx).list_sessions()
        trees = dict.fromkeys(self._find_tree(self._database, id) for id in ids)
        return SessionTrees(trees=[str(tree) for tree in trees if tree is not None])

    @operation("read")
    def list_attempts(
        self,
        state: Annotated[
            Literal["current", "ended"] | None, Field(description="`current`: has not ended")
        ] = None,
        stage: AttemptStage | None = None,
        run_id: Annotated[str | None, Field(description="Of this run of agents")] = None,
        workflow_id: _OfPlan = None,
        task_id: Annotated[str | None, Field(description="At this task")] = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Attempts:
        """What agents did for which task, newest first."""
        with self._database.reading() as tx:
            found, total = AttemptStore(tx).list_page(
                is_current=None if state is None else state == "current",
                stage=stage,
                run_id=run_id,
                workflow_id=workflow_id,
                task_id=task_id,
                after=parse_position(cursor),
                limit=limit + 1,
            )
            page, next_cursor = cut_page(found, limit)
            lines = self._view_lines(tx).build_attempts(page)
            return Attempts(attempts=lines, total=total, cursor=next_cursor)

    @operation("read")
    def list_limits(self) -> VendorWindows:
        """The usage limits of vendors at which agents wait, and when they end."""
        with self._database.reading() as tx:
            waiting = AttemptStore(tx).list_at_limits()
        grouped: dict[tuple[str, str, str], list[Attempt]] = {}
        for each in waiting:
            grouped.setdefault((each.vendor, each.profile, each.host), []).append(each)
        return VendorWindows(windows=[describe_window(attempts) for attempts in grouped.values()])

    @operation("read")
    def get_attempt(self, id: Id) -> AttemptLine:
        """One agent's work on one task."""
        with self._database.reading() as tx:
            [line] = self._view_lines(tx).build_attempts([AttemptStore(tx).get(id)])
            return line

    # It needs more than reading: it may contain anything that the agent read, such as files and secrets.
    @operation("work", read_only=True)
    def get_attempt_output(
        self,
        id: Id,
        stream: Literal["stdout", "stderr"] = "stdout",
        start: Annotated[
            int | None, Field(ge=1, description="Of this start; the last one if not given")
        ] = None,
        max_bytes: Annotated[int, Field(ge=1, le=_MAX_OUTPUT_BYTES)] = 64 * 1024,
    ) -> AttemptOutput:
        """The end of what an agent wrote. Needs the scope work."""
        with self._database.reading() as tx:
            attempt = AttemptStore(tx).get(id)
        start = start or attempt.starts
        if start > attempt.starts:
            raise InvalidInput(
                f"Attempt {attempt.id} has {attempt.starts} starts.",
                suggestion="Leave `start` out for the last.",
            )
        path = self._locate_output(attempt, start, stream)
        size = _measure(path) if path else None
        text = "" if path is None or size is None else escape_controls(read_tail(path, max_bytes))
        reason = None if size is not None else explain_absence(attempt)
        return AttemptOutput(
            attempt_id=attempt.id, start=start, stream=stream, text=text, size=size, reason=reason
        )

    def _locate_output(self, attempt: Attempt, start: int, stream: str) -> Path | None:
        if self._state_folder is None or start == 0:
            return None
        files = AttemptFiles.locate(self._state_folder, attempt.id, start)
        return files.stdout if stream == "stdout" else files.stderr

    def _view_lines(self, tx: Transaction) -> RunLines:
        return RunLines(tx, self._view_states(tx), self._name_work)


class RunLines:
    """Builds runs and attempts with their states and the names of what they work on."""

    def __init__(self, tx: Transaction, states: RunStates, name_work: NameWork) -> None:
        self._tx, self._states, self._name_work = tx, states, name_work

    def list_attempts_of_task(self, task_id: str) -> list[AttemptLine]:
        """List the newest attempts at a task, the oldest of them first."""
        return self.build_attempts(AttemptStore(self._tx).list_of_task(task_id)[-_MAX_ATTEMPTS:])

    def build_attempts(self, attempts: Sequence[Attempt]) -> list[AttemptLine]:
        """Build attempts in the same order."""
        names = TaskStore(self._tx).map_names({each.task_id for each in attempts})
        works = self._find_works({_get_work_id(each) for each in attempts})
        states = self._states.judge_attempts(attempts)
        return [
            AttemptLine.of(
                each,
                **states[each.id].to_answer(),
                **describe_activity(each),
                task_name=names.get(each.task_id) or each.task_id.rpartition("/")[2],
                workflow=works.get(_get_work_id(each)),
            )
            for each in attempts
        ]

    def build_runs(self, runs: Sequence[Run], attempts: Iterable[Attempt]) -> list[AgentRun]:
        """Build runs in the same order, with these of their attempts."""
        store, ids = RunStore(self._tx), [run.id for run in runs]
        states, usage, models = self._states.judge_runs(runs), store.sum_usage(ids), store.find_models(ids)
        works = self._find_works({id for run in runs if (id := run.workflow_id or run.session_id)})
        lines: dict[str, list[AttemptLine]] = {id: [] for id in ids}
        for line in self.build_attempts(list(attempts)):
            lines[line.run_id].append(line)
        built = []
        for run in runs:
            tokens, usd_micros = usage.get(run.id, (0, 0))
            values = {
                **vars(describe_run(run, usd_micros=usd_micros)),
                **states[run.id].to_answer(),
                "attempts": lines[run.id],
                "workflow": works.get(run.workflow_id or run.session_id or ""),
                "tokens": tokens,
                "models": models.get(run.id, []),
                "actions": offer_run_actions(run, usd_micros),
            }
            built.append(AgentRun(**values))
        return built

    def _find_works(self, ids: Collection[str]) -> dict[str, WorkRef]:
        found = self._name_work(self._tx, ids).items()
        return {id: WorkRef(id=id, kind=kind, name=name) for id, (kind, name) in found}


def describe_window(waiting: Sequence[Attempt]) -> VendorWindow:
    """Describe the limit that these attempts wait at; the first of them continues first."""
    first = waiting[0]
    limits = [limit for each in waiting if (limit := StreamState.from_json(each.stream_state).limit)]
    ends = [limit.resets_at for limit in limits if limit.resets_at is not None]
    return VendorWindow.of(
        first,
        waiting=len(waiting),
        ends_at=format_optional_timestamp(max(ends, default=None)),
        next_try_at=format_optional_timestamp(first.not_before),
        scope=next((limit.scope for limit in limits if limit.scope), None),
    )


def _get_work_id(attempt: Attempt) -> str:
    """Return the plan of a task, or the session of a job's step."""
    return attempt.workflow_id or attempt.task_id.partition("/")[0]


def _require_possible(run: Run, status: RunStatus) -> None:
    """Raise if this cannot be made of the run; `set_status` refuses a run that has ended."""
    is_open = not run.status.is_final
    if is_open and status is not run.status and status not in PERSON_MOVES.get(run.status, ()):
        raise NotAllowed(
            f"Run {run.id} is {run.status}.", suggestion="Wait until it has ended, then start another one."
        )


def _measure(path: Path) -> int | None:
    """Return the size of a file; None if there is none: an agent could put a link or a pipe in its place."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
