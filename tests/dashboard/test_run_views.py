"""All views of a run: details, task table, graph, files, log, and single tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from application import NOW, Clock, call_tool, make_app, measure_bytes
from dashboard.make import World, create_client, make_everything, make_session, read, read_error, read_pages
from deepwork.edge.server.application import Application
from deepwork.views.overview.task_table_operations import COLUMNS
from jobs import project as jobs
from jobs.reviewer import Reviewer, make_failing_verdict
from jobs.runs import call_job_tool as ask_job
from jobs.runs import finish_step, start_job
from tracking import make as track
from workspaces.make import create_plan, create_repository

VIEWS = ("", "/tasks", "/graph", "/files", "/decisions", "/issues", "/events")


def table(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows by name."""
    columns = answer["columns"]
    empty = (None,) * columns.index("is_blocked") + (False, False, 0, 0, 0, None)
    return {row[1]: dict(zip(columns, (*row, *empty[len(row) :]), strict=True)) for row in answer["rows"]}


# Run details


def test_a_tracked_run_has_its_phases_including_future_ones(world: World, page: TestClient):
    run = read(page, f"/runs/{world.track}")

    assert [(phase["number"], phase["name"], phase["status"]) for phase in run["phases"]] == [
        (1, "Survey", "completed"), (2, "Build", "in_progress"), (3, "Phase 3", "pending"),
    ]  # fmt: skip
    assert run["phases"][1]["tasks"] == {"total": 4, "completed": 1, "failed": 1, "in_progress": 2}
    assert run["created_by"] == "local"
    assert run["actions"] == []


def test_an_ended_run_has_its_outcome(world: World, page: TestClient):
    run = read(page, f"/runs/{world.done_track}")

    assert (run["outcome"], run["summary"]) == ("completed", "All said.")
    assert (run["achievements"], run["limitations"]) == (["a page"], ["no pictures"])
    assert run["phases"] == []


def test_a_plan_has_its_levels_reasons_and_history(world: World, page: TestClient):
    run = read(page, f"/runs/{world.plan}")

    assert [phase["status"] for phase in run["phases"]] == ["completed", "in_progress", "pending"]
    assert (run["plan"]["approach"], run["plan"]["risks"]) == ("From below.", ["late"])
    assert (run["plan"]["assumptions"], run["plan"]["max_parallel_tasks"]) == (["a server"], 3)
    assert [change["after"] for change in run["plan"]["history"]] == ["in_progress", "ready"]
    assert [action["label"] for action in run["actions"]] == ["Pause", "Abandon"]


def test_a_plan_has_its_workspaces(app: Application, page: TestClient, tmp_path: Path):
    create_repository(tmp_path)
    id, [task] = create_plan(app, "build", repository_path=str(tmp_path))
    made = call_tool(
        app, "workspace_create", workflow_id=id, branch="feature", path=str(tmp_path.parent / "tree-x"),
        task_ids=[task],
    )  # fmt: skip

    [shown] = read(page, f"/runs/{id}")["workspaces"]

    assert (shown["id"], shown["branch"], shown["status"]) == (made["id"], "feature", "active")
    assert shown["task_ids"] == [task]
    assert [action["arguments"]["status"] for action in shown["actions"]] == ["merged", "abandoned"]


def test_a_session_has_its_steps_and_current_step(world: World, page: TestClient):
    run = read(page, f"/runs/{world.job}")

    assert [(step["id"], step["status"]) for step in run["session"]["steps"]] == [
        ("draft", "completed"), ("polish", "needs_work"), ("send", "pending"),
    ]  # fmt: skip
    assert run["session"]["step_id"] == "polish"
    assert run["session"]["stack"] == [{"session_id": world.job, "workflow": "letter/main", "step": "polish"}]
    assert run["session"]["steps"][0]["outputs"] == {"draft.md": "draft.md"}
    assert [phase["status"] for phase in run["phases"]] == ["completed", "in_progress", "pending"]
    assert [action["tool"] for action in run["actions"]] == [
        "pass_step",
        "send_back_step",
        "grant_round",
        "abort_workflow",
    ]


