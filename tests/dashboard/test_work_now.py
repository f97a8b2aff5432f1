"""A run as it is now, what the rest of it will take, and what was spent, over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock, call_tool
from dashboard.make import World, read
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.edge.server.application import Application
from deepwork.views.overview.forecast import PlanFigures, forecast
from workspaces.make import create_plan


def make_plan(app: Application, tasks: list[dict[str, Any]], **plan: Any) -> tuple[str, dict[str, str]]:
    id = call_tool(
        app,
        "workflow_create",
        name="Big",
        source_type="prompt",
        source_content="All of it.",
        max_parallel_tasks=99,
    )["id"]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks, **plan})
    found = call_tool(app, "workflow_get", id=id, include_tasks=True, task_limit=1000)["tasks"]
    return id, {task["name"]: task["id"] for task in found}


def complete(app: Application, *ids: str) -> None:
    for id in ids:
        call_tool(app, "task_update_status", id=id, status="completed", outcome="Done.")


def read_lanes(page: TestClient, id: str, **query: Any) -> dict[str, tuple[int, list[str] | None]]:
    lanes = read(page, f"/runs/{id}/now", **query)["lanes"]
    return {
        lane["name"]: (lane["total"], [task["name"] for task in lane["tasks"]] if "tasks" in lane else None)
        for lane in lanes
    }


def test_what_presses_most_comes_first_and_the_rest_is_counted(
    app: Application, page: TestClient, clock: Clock
):
    names = ["failed", "held", "ready", "later", *(f"done {n}" for n in range(7))]
    after = {"later": ["ready"]}
    id, ids = make_plan(app, [{"name": n, "description": "", "depends_on": after.get(n, [])} for n in names])
    run = start_run(app, id, max_usd=20.0)
    complete(app, *(ids[f"done {n}"] for n in range(7)))
    call_tool(app, "task_update_status", id=ids["failed"], status="in_progress")
    call_tool(app, "task_update_status", id=ids["failed"], status="failed", error="It broke.")
    agent = call_tool(app, "agent_register", name="claude · held", runtime="custom")["id"]
    call_tool(app, "task_claim", task_id=ids["held"], agent_id=agent, start=True)
    add_attempt(
        app, run, ids["held"], agent_id=agent, now_doing="Bash: make", usd_micros=500_000, output_tokens=9
    )

    answer = read(page, f"/runs/{id}/now")

    assert list(read_lanes(page, id)) == ["failed", "needs_you", "running", "ready", "waiting", "done"]
    shown = {task["name"]: task for lane in answer["lanes"] for task in lane.get("tasks", ())}
    assert set(shown) == {"failed", "held", "ready"}
    assert (shown["failed"]["state"], shown["failed"]["note"]) == ("failed", "It broke.")
    assert (shown["held"]["agent"], shown["held"]["note"], shown["held"]["usd"]) == (
        "claude",
        "Bash: make",
        0.5,
    )
    assert shown["ready"]["blocks"] == 1
    assert {lane["name"]: lane["total"] for lane in answer["lanes"]}["done"] == 7
    assert answer["counts"] == {"failed": 1, "running": 1, "ready": 1, "waiting": 1, "done": 7}
    assert (answer["run"]["id"], answer["run"]["usd"], answer["run"]["max_usd"]) == (run.id, 0.5, 20.0)
    assert (answer["run"]["working"], answer["run"]["agents"]) == (1, 2)


def test_a_lane_has_its_first_tasks_and_its_total(app: Application, page: TestClient):
    id, _ = create_plan(app, *(f"t{n}" for n in range(9)))

    assert read_lanes(page, id, limit=4)["ready"] == (9, ["t0", "t1", "t2", "t3"])


@pytest.mark.parametrize("kind", ["track", "job"])
def test_tracked_work_and_jobs_have_lanes_too(world: World, page: TestClient, kind: str):
    id = {"track": world.track, "job": world.job}[kind]

    lanes = read_lanes(page, id)

    rows = read(page, f"/runs/{id}/tasks")
    assert sum(total for total, _ in lanes.values()) == rows["total"] > 0


# Forecasts


def compute(agents: int = 1, dollars_left: float | None = None, **given: Any) -> Any:
    known: dict[str, Any] = {
        "left": 10, "steps": 2, "costs": [1.0, 2.0, 3.0], "minutes": [4.0] * 3, "unpriced": 0, "spent_on_open": 0.0
    }  # fmt: skip
    return forecast(PlanFigures(**known | given), agents, dollars_left)


def test_the_rest_is_forecast_from_the_median_of_what_is_finished():
    found = compute(agents=5, dollars_left=7.0)

    assert (found.usd.low, found.usd.likely, found.usd.high) == (15.0, 20.0, 25.0)
    assert found.minutes.likely == 8.0  # ten tasks, five at a time
    assert (found.based_on, found.tasks_until_limit, found.unknown) == (3, 3, None)


def test_what_was_spent_on_open_tasks_is_not_spent_again():
    assert compute(spent_on_open=4.0).usd.likely == 16.0
    assert compute(spent_on_open=99.0).usd.likely == 0.0


def test_an_amount_below_a_cent_is_not_said_to_be_nothing():
    assert "$0.0012 and" in compute(costs=[0.0012] * 3).basis
    assert "$0.10 and" in compute(costs=[0.1] * 3).basis


def test_tasks_that_follow_each_other_take_their_time_however_many_agents_there_are():
    assert compute(agents=100, steps=9).minutes.likely == 36.0


@pytest.mark.parametrize(
    ("given", "has_usd", "has_time"),
    [
        ({"costs": [1.0, 1.0], "minutes": [1.0, 1.0]}, False, False),
        ({"costs": [], "minutes": [1.0] * 5, "unpriced": 5}, False, True),
        ({"costs": [1.0] * 4, "unpriced": 2}, True, True),
    ],
)
def test_what_is_not_known_is_said_to_be_unknown(given: dict[str, Any], has_usd: bool, has_time: bool):
    found = compute(**given)

    assert (found.usd is not None, found.minutes is not None, found.unknown is not None) == (
        has_usd,
        has_time,
        True,
    )


def test_nothing_left_needs_no_forecast():
    assert compute(left=0) is None


def test_a_running_plan_has_a_forecast_and_an_ended_one_has_none(
    app: Application, page: TestClient, clock: Clock
):
    id, ids = make_plan(app, [{"name": f"t{n}", "description": "", "depends_on": []} for n in range(8)])
    run = start_run(app, id, max_usd=2.0)
    for n in range(4):
        call_tool(app, "task_update_status", id=ids[f"t{n}"], status="in_progress")
        clock.advance(seconds=60)
        attempt = add_attempt(
            app, run, ids[f"t{n}"], usd_micros=250_000, output_tokens=9, usd_source="reported"
        )
        complete(app, ids[f"t{n}"])
        move(app, attempt, AttemptStage.CHECKING)

    found = read(page, f"/runs/{id}/now")["forecast"]
    RunService(app.database).set_status(run.id, RunStatus.STOPPED)
    after = read(page, f"/runs/{id}/now")

    assert (found["tasks_left"], found["usd"]["likely"], found["minutes"]["likely"]) == (4, 1.0, 2.0)
    assert "tasks_until_limit" not in found  # the dollars are enough
    assert ("forecast" in after, after["run"]["usd"]) == (False, 1.0)


# Spending


def test_spending_is_added_up_by_day_within_days_and_beside_budgets(
    app: Application, page: TestClient, clock: Clock
):
    id, ids = make_plan(app, [{"name": "a", "description": ""}], budget={"usd": 50})
    run = start_run(app, id)
    first = add_attempt(app, run, ids["a"], usd_micros=1_000_000, output_tokens=9)
    move(app, first, AttemptStage.FAILED)
    clock.advance(seconds=3 * 24 * 3600)
    add_attempt(app, run, ids["a"], usd_micros=250_000, output_tokens=9)

    plans = read(page, "/spending", by="plan")
    days = read(page, "/spending", by="day")

    [line] = plans["spending"]
    assert (line["plan"], line["name"], line["usd"], line["budget"]) == (id, "Big", 1.25, {"usd": 50})
    assert [each["usd"] for each in days["spending"]] == [0.25, 1.0]
    assert read(page, "/spending", by="vendor", days=2)["total"]["usd"] == 0.25
    assert read(page, "/spending", by="vendor", days=4)["total"]["usd"] == 1.25


def test_limits_of_vendors_say_when_they_end(world: World, app: Application, page: TestClient, clock: Clock):
    run = start_run(app, world.plan)
    end = clock.now + 3_600_000
    state = StreamState.from_json(
        json.dumps({"limit": {"resets_at": end, "message": "Limit", "scope": "five_hour"}})
    )
    for name in ("backend", "ship"):
        attempt = add_attempt(app, run, world.planned[name])
        waits = {"parked_for": ParkedFor.LIMIT, "not_before": end + 9, "reason": "A limit."}
        move(app, attempt, AttemptStage.PARKED, **waits, stream_state=state.to_json())

    [window] = read(page, "/runner/limits")["windows"]

    assert (window["vendor"], window["profile"], window["waiting"]) == ("claude", "claude", 2)
    assert (window["scope"], window["ends_at"] < window["next_try_at"]) == ("five_hour", True)


# The graph


@pytest.mark.parametrize(("levels", "width"), [(20, 100), (200, 10), (1, 2000)])
def test_a_graph_of_2000_tasks_opens_at_the_frontier_in_few_bytes(
    app: Application, page: TestClient, levels: int, width: int
):
    tasks = [
        {"name": f"Task {n} of level {level}", "description": "", "sequence": level + 1}
        for level in range(levels)
        for n in range(width)
    ]
    id, _ = make_plan(app, tasks)
    front = levels // 2
    with app.database.transaction() as tx:
        done = "UPDATE plan_tasks SET status = 'completed', finished_at = 1 WHERE workflow_id = :id AND sequence <= :n"
        tx.execute(done, id=id, n=front)

    answer = page.get(f"/api/v1/runs/{id}/graph", headers={"accept-encoding": "identity"})
    nodes = {node["id"]: node for node in answer.json()["nodes"]}

    assert len(answer.content) <= 60 * 1024
    shown = {node["level"] for node in nodes.values() if node["kind"] == "task"}
    assert shown == ({0} if levels == 1 else {front} if width > 60 else {front, front + 1, front + 2})
    folds = [node for node in nodes.values() if node["kind"] == "fold"]
    assert (
        sum(sum(node["states"].values()) for node in folds)
        + len(shown and [node for node in nodes.values() if node["kind"] == "task"])
        == levels * width
    )
    assert all(one in nodes and other in nodes for one, other in answer.json()["edges"])


def test_a_fold_opens_step_by_step(app: Application, page: TestClient):
    id, _ = make_plan(
        app,
        [
            {"name": f"{level}-{n}", "description": "", "sequence": level}
            for level in range(1, 41)
            for n in range(10)
        ],
    )
    with app.database.transaction() as tx:
        done = "UPDATE plan_tasks SET status = 'completed', finished_at = 1 WHERE workflow_id = :id AND sequence <= 20"
        tx.execute(done, id=id)

    def list_folds(*opened: str) -> list[str]:
        nodes = read(page, f"/runs/{id}/graph", open=",".join(opened))["nodes"]
        return [node["id"] for node in nodes if node["id"].startswith("done:")]

    assert list_folds() == ["done:0-19"]
    assert list_folds("done:0-19")[:2] == ["done:0-2", "done:3-5"]
    assert "done:0-0" in list_folds("done:0-19", "done:0-2")
    opened = read(page, f"/runs/{id}/graph", open="done:0-19,done:0-2,done:0-0")["nodes"]
    assert {node["level"] for node in opened if node["kind"] == "task"} == {0, 20, 21, 22}
