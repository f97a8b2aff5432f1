"""A Hypothesis state machine that runs all plan operations in any order, with crashes and clock jumps.

After every step the whole plan is checked: claims, dependencies, offered tasks and counts.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from application import LEASE_MS, Clock, call_tool, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DeepworkError
from deepwork.work.plans.models import Node, TaskStatus
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from plans.graph_oracle import OracleGraph

NAMES = [f"task {number}" for number in range(12)]
REASONS = {"claimed", "blocked", "limit", "workflow", "files", "offline", "attempts"}
EXPECTED = {
    "INVALID_STATE", "INVALID_TRANSITION", "TASK_BLOCKED", "MISSING_OUTCOME", "MISSING_ERROR", "NOT_CLAIMED",
    "NOT_ASSIGNED", "STALE_CLAIM", "DUPLICATE_TASK_NAME", "UNKNOWN_DEPENDENCY", "SELF_DEPENDENCY",
    "CIRCULAR_DEPENDENCY", "TASK_NOT_FOUND",
}  # fmt: skip
"""Errors that operations in random order may cause; any other error is a bug."""

picks = st.integers(0, 1_000)
outlines = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES)},
        optional={
            "sequence": st.integers(1, 3),
            "depends_on": st.lists(st.sampled_from(NAMES), max_size=2),
            "parallel_group": st.sampled_from(["g", "h"]),
            "files_likely_affected": st.lists(
                st.sampled_from(["src/a.py", "src/**", "docs/*.md"]), max_size=1
            ),
        },
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda outline: outline["name"],
)


class PlanMachine(RuleBasedStateMachine):
    """One workflow and a few agents that call any tool at any time."""

    def new_location(self, folder: Path) -> str:
        """Return the location of this run's store."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="deepwork-machine-")
        self.location = self.new_location(Path(self.folder.name))
        self.clock = Clock()
        self.app = self._open()
        self.agents: list[str] = []
        self.epochs: dict[tuple[str, str], int] = {}
        self.keys = 0

    def teardown(self) -> None:
        self.app.close()
        self.folder.cleanup()

    # Operations

    @initialize(
        tasks=outlines, parallel=st.integers(1, 3), mode=st.sampled_from(["warn", "refuse", "ignore"])
    )
    def plan(self, tasks: list[dict[str, Any]], parallel: int, mode: str) -> None:
        made = call_tool(
            self.app, "workflow_create", name="any", source_type="prompt", source_content="x",
            max_parallel_tasks=parallel,
        )  # fmt: skip
        self.workflow_id = made["id"]
        sensible = [{**task, "depends_on": _list_earlier(task, tasks[:place])} if "depends_on" in task else task
                    for place, task in enumerate(tasks)]  # fmt: skip
        if (
            self._call("workflow_set_plan", id=self.workflow_id, plan={"summary": "s", "tasks": sensible})
            is None
        ):
            plain = [{"name": task["name"]} for task in tasks]
            call_tool(
                self.app, "workflow_set_plan", id=self.workflow_id, plan={"summary": "s", "tasks": plain}
            )
        call_tool(
            self.app,
            "workflow_set_parallelism",
            id=self.workflow_id,
            max_parallel_tasks=parallel,
            file_conflicts=mode,
        )
        self.register()

    @rule()
    @precondition(lambda self: len(self.agents) < 3)
    def register(self) -> None:
        self.agents.append(call_tool(self.app, "agent_register", name="a", runtime="custom")["id"])

    @rule(task=picks, agent=picks)
    def claim(self, task: int, agent: int) -> None:
        node, agent_id = self._pick_node(task), self._pick_agent(agent)
        was_blocked = self._load_graph().is_blocked(node)
        holder = self._load_live_holders().get(node.id)

        answer = self._call("task_claim", task_id=node.id, agent_id=agent_id)

        if answer is None:
            return
        if answer["success"]:
            assert holder in (None, agent_id), "two agents hold the same task"
            assert holder or not was_blocked, "a blocked task was claimed"
            self.epochs[node.id, agent_id] = answer["claim_epoch"]
        else:
            assert answer["reason"] in REASONS

    @rule(task=picks, agent=picks)
    def release(self, task: int, agent: int) -> None:
        self._call(
            "task_release",
            task_id=self._pick_node(task).id,
            agent_id=self._pick_agent(agent),
            reason="because",
        )

    @rule(
        task=picks, agent=picks, status=st.sampled_from(list(TaskStatus)),
        speaks=st.sampled_from(["anonymous", "by name", "by epoch"]),
    )  # fmt: skip
    def report(self, task: int, agent: int, status: TaskStatus, speaks: str) -> None:
        node, agent_id = self._pick_node(task), self._pick_agent(agent)
        was_blocked = self._load_graph().is_blocked(node)
        holder = self._load_live_holders().get(node.id)
        given: dict[str, Any] = {
            "id": node.id,
            "status": status,
            "outcome": "it is done",
            "error": "it broke",
        }
        if speaks != "anonymous":
            given["agent_id"] = agent_id
        epoch = self.epochs.get((node.id, agent_id))
        if speaks == "by epoch" and epoch is not None:
            given["claim_epoch"] = epoch

        answer = self._call("task_update_status", **given)

        if answer is None or node.status is status:
            return
        if node.status.can_start and status not in (TaskStatus.SKIPPED, TaskStatus.PENDING):
            assert not was_blocked, "a blocked task was started"
        if speaks != "anonymous" and epoch is not None and holder is not None:
            assert holder == agent_id, "a stale holder changed a task that another holds"

    @rule(task=picks, agent=picks)
    def set_plan(self, task: int, agent: int) -> None:
        self._call(
            "task_set_plan",
            id=self._pick_node(task).id,
            plan={"steps": ["one"]},
            agent_id=self._pick_agent(agent),
        )

    @rule(task=picks, named=st.booleans(), agent=picks)
    def replan(self, task: int, named: bool, agent: int) -> None:
        who = {"agent_id": self._pick_agent(agent)} if named else {}
        self._call(
            "task_replan", id=self._pick_node(task).id, reason="new", new_plan={"steps": ["two"]}, **who
        )

    @rule(task=picks)
    def note(self, task: int) -> None:
        self._call("checkpoint_add", task_id=self._pick_node(task).id, type="progress", summary="some words")

    @rule(name=st.sampled_from(NAMES), after=st.none() | picks, sequence=st.integers(1, 3))
    def add_task(self, name: str, after: int | None, sequence: int) -> None:
        waits = {} if after is None else {"after": [self._pick_node(after).id]}
        task = {"name": name, "sequence": sequence}
        self._call("workflow_add_task", workflow_id=self.workflow_id, task=task, **waits)

    @rule(task=picks)
    def remove_task(self, task: int) -> None:
        self._call("workflow_remove_task", workflow_id=self.workflow_id, task_id=self._pick_node(task).id)

    @rule(tasks=outlines)
    def replan_all(self, tasks: list[dict[str, Any]]) -> None:
        self._call("workflow_replan", workflow_id=self.workflow_id, reason="all new", tasks=tasks)

    @rule(status=st.sampled_from(["paused", "in_progress", "failed", "completed"]), force=st.booleans())
    def move_workflow(self, status: str, force: bool) -> None:
        self._call("workflow_update_status", id=self.workflow_id, status=status, reason="why", force=force)

    @rule(agent=picks, task=picks)
    def heartbeat(self, agent: int, task: int) -> None:
        self._call(
            "agent_heartbeat", agent_id=self._pick_agent(agent), current_task_id=self._pick_node(task).id
        )

    @rule(agent=picks)
    @precondition(lambda self: len(self.agents) > 1)
    def unregister(self, agent: int) -> None:
        gone = self._pick_agent(agent)
        self._call("agent_unregister", id=gone)
        self.agents.remove(gone)

    @rule(share=st.sampled_from([0.3, 0.9, 1.1, 3]))
    def let_time_pass(self, share: float) -> None:
        self.clock.advance(seconds=share * LEASE_MS / 1000)

    @rule()
    def crash_and_reopen(self) -> None:
        self.app.close()
        self.app = self._open()

    # Invariants

    @invariant()
    @precondition(lambda self: hasattr(self, "workflow_id"))
    def check_plan(self) -> None:
        with self.app.database.reading() as tx:
            workflow = PlanStore(tx).get(self.workflow_id)
            nodes = TaskStore(tx).list_nodes(self.workflow_id)
            rows = tx.fetch_all(
                """
                SELECT t.id, t.status, t.claimed_by, t.checkpoints, t.open_dependencies, t.failures,
                       t.max_attempts, l.who, l.until
                  FROM plan_tasks t LEFT JOIN leases l ON l.what = t.id WHERE t.workflow_id = :id
                """,
                id=self.workflow_id,
            )
            noted = tx.fetch_all(
                "SELECT task_id, count(*) AS count, min(sequence) AS low, max(sequence) AS high"
                " FROM checkpoints GROUP BY task_id"
            )
        graph = OracleGraph(nodes)
        seen = OracleGraph([_apply_expiry(node, rows, self.clock.now) for node in nodes])
        progress = call_tool(self.app, "workflow_progress", workflow_id=self.workflow_id)
        offered = call_tool(self.app, "workflow_next_tasks", workflow_id=self.workflow_id, limit=200)
        _check_holders(rows)
        _check_counts(rows, seen, progress, noted)
        _check_offers(rows, graph, offered, workflow.status.hands_out_tasks, self.clock.now)
        all_done = bool(nodes) and all(node.status.is_done for node in nodes)
        assert not all_done or workflow.status.is_final
        if workflow.status.is_final:
            assert [row for row in rows if row["who"]] == [], "a task of a finished workflow is held"

    # Helpers

    def _open(self) -> Application:
        return make_app(Path(self.folder.name), self.location, self.clock)

    def _call(self, tool: str, **arguments: Any) -> Any:
        """Call twice with one idempotency key: the answer is the same, and nothing happens twice."""
        self.keys += 1
        key = f"key {self.keys}"
        try:
            answer = call_tool(self.app, tool, key, **arguments)
        except DeepworkError as error:
            if error.code not in EXPECTED:
                raise
            return None
        before = len(list_events(self.app))
        assert call_tool(self.app, tool, key, **arguments) == answer
        assert len(list_events(self.app)) == before
        return answer

    def _load_graph(self) -> OracleGraph:
        with self.app.database.reading() as tx:
            return OracleGraph(TaskStore(tx).list_nodes(self.workflow_id))

    def _pick_node(self, pick: int) -> Node:
        nodes = self._load_graph().nodes
        return nodes[pick % len(nodes)]

    def _pick_agent(self, pick: int) -> str:
        return self.agents[pick % len(self.agents)]

    def _load_live_holders(self) -> dict[str, str]:
        with self.app.database.reading() as tx:
            rows = tx.fetch_all(
                "SELECT what, who FROM leases WHERE who IS NOT NULL AND until >= :now", now=self.clock.now
            )
        return {row["what"]: row["who"] for row in rows}


