"""Storage of runs and attempts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from deepwork.delivery.runner.models import (
    Attempt,
    AttemptStage,
    AttemptWish,
    ParkedFor,
    Run,
    RunOptions,
    RunStatus,
)
from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.values import build_record


class RunStore:
    """Reads and writes runs."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, run: Run) -> bool:
        """Insert a new run; False if its plan has an open one."""
        return self._tx.insert_new("runner_runs", _run_to_row(run))

    def save(self, run: Run) -> None:
        """Store a changed run."""
        row = _run_to_row(run)
        self._tx.update("runner_runs", row.pop("id"), row)

    def find(self, id: str) -> Run | None:
        """Return the run with this id."""
        return _read_optional_run(self._tx.fetch_one("SELECT * FROM runner_runs WHERE id = :id", id=id))

    def get_for_update(self, id: str) -> Run:
        """Return the run, locked until the transaction ends; raises NotFound."""
        sql = f"SELECT * FROM runner_runs WHERE id = :id{self._tx.row_lock}"
        if run := _read_optional_run(self._tx.fetch_one(sql, id=id)):
            return run
        raise build_missing_run_error(id)

    def find_open_of_plan(self, workflow_id: str) -> Run | None:
        """Return the run of this plan that has not ended."""
        sql = "SELECT * FROM runner_runs WHERE workflow_id = :id AND ended_at IS NULL"
        return _read_optional_run(self._tx.fetch_one(sql, id=workflow_id))

    def find_last_of_plan(self, workflow_id: str) -> Run | None:
        """Return the open run of this plan, else the one that ended last."""
        sql = """
            SELECT * FROM runner_runs WHERE workflow_id = :id
             ORDER BY CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END, ended_at DESC, id LIMIT 1
        """
        return _read_optional_run(self._tx.fetch_one(sql, id=workflow_id))

    def find_last_of_job(self, job: str, goal: str, host: str) -> Run | None:
        """Return the newest run of this job with this goal that the host joined."""
        sql = """
            SELECT runner_runs.* FROM runner_runs JOIN runner_hosts ON runner_hosts.run_id = runner_runs.id
             WHERE job = :job AND goal = :goal AND host = :host ORDER BY created_at DESC, id DESC LIMIT 1
        """
        return _read_optional_run(self._tx.fetch_one(sql, job=job, goal=goal, host=host))

    def find_of_session(self, session_id: str) -> Run | None:
        """Return the run that works on this session of a job."""
        sql = """
            SELECT * FROM runner_runs WHERE session_id = :id ORDER BY created_at DESC, id DESC LIMIT 1
        """
        return _read_optional_run(self._tx.fetch_one(sql, id=session_id))

    def list_sessions(self) -> list[str]:
        """List the job sessions that runs work, or worked, on, in the order of the runs."""
        sql = """
            SELECT session_id FROM runner_runs WHERE session_id IS NOT NULL ORDER BY created_at, id
        """
        return [row["session_id"] for row in self._tx.fetch_all(sql)]

    def find_by_ids(self, ids: Iterable[str]) -> list[Run]:
        """Return these runs, the oldest first."""
        sql = "SELECT * FROM runner_runs WHERE id IN :ids ORDER BY created_at, id"
        return [_read_run(row) for row in self._tx.fetch_all(sql, ids=list(ids))]

    def list_page(
        self,
        *,
        is_current: bool | None = None,
        is_open: bool = False,
        workflow_id: str | None = None,
        after: tuple[int, str] | None = None,
        limit: int,
    ) -> tuple[list[Run], int]:
        """List runs after this time and id, the newest first, and the total of all pages.

        A run is current until it has ended and each of its attempts has.
        """
        conditions = {
            _IS_CURRENT: is_current or None,
            f"NOT {_IS_CURRENT}": True if is_current is False else None,
            "ended_at IS NULL": is_open or None,
            "workflow_id = :workflow": workflow_id,
        }
        rows, total = self._tx.list_newest("runner_runs", "*", conditions, after, limit, workflow=workflow_id)
        return [_read_run(row) for row in rows], total

    def sum_usage(self, run_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the tokens and the cost, in millionths of a dollar, of each of these runs.

        From the ledger: what was spent in a run stays there if an attempt of it continues in a later one.
        """
        sql = """
            SELECT run_id, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros FROM spending
             WHERE run_id IN :ids GROUP BY run_id
        """
        rows = self._tx.fetch_all(sql, ids=list(run_ids))
        return {row["run_id"]: (int(row["tokens"]), int(row["usd_micros"])) for row in rows}

    def sum_usd_micros(self, run_id: str) -> int:
        """Return what a run has cost."""
        sql = "SELECT coalesce(sum(usd_micros), 0) FROM spending WHERE run_id = :id"
        return int(self._tx.fetch_value(sql, id=run_id))

    def find_models(self, run_ids: Iterable[str]) -> dict[str, list[str]]:
        """Return the models that tokens of each of these runs were charged for."""
        sql = """
            SELECT DISTINCT run_id, model FROM spending
             WHERE run_id IN :ids AND model IS NOT NULL ORDER BY run_id, model
        """
        found: dict[str, list[str]] = {}
        for row in self._tx.fetch_all(sql, ids=list(run_ids)):
            found.setdefault(row["run_id"], []).append(row["model"])
        return found

    def adopt_open_attempts(self, run: Run) -> None:
        """Let attempts continue in this run that earlier runs of the same plan left open."""
        if run.workflow_id is not None:
            sql = "UPDATE attempts SET run_id = :run WHERE workflow_id = :plan AND ended_at IS NULL"
            self._tx.execute(sql, run=run.id, plan=run.workflow_id)

    def join(self, run_id: str, host: str, agents: int) -> None:
        """Let a host start this many agents for the run."""
        sql = """
            INSERT INTO runner_hosts (run_id, host, agents, joined_at) VALUES (:run, :host, :agents, :now)
                ON CONFLICT (run_id, host) DO UPDATE
               SET agents = excluded.agents, seen_at = excluded.joined_at
        """
        self._tx.execute(sql, run=run_id, host=host, agents=agents, now=self._tx.now)

    def join_for_work(self, run_id: str, host: str) -> None:
        """Let a host look after attempts of the run; unless it has joined already, it starts no tasks."""
        sql = """
            INSERT INTO runner_hosts (run_id, host, agents, joined_at) VALUES (:run, :host, 0, :now)
                ON CONFLICT (run_id, host) DO UPDATE SET seen_at = excluded.joined_at
        """
        self._tx.execute(sql, run=run_id, host=host, now=self._tx.now)

    def find_open_of_host(self, run_id: str, host: str) -> tuple[Run, int] | None:
        """Return a run that has not ended, with how many agents this host starts; None if it did not join."""
        sql = """
            SELECT runner_runs.*, runner_hosts.agents AS agents
              FROM runner_hosts JOIN runner_runs ON runner_runs.id = runner_hosts.run_id
             WHERE run_id = :id AND host = :host AND ended_at IS NULL
        """
        row = self._tx.fetch_one(sql, id=run_id, host=host)
        return None if row is None else (_read_run(row), row["agents"])

    def list_hosts(self, run_id: str) -> dict[str, int]:
        """Map the hosts of a run to their number of agents."""
        rows = self._tx.fetch_all(
            "SELECT host, agents FROM runner_hosts WHERE run_id = :id ORDER BY host", id=run_id
        )
        return {row["host"]: row["agents"] for row in rows}

    def set_agents(self, run_id: str, agents: int) -> int:
        """Set how many agents each host of the run starts that starts any; return how many hosts do."""
        sql = "UPDATE runner_hosts SET agents = :agents WHERE run_id = :id AND agents > 0"
        return self._tx.execute(sql, id=run_id, agents=agents)

    def map_agents(self, run_ids: Iterable[str]) -> dict[str, int]:
        """Return how many agents all hosts of each of these runs start together."""
        sql = "SELECT run_id, sum(agents) AS agents FROM runner_hosts WHERE run_id IN :ids GROUP BY run_id"
        return {row["run_id"]: int(row["agents"]) for row in self._tx.fetch_all(sql, ids=list(run_ids))}

    def record_seen(self, host: str, run_ids: Iterable[str]) -> None:
        """Store that a runner of this host looks after these runs now."""
        sql = "UPDATE runner_hosts SET seen_at = :now WHERE host = :host AND run_id IN :ids"
        self._tx.execute(sql, host=host, ids=list(run_ids), now=self._tx.now)

    def map_last_seen(self, run_id: str) -> dict[str, int]:
        """Map the hosts of a run to when a runner there was last seen."""
        sql = "SELECT host, coalesce(seen_at, joined_at) AS seen FROM runner_hosts WHERE run_id = :id"
        return {row["host"]: row["seen"] for row in self._tx.fetch_all(sql, id=run_id)}


class AttemptStore:
    """Reads and writes attempts."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, attempt: Attempt) -> None:
        """Insert a new attempt."""
        self._tx.insert("attempts", dict(vars(attempt)))

    def save(self, before: Attempt, after: Attempt) -> bool:
        """Store a changed attempt; False if its stage, its claim or its start is not what it was.

        So of two runners that decide about the same attempt one has no effect.
        """
        return self._tx.save_change("attempts", vars(before), vars(after), "stage", "claim_epoch", "starts")

    def find(self, id: str) -> Attempt | None:
        """Return the attempt with this id."""
        row = self._tx.fetch_one("SELECT * FROM attempts WHERE id = :id", id=id)
        return None if row is None else _read_attempt(row)

    def get_for_update(self, id: str) -> Attempt:
        """Return the attempt, locked until the transaction ends; raises NotFound."""
        row = self._tx.fetch_one(f"SELECT * FROM attempts WHERE id = :id{self._tx.row_lock}", id=id)
        return self.get(id) if row is None else _read_attempt(row)

    def find_by_ids(self, ids: Iterable[str]) -> dict[str, Attempt]:
        """Return the attempts with these ids, by id; those that do not exist are left out."""
        rows = self._tx.fetch_all("SELECT * FROM attempts WHERE id IN :ids ORDER BY id", ids=list(ids))
        return {row["id"]: _read_attempt(row) for row in rows}

    def list_work(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the profile and the task's name, or the step of a job, of these attempts, by id."""
        sql = """
            SELECT attempts.id, profile, COALESCE(plan_tasks.name, attempts.task_id) AS task FROM attempts
              LEFT JOIN plan_tasks ON plan_tasks.id = attempts.task_id WHERE attempts.id IN :ids
        """
        rows = self._tx.fetch_all(sql, ids=list(ids))
        return {row["id"]: (row["profile"], row["task"]) for row in rows}

    def get(self, id: str) -> Attempt:
        """Return the attempt with this id; raises NotFound."""
        if attempt := self.find(id):
            return attempt
        raise NotFound("attempt", id, suggestion="List them with `deepwork runs show RUN`.")

    def list_open_of_host(self, host: str) -> list[Attempt]:
        """List the attempts that this host has to look after, the oldest first."""
        sql = "SELECT * FROM attempts WHERE host = :host AND ended_at IS NULL ORDER BY created_at, id"
        return [_read_attempt(row) for row in self._tx.fetch_all(sql, host=host)]

    def list_ended(self, host: str, before: int) -> list[str]:
        """List the attempts on a host that ended before a moment, the oldest first."""
        sql = "SELECT id FROM attempts WHERE host = :host AND ended_at < :before ORDER BY ended_at, id"
        return [row["id"] for row in self._tx.fetch_all(sql, host=host, before=before)]

    def list_of_run(
        self, run_id: str, *, is_open: bool = False, stages: Collection[AttemptStage] | None = None
    ) -> list[Attempt]:
        """List the attempts of a run, the oldest first."""
        conditions = build_where(
            {"run_id = :run": run_id, "ended_at IS NULL": is_open or None, "stage IN :stages": stages}
        )
        sql = f"SELECT * FROM attempts {conditions} ORDER BY created_at, id"
        rows = self._tx.fetch_all(sql, run=run_id, stages=list(stages or ()))
        return [_read_attempt(row) for row in rows]

    def list_page(
        self,
        *,
        is_current: bool | None = None,
        stage: AttemptStage | None = None,
        run_id: str | None = None,
        workflow_id: str | None = None,
        task_id: str | None = None,
        after: tuple[int, str] | None = None,
        limit: int,
    ) -> tuple[list[Attempt], int]:
        """List attempts after this time and id, the newest first, and how many match in all."""
        conditions = {
            "ended_at IS NULL": is_current or None,
            "ended_at IS NOT NULL": True if is_current is False else None,
            "stage = :stage": stage,
            "run_id = :run": run_id,
            "workflow_id = :workflow": workflow_id,
            "task_id = :task": task_id,
        }
        values = {"stage": stage, "run": run_id, "workflow": workflow_id, "task": task_id}
        rows, total = self._tx.list_newest("attempts", "*", conditions, after, limit, **values)
        return [_read_attempt(row) for row in rows], total

    def list_open(self, limit: int) -> tuple[list[Attempt], int]:
        """List the attempts that have not ended, the oldest first, and how many there are."""
        rows, total = self._tx.list_first("*", "attempts WHERE ended_at IS NULL", "created_at, id", limit)
        return [_read_attempt(row) for row in rows], total

    def list_open_of_runs(self, run_ids: Iterable[str]) -> list[Attempt]:
        """List the attempts of these runs that have not ended, the oldest first."""
        sql = "SELECT * FROM attempts WHERE run_id IN :ids AND ended_at IS NULL ORDER BY created_at, id"
        return [_read_attempt(row) for row in self._tx.fetch_all(sql, ids=list(run_ids))]

    def list_open_of_plans(self, workflow_ids: Iterable[str]) -> list[Attempt]:
        """List the attempts at tasks of these plans that have not ended."""
        sql = "SELECT * FROM attempts WHERE workflow_id IN :ids AND ended_at IS NULL ORDER BY created_at, id"
        return [_read_attempt(row) for row in self._tx.fetch_all(sql, ids=list(workflow_ids))]

    def list_of_task(self, task_id: str) -> list[Attempt]:
        """List the attempts at a task, the oldest first."""
        rows = self._tx.fetch_all("SELECT * FROM attempts WHERE task_id = :id ORDER BY number", id=task_id)
        return [_read_attempt(row) for row in rows]

    def find_open_of_task(self, task_id: str) -> Attempt | None:
        """Return the attempt at a task that has not ended."""
        sql = "SELECT * FROM attempts WHERE task_id = :id AND ended_at IS NULL"
        row = self._tx.fetch_one(sql, id=task_id)
        return None if row is None else _read_attempt(row)

    def find_of_agent(self, agent_id: str) -> Attempt | None:
        """Return the attempt that this agent was registered for."""
        row = self._tx.fetch_one("SELECT * FROM attempts WHERE agent_id = :id", id=agent_id)
        return None if row is None else _read_attempt(row)

    def has_open_of_plan(self, workflow_id: str) -> bool:
        """Return whether an attempt of the plan has not ended, such as one that waited for an approval."""
        sql = "SELECT 1 AS found FROM attempts WHERE workflow_id = :id AND ended_at IS NULL LIMIT 1"
        return self._tx.fetch_one(sql, id=workflow_id) is not None

    def has_worked_on_plan(self, agent_id: str, workflow_id: str) -> bool:
        """Return whether an agent holds a task of this plan, or an attempt at one was its own."""
        sql = """
            SELECT 1 AS found FROM plan_tasks WHERE workflow_id = :plan AND claimed_by = :agent
            UNION ALL SELECT 1 AS found FROM attempts WHERE workflow_id = :plan AND agent_id = :agent LIMIT 1
        """
        return self._tx.fetch_one(sql, plan=workflow_id, agent=agent_id) is not None

    def count_of_tasks(self, task_ids: Iterable[str]) -> dict[str, int]:
        """Count the attempts at each of these tasks; those without one are left out."""
        sql = "SELECT task_id, count(*) AS count FROM attempts WHERE task_id IN :ids GROUP BY task_id"
        return {row["task_id"]: row["count"] for row in self._tx.fetch_all(sql, ids=list(task_ids))}

    def forget_failures(self, task_id: str) -> None:
        """Let failed attempts at a task no longer count, because a person let it begin again."""
        self._tx.execute(
            "UPDATE attempts SET exhausted = 1 WHERE task_id = :id AND ended_at IS NOT NULL", id=task_id
        )

    def count_at_limit(self, vendor: str, profile: str, host: str) -> tuple[int, int]:
        """Count the open attempts here that wait at the vendor's limit, and those that it has not answered.

        Every agent with the same account meets the same limit; `is_limit_sure` says when none needs to try.
        """
        sql = """
            SELECT sum(CASE WHEN stage = 'parked' AND parked_for = 'limit' AND not_before > :now
                            THEN 1 ELSE 0 END) AS waiting,
                   sum(CASE WHEN stage IN ('claimed', 'preparing', 'running')
                             AND input_tokens + cached_tokens + output_tokens = 0
                            THEN 1 ELSE 0 END) AS unanswered
              FROM attempts
             WHERE ended_at IS NULL AND vendor = :vendor AND profile = :profile AND host = :host
        """
        row = self._tx.fetch_one(sql, vendor=vendor, profile=profile, host=host, now=self._tx.now)
        return (int(row["waiting"] or 0), int(row["unanswered"] or 0)) if row else (0, 0)

    def list_at_limits(self) -> list[Attempt]:
        """List the open attempts that wait at a vendor's limit, those that continue first first."""
        sql = """
            SELECT * FROM attempts WHERE ended_at IS NULL AND stage = 'parked' AND parked_for = 'limit'
             ORDER BY not_before, id
        """
        return [_read_attempt(row) for row in self._tx.fetch_all(sql)]

    def list_of_tasks(self, task_ids: Iterable[str]) -> list[Attempt]:
        """List the attempts at these tasks, the oldest of each task first."""
        sql = "SELECT * FROM attempts WHERE task_id IN :ids ORDER BY task_id, number"
        return [_read_attempt(row) for row in self._tx.fetch_all(sql, ids=list(task_ids))]

    def sum_of_finished(self, workflow_id: str) -> list[Row]:
        """Sum up what each completed task of a plan took that agents of runs worked on."""
        sql = """
            SELECT task.id, task.started_at, task.finished_at,
                   sum(attempts.usd_micros) AS usd_micros,
                   sum(CASE WHEN usd_source IS NULL AND input_tokens + cached_tokens + output_tokens > 0
                            THEN 1 ELSE 0 END) AS unpriced
              FROM plan_tasks AS task JOIN attempts ON attempts.task_id = task.id
             WHERE task.workflow_id = :id AND task.status = 'completed'
             GROUP BY task.id, task.started_at, task.finished_at
        """
        return self._tx.fetch_all(sql, id=workflow_id)

    def sum_of_open(self, workflow_id: str) -> int:
        """Return the millionths of a dollar that attempts at tasks of a plan cost which are not done."""
        sql = """
            SELECT coalesce(sum(attempts.usd_micros), 0) FROM plan_tasks AS task
              JOIN attempts ON attempts.task_id = task.id
             WHERE task.workflow_id = :id AND task.status NOT IN ('completed', 'skipped')
        """
        return int(self._tx.fetch_value(sql, id=workflow_id))

    def count_working(self, run_id: str, host: str) -> int:
        """Count the attempts of a run on this host that go on without a person; `is_working` is the rule."""
        sql = """
            SELECT count(*) FROM attempts
             WHERE run_id = :run AND host = :host AND ended_at IS NULL AND stage <> 'reviewing'
               AND (stage <> 'parked' OR parked_for = 'limit')
        """
        return int(self._tx.fetch_value(sql, run=run_id, host=host))

    def sum_of_task(self, task_id: str) -> tuple[int, int]:
        """Return the tokens and the millionths of a dollar that all attempts at a task used."""
        sql = """
            SELECT coalesce(sum(input_tokens + cached_tokens + output_tokens), 0) AS tokens,
                   coalesce(sum(usd_micros), 0) AS usd_micros FROM attempts WHERE task_id = :id
        """
        row = self._tx.fetch_one(sql, id=task_id)
        return (int(row["tokens"]), int(row["usd_micros"])) if row else (0, 0)


def build_missing_run_error(id: str) -> NotFound:
    """Build the error for a run that does not exist."""
    return NotFound("run", id, suggestion="List the runs with `deepwork runs list`.")


_IS_CURRENT = """(ended_at IS NULL OR EXISTS (
    SELECT 1 FROM attempts WHERE attempts.run_id = runner_runs.id AND attempts.ended_at IS NULL))"""
_RUN_NAMES = tuple(field.name for field in fields(Run) if field.name != "options")
_ATTEMPT_NAMES = tuple(field.name for field in fields(Attempt))


def _run_to_row(run: Run) -> dict[str, Any]:
    row = {name: getattr(run, name) for name in _RUN_NAMES}
    return row | {"chain": json.dumps(run.chain), "settings": json.dumps(asdict(run.options))}


@row_parser
def _read_run(row: Row) -> Run:
    values = {name: row[name] for name in _RUN_NAMES}
    chain = tuple(json.loads(values.pop("chain")))
    options = RunOptions(**_select_known(RunOptions, json.loads(row["settings"])))
    return Run(**{**values, "status": RunStatus(row["status"])}, chain=chain, options=options)


def _read_optional_run(row: Row | None) -> Run | None:
    return None if row is None else _read_run(row)


@row_parser
def _read_attempt(row: Row) -> Attempt:
    values = {name: row[name] for name in _ATTEMPT_NAMES}
    parked_for = None if row["parked_for"] is None else ParkedFor(row["parked_for"])
    wish = None if row["wish"] is None else AttemptWish(row["wish"])
    stage = AttemptStage(row["stage"])
    return build_record(Attempt, {**values, "stage": stage, "parked_for": parked_for, "wish": wish})


def _select_known(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that this version knows: a newer one may have stored more."""
    known = {field.name for field in fields(kind)}
    return {name: value for name, value in given.items() if name in known}