def test_a_session_has_only_its_own_stack(app: Application, page: TestClient, tmp_path: Path):
    jobs.write_job(tmp_path, "letter", [jobs.make_step("draft")])
    ended, outer, inner = (_start_letter(app) for _ in range(3))
    ask_job(app, "abort_workflow", session_id=ended, explanation="Not needed.")
    _move_to_other_process(app, inner)

    stacks = {
        id: [entry["session_id"] for entry in read(page, f"/runs/{id}")["session"]["stack"]]
        for id in (ended, outer, inner)
    }

    assert stacks == {ended: [], outer: [outer], inner: [inner]}


def test_nested_sessions_have_one_stack(app: Application, page: TestClient, tmp_path: Path):
    jobs.write_job(tmp_path, "letter", [jobs.make_step("draft")])
    both = [_start_letter(app), _start_letter(app)]

    for id in both:
        assert [entry["session_id"] for entry in read(page, f"/runs/{id}")["session"]["stack"]] == both


def _start_letter(app: Application) -> str:
    begun = ask_job(app, "start_workflow", goal="Write.", job_name="letter", workflow_name="main")
    id: str = begun["begin_step"]["session_id"]
    return id


def _move_to_other_process(app: Application, id: str) -> None:
    with app.database.transaction() as tx:
        data = json.loads(tx.fetch_value("SELECT data FROM job_sessions WHERE id = :id", id=id))
        text = json.dumps(data | {"process": "another"})
        tx.execute("UPDATE job_sessions SET data = :data WHERE id = :id", id=id, data=text)


def test_a_run_has_all_its_issues_and_its_open_blockers(world: World, app: Application, page: TestClient):
    call_tool(app, "log_issue", task_id=world.tasks["build"], type="other", description="x", resolution="y")

    run = read(page, f"/runs/{world.track}")

    assert (run["issues"], run["blockers"]) == (2, 1)
    assert read(page, f"/runs/{world.track}/issues")["total"] == 2