def _apply_expiry(node: Node, rows: Any, now: int) -> Node:
    """Return the task as readers must see it: started under an expired claim, it is pending again."""
    [row] = [row for row in rows if row["id"] == node.id]
    is_held = row["who"] is not None and row["until"] >= now
    if node.status.is_running and row["claimed_by"] and not is_held:
        return replace(node, status=TaskStatus.PENDING)
    return node


def _check_holders(rows: Any) -> None:
    for row in rows:
        if row["who"] is not None:
            assert row["claimed_by"] == row["who"]
            assert row["status"] not in ("completed", "skipped"), "a finished task is held"


def _check_counts(rows: Any, graph: OracleGraph, progress: Any, noted: Any) -> None:
    expected = graph.compute_progress()
    assert progress["total_tasks"] == expected.total
    assert progress["by_status"] == {status.value: count for status, count in expected.by_status.items()}
    assert progress["completed_sequence"] == expected.completed_sequence
    assert progress["current_sequence"] == expected.current_sequence
    assert progress["estimated_remaining"] == expected.remaining
    counted = {row["id"]: row["checkpoints"] for row in rows}
    for note in noted:
        if note["task_id"] in counted:
            assert (note["low"], note["high"]) == (1, note["count"]) == (1, counted[note["task_id"]])
    for row in rows:
        node = graph[row["id"]]
        if node.depends_on is not None:
            assert row["open_dependencies"] == graph.count_open_dependencies(node), json.dumps(row)


def _check_offers(rows: Any, graph: OracleGraph, offered: Any, gives_out: bool, now: int) -> None:
    """Check that exactly the unclaimed tasks that wait for nothing are offered, so that none is stranded."""
    held = {row["id"] for row in rows if row["who"] and row["until"] >= now}
    lapsed = {row["id"] for row in rows if row["claimed_by"] and row["id"] not in held}
    used_up = {
        row["id"] for row in rows if row["status"] == "failed" and row["failures"] >= row["max_attempts"]
    }
    free = {
        node.id
        for node in graph.nodes
        if not graph.is_blocked(node)
        and node.id not in held | used_up
        and (node.status.can_start or (node.status.is_running and node.id in lapsed))
    }
    assert {task["id"] for task in offered["tasks"]} == (free if gives_out else set())


def _list_earlier(task: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
    known = {other["name"] for other in before}
    return [name for name in task["depends_on"] if name in known]