@pytest.mark.parametrize("id", ["tw_nothing", "wf_nothing", "nothing1", "<script>", "a%2Fb"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_missing_run_is_not_found(page: TestClient, id: str, view: str):
    status, code = read_error(page, f"/runs/{id}{view}")

    assert status == 404
    assert code in {"WORKFLOW_NOT_FOUND", "SESSION_NOT_FOUND", "INVALID_INPUT"}


# Task table


def test_the_table_of_a_tracked_run_has_counts_and_milestones(world: World, page: TestClient):
    answer = read(page, f"/runs/{world.track}/tasks")

    assert (answer["columns"], answer["total"], answer["cursor"]) == (list(COLUMNS), 5, None)
    part = table(answer)["write the ledger"]
    assert (part["phase"], part["parent_id"], part["agent_name"]) == (2, world.tasks["build"], "Grace")
    assert (part["milestone"], part["progress"]) == ("tests are red", 50)
    assert (part["issues"], part["is_blocked"], part["is_stale"]) == (1, True, False)
    look = table(answer)["look around"]
    assert (look["decisions"], look["status"], look["is_blocked"]) == (1, "success", False)
    assert look["completed_at"] >= look["started_at"] >= NOW
    assert all(row[-1] and len(row) > list(COLUMNS).index("state") for row in answer["rows"])


def test_a_task_without_a_sign_of_life_becomes_stale(world: World, page: TestClient, clock: Clock):
    clock.advance(seconds=31 * 60)

    rows = table(read(page, f"/runs/{world.track}/tasks"))

    assert {name for name, row in rows.items() if row["is_stale"]} == {"build", "write the ledger"}


def test_the_table_of_a_plan_has_blocked_tasks_and_agents(world: World, page: TestClient, clock: Clock):
    rows = table(read(page, f"/runs/{world.plan}/tasks"))

    assert {name: row["status"] for name, row in rows.items()} == {
        "design": "completed", "backend": "in_progress", "frontend": "failed", "ship": "pending",
    }  # fmt: skip
    assert {name for name, row in rows.items() if row["is_blocked"]} == {"ship"}
    assert [rows[name]["agent_name"] for name in ("design", "backend", "ship")] == ["Ada", "Ada", None]
    assert not any(row["is_stale"] for row in rows.values())
    clock.advance(seconds=200)
    assert table(read(page, f"/runs/{world.plan}/tasks"))["backend"]["is_stale"] is True


def test_the_table_of_a_session_has_its_steps(world: World, app: Application, page: TestClient, clock: Clock):
    step = f"{world.job}/polish"
    call_tool(app, "log_milestone", task_id=step, message="one of two", progress=50)
    clock.advance(seconds=5)
    call_tool(app, "log_milestone", task_id=step, message="nearly")
    track.create_blocker(app, step)

    rows = table(read(page, f"/runs/{world.job}/tasks"))

    polish = rows["polish"]
    assert (polish["id"], polish["status"], polish["phase"]) == (step, "needs_work", 2)
    assert (polish["milestone"], polish["progress"], polish["is_blocked"]) == ("nearly", 50, True)


@pytest.mark.parametrize("kind", ["track", "plan", "job"])
def test_the_table_is_paginated(world: World, page: TestClient, kind: str):
    path = f"/runs/{getattr(world, kind)}/tasks"

    pages = read_pages(page, path, "rows", limit=2)

    assert [row for part in pages for row in part] == read(page, path)["rows"]
    assert max(len(part) for part in pages) == 2


def test_tasks_started_meanwhile_are_on_the_last_page(app: Application, page: TestClient, clock: Clock):
    where = track.create_workflow_and_phase(app)
    for number in range(3):
        track.create_task(app, where, f"task {number}")
        clock.advance(seconds=1)
    first = read(page, f"/runs/{where[0]}/tasks", limit=2)
    track.create_task(app, where, "new")

    second = read(page, f"/runs/{where[0]}/tasks", limit=2, cursor=first["cursor"])

    assert [row[1] for row in first["rows"] + second["rows"]] == ["task 0", "task 1", "task 2", "new"]


# Graph


def test_the_graph_of_a_plan_has_explicit_and_implied_edges(world: World, page: TestClient):
    answer = read(page, f"/runs/{world.plan}/graph")

    name = {node["id"]: node["name"] for node in answer["nodes"]}
    assert sorted((name[one], name[other]) for one, other in answer["edges"]) == [
        ("backend", "ship"), ("design", "backend"), ("design", "frontend"), ("frontend", "ship"),
    ]  # fmt: skip
    assert {node["name"]: node["level"] for node in answer["nodes"]} == {
        "design": 0, "backend": 1, "frontend": 1, "ship": 2,
    }  # fmt: skip
    assert {node["name"] for node in answer["nodes"] if node["is_ready"]} == {"frontend"}
    assert {node["name"] for node in answer["nodes"] if node["is_blocked"]} == {"ship"}
    assert answer["folded"] is False


def test_edges_between_large_levels_are_folded(app: Application, page: TestClient):
    id, _ = create_plan(app)
    tasks = [{"name": f"t{n}", "description": "", "sequence": 1 + n // 60} for n in range(180)]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})

    answer = read(page, f"/runs/{id}/graph")

    assert answer["folded"] is True
    assert [node["id"] for node in answer["nodes"] if node["group"] == "level"] == ["level:1", "level:2"]
    assert len(answer["edges"]) == 240


def test_wide_levels_of_a_large_plan_are_folded_unless_the_whole_graph_is_asked_for(
    app: Application, page: TestClient
):
    id, _ = create_plan(app)
    tasks = [{"name": f"t{n}", "description": "", "sequence": 1 + n // 100} for n in range(400)]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})

    folded = read(page, f"/runs/{id}/graph")
    whole = read(page, f"/runs/{id}/graph", whole="true")

    folds = {node["id"]: node["states"] for node in folded["nodes"] if node["kind"] == "fold"}
    assert folds == {
        "state:0:ready": {"ready": 40},
        "state:1:waiting": {"waiting": 100},
        "state:2:waiting": {"waiting": 100},
        "ahead:3-3": {"waiting": 100},
    }
    assert len([node for node in whole["nodes"] if node["kind"] == "task"]) == 400
    assert len(whole["edges"]) == 600


def test_the_graph_of_a_tracked_run_goes_from_phase_to_task_to_subtask(world: World, page: TestClient):
    answer = read(page, f"/runs/{world.track}/graph")

    tasks = world.tasks
    phases = [
        (node["id"], node["name"], node["status"]) for node in answer["nodes"] if node["kind"] == "phase"
    ]
    assert phases == [("phase:1", "Survey", "completed"), ("phase:2", "Build", "in_progress")]
    assert answer["edges"] == [
        ["phase:1", tasks["look"]], ["phase:2", tasks["build"]], [tasks["build"], tasks["part"]],
        ["phase:2", tasks["broken"]], ["phase:2", tasks["unsure"]], [tasks["look"], "phase:2"],
    ]  # fmt: skip
    level = {node["name"]: node["level"] for node in answer["nodes"]}
    assert (
        level["Survey"] < level["look around"] < level["Build"] < level["build"] < level["write the ledger"]
    )


def test_the_graph_of_a_tracked_run_has_phases_without_tasks(app: Application, page: TestClient):
    id = track.create_workflow(app)
    for number in (1, 2):
        call_tool(app, "complete_phase", phase_id=track.create_phase(app, id, number), status="failed")

    answer = read(page, f"/runs/{id}/graph")

    assert [(node["id"], node["status"]) for node in answer["nodes"]] == [
        ("phase:1", "failed"),
        ("phase:2", "failed"),
    ]
    assert answer["edges"] == [["phase:1", "phase:2"]]


def test_the_graph_of_a_session_goes_from_step_to_step(world: World, page: TestClient):
    answer = read(page, f"/runs/{world.job}/graph")

    steps = [f"{world.job}/{step}" for step in ("draft", "polish", "send")]
    assert answer["edges"] == [[steps[0], steps[1]], [steps[1], steps[2]]]


# Files


def test_files_name_the_tasks_that_changed_them(app: Application, page: TestClient, tmp_path: Path):
    create_repository(tmp_path)
    world = make_everything(app, tmp_path)

    answer = read(page, f"/runs/{world.track}/files")

    [notes] = [file for file in answer["files"] if file["path"] == "notes.md"]
    assert (notes["status"], notes["added"]) == ("added", 1)
    assert [(task["id"], task["name"]) for task in notes["tasks"]] == [(world.tasks["look"], "look around")]
    assert answer["total"] == len(answer["files"])
    task = read(page, f"/tasks/{world.tasks['look']}")
    assert (task["files_count"], task["verification"]["scope_match"]) == (1, True)
    diff = read(page, f"/tasks/{world.tasks['look']}/diff", path="notes.md", max_bytes=1000)
    assert "+look" in diff["files"][0]["diff"]


def test_the_lines_of_a_shared_file_are_counted_once(app: Application, page: TestClient, tmp_path: Path):
    create_repository(tmp_path)
    where = track.create_workflow_and_phase(app)
    tasks = [track.create_task(app, where, name) for name in ("one", "two")]
    (tmp_path / "both.txt").write_text("a\nb\nc\n")
    for id in tasks:
        track.complete_task(app, id)
    after = track.create_task(app, where, "three")
    (tmp_path / "both.txt").write_text("a\nb\nc\nd\n")
    track.complete_task(app, after)

    [file] = read(page, f"/runs/{where[0]}/files")["files"]

    assert [task["attribution"] for task in file["tasks"]] == ["shared", "shared", "exclusive"]
    assert (file["added"], file["removed"]) == (4, 0)


def test_files_are_paginated(app: Application, page: TestClient, tmp_path: Path):
    create_repository(tmp_path)
    where = track.create_workflow_and_phase(app)
    id = track.create_task(app, where)
    for number in range(5):
        (tmp_path / f"file {number}.txt").write_text("x")
    track.complete_task(app, id)

    pages = read_pages(page, f"/runs/{where[0]}/files", "files", limit=2)

    assert [[file["path"] for file in part] for part in pages] == [
        ["file 0.txt", "file 1.txt"], ["file 2.txt", "file 3.txt"], ["file 4.txt"],
    ]  # fmt: skip


# The log


def test_the_log_is_read_from_either_end(world: World, page: TestClient):
    whole = read(page, f"/runs/{world.track}/events", limit=1000)
    seqs = [event["seq"] for event in whole["events"]]

    assert (whole["total"], whole["oldest_seq"]) == (len(seqs), seqs[0])
    last = read(page, f"/runs/{world.track}/events", limit=3)
    assert [event["seq"] for event in last["events"]] == seqs[-3:]
    before = read(page, f"/runs/{world.track}/events", limit=3, before=seqs[-3])
    assert [event["seq"] for event in before["events"]] == seqs[-6:-3]
    after = read(page, f"/runs/{world.track}/events", limit=3, after=seqs[0])
    assert [event["seq"] for event in after["events"]] == seqs[1:4]
    assert whole["last_seq"] >= seqs[-1]


def test_the_log_can_be_filtered_by_type(world: World, page: TestClient):
    answer = read(page, f"/runs/{world.track}/events", type="milestone:created,issue:created")

    assert [event["type"] for event in answer["events"]] == ["milestone:created"] * 2 + ["issue:created"]
    assert answer["total"] == 3
    assert set(answer["events"][0]) == {"seq", "ts", "type", "workflow_id", "data"}


# One task


def test_a_tracked_task_has_its_related_tasks_and_records(world: World, page: TestClient):
    answer = read(page, f"/tasks/{world.tasks['part']}")

    assert answer["run"] == {"id": world.track, "kind": "track", "name": "Payments"}
    assert answer["parents"] == [{"id": world.tasks["build"], "name": "build"}]
    assert [issue["id"] for issue in answer["issues"]] == [world.blocker]
    assert [milestone["message"] for milestone in answer["milestones"]] == ["tests are red", "half of it"]
    assert [action["tool"] for action in answer["actions"]] == ["abandon_task"]
    parent = read(page, f"/tasks/{world.tasks['build']}")
    assert [child["id"] for child in parent["children"]] == [world.tasks["part"]]
    unsure = read(page, f"/tasks/{world.tasks['unsure']}")
    assert unsure["task"]["outcome"]["manual_review_reason"] == "Is it legal?"


def test_a_planned_task_has_its_dependencies_and_holder(world: World, page: TestClient):
    answer = read(page, f"/tasks/{world.planned['backend']}")

    assert [one["name"] for one in answer["depends_on"]] == ["design"]
    assert (answer["task"]["agent_name"], answer["task"]["is_held"]) == ("Ada", True)
    assert answer["task"]["started_at"].endswith("Z")
    assert [action["label"] for action in answer["actions"]] == ["Release", "Skip", "Fail"]
    design = read(page, f"/tasks/{world.planned['design']}")
    assert [one["name"] for one in design["dependents"]] == ["backend", "frontend"]
    assert [note["summary"] for note in design["checkpoints"]][-1] == "drawn"
    assert design["actions"] == []


@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_a_step_is_a_task_with_a_slash_in_its_id(world: World, page: TestClient, slash: str):
    answer = read(page, f"/tasks/{world.job}{slash}polish")

    assert (answer["task"]["id"], answer["task"]["status"]) == (f"{world.job}/polish", "needs_work")
    assert answer["run"]["kind"] == "job"
    assert answer["task"]["attempts_total"] == 1


def test_a_step_may_be_called_diff(app: Application, page: TestClient, tmp_path: Path):
    jobs.write_job(tmp_path, "odd", [jobs.make_step("diff")])
    id = start_job(app, "odd")

    assert read(page, f"/tasks/{quote(f'{id}/diff', safe='')}")["task"]["name"] == "diff"


@pytest.mark.parametrize("id", ["tt_nothing", "tk_nothing", "nothing1%2Fstep", "nothing1"])
def test_a_missing_task_is_not_found(page: TestClient, id: str):
    assert read_error(page, f"/tasks/{id}") == (404, "TASK_NOT_FOUND")


def test_the_diff_of_a_missing_task_is_not_found(page: TestClient):
    assert read_error(page, "/tasks/tt_nothing/diff")[0] == 404


def test_a_review_is_shown_with_its_feedback(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reviewer = Reviewer(tmp_path / "reviewer", make_failing_verdict("Not yet.", Clear="Too dull."), "pass")
    for name, value in reviewer.environment.items():
        monkeypatch.setenv(name, value)
    app = make_app(tmp_path, location, external_runner="claude")
    page, world = create_client(app), World()

    make_session(app, world, tmp_path)

    [attempt] = read(page, f"/runs/{world.job}")["session"]["steps"][1]["attempts"]
    assert attempt["passed"] is False
    assert {"name": "Clear", "passed": False, "feedback": "Too dull."} in attempt["criteria"]
    [gate] = [need for need in read(page, "/home")["needs_you"] if need["kind"] == "gate"]
    assert gate["detail"] == attempt["feedback"]
    assert gate["since"] == attempt["at"]
    finish_step(app, "polish.md", session_id=world.job)
    attempts = read(page, f"/tasks/{world.job}%2Fpolish")["task"]["attempts"]
    assert [each["passed"] for each in attempts] == [False, True]
    app.close()


def test_ten_thousand_rows_are_small(app: Application, page: TestClient):
    id, _ = create_plan(app)
    tasks = [{"name": f"task {n}", "description": "", "sequence": 1 + n // 100} for n in range(10_000)]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})

    answer = page.get(f"/api/v1/runs/{id}/tasks")

    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["rows"]) == answer.json()["total"] == 10_000
    assert measure_bytes(answer.json()) < 1_500_000


def test_ten_thousand_tracked_tasks_with_milestones_are_small(app: Application, page: TestClient):
    id = track.create_workflow(app, name="Crowd", objective="Many.")
    where = (id, track.create_phase(app, id, 1))
    first = track.create_task(app, where, "task 0", agent_name="Grace Hopper")
    call_tool(app, "log_milestone", task_id=first, message="The first of two reviews has begun")
    track.complete_task(app, first)
    _copy_task(app, first, 10_000)

    answer = page.get(f"/api/v1/runs/{id}/tasks")

    assert len(answer.json()["rows"]) == answer.json()["total"] == 10_000
    assert answer.json()["rows"][-1][8] == "The first of two reviews has begun"
    assert len(answer.content) < 1_500_000


def _copy_task(app: Application, task_id: str, count: int) -> None:
    """Copy the task this many times, each copy with a milestone."""
    with app.database.transaction() as tx:
        for table, column in (("tracked_tasks", "id"), ("milestones", "task_id")):
            row = tx.fetch_one(f"SELECT * FROM {table} WHERE {column} = :id", id=task_id)
            assert row is not None
            del row["created_seq"]
            ids = [{"id": f"{row['id'][:3]}{number:012d}"} for number in range(1, count)]
            others = [{column: f"tt_{number:012d}"} for number in range(1, count)]
            tx.insert_many(table, [row | new | about for new, about in zip(ids, others, strict=True)])
