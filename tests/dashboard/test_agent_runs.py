"""Runs of agents and their attempts, over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock, call_tool, list_events
from dashboard.make import World, create_client, create_token, read, read_error, read_pages
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.server.application import Application


def post(page: TestClient, id: str, verb: str, **body: Any) -> Any:
    return page.post(f"/api/v1/runner/runs/{id}/{verb}", json=body)


def list_labels(page: TestClient, id: str) -> list[str]:
    return [each["label"] for each in read(page, f"/runner/runs/{id}")["actions"]]


def test_a_run_shows_its_agents_and_what_they_cost(
    world: World, app: Application, page: TestClient, clock: Clock
):
    run = start_run(app, world.plan, max_usd=20.0)
    backend, ship = world.planned["backend"], world.planned["ship"]
    ended = move(
        app,
        add_attempt(app, run, backend, usd_micros=1_500_000, output_tokens=10),
        AttemptStage.FAILED,
        reason="It broke.",
    )
    clock.advance(seconds=1)
    going = add_attempt(
        app, run, ship, profile="codex", now_doing="Bash: make <b>test</b>", usd_micros=250_000, input_tokens=90,
    )  # fmt: skip

    [shown] = read(page, "/runner/runs")["runs"]

    assert (shown["id"], shown["status"], shown["chain"]) == (run.id, "active", ["claude", "codex"])
    assert (shown["usd"], shown["max_usd"], shown["tokens"]) == (1.75, 20.0, 100)
    assert shown["workflow"] == {"id": world.plan, "kind": "plan", "name": "Release"}
    [live] = shown["attempts"]
    assert (live["id"], live["task_name"], live["profile"]) == (going.id, "ship", "codex")
    assert (live["stage"], live["now_doing"], live["tokens"]) == ("running", "Bash: make <b>test</b>", 90)
    whole = read(page, f"/runner/runs/{run.id}")
    assert [each["id"] for each in whole["attempts"]] == [ended.id, going.id]
    assert (whole["attempts_total"], whole["hosts"]) == (2, {"local": 2})
    assert read(page, f"/runner/attempts/{going.id}") == live


def test_the_attempts_at_a_task_are_on_its_page(world: World, app: Application, page: TestClient):
    run, task = start_run(app, world.plan), world.planned["ship"]
    assert "attempts" not in read(page, f"/tasks/{task}")
    move(app, add_attempt(app, run, task), AttemptStage.FAILED, reason="It ended with exit code 1.")
    add_attempt(app, run, task, profile="codex")

    shown = read(page, f"/tasks/{task}")["attempts"]

    assert [(each["number"], each["profile"], each["stage"]) for each in shown] == [
        (1, "claude", "failed"),
        (2, "codex", "running"),
    ]


def test_a_step_of_a_job_is_named_by_its_session(world: World, app: Application, page: TestClient):
    run = start_run(app, None, job="letter/main", goal="Write.")
    attempt = add_attempt(app, run, f"{world.job}/polish")

    shown = read(page, f"/runner/attempts/{attempt.id}")

    assert (shown["task_name"], shown["workflow"]["name"]) == ("polish", "letter/main")
    assert [each["id"] for each in read(page, f"/tasks/{world.job}/polish")["attempts"]] == [attempt.id]


def test_runs_are_listed_by_state_and_page(world: World, app: Application, page: TestClient, clock: Clock):
    old = start_run(app, world.plan)
    RunService(app.database).set_status(old.id, RunStatus.DONE)
    left = start_run(app, world.plan)
    add_attempt(app, left, world.planned["ship"], stage=AttemptStage.PARKED, parked_for=ParkedFor.PERSON)
    RunService(app.database).set_status(left.id, RunStatus.NEEDS_PERSON)
    clock.advance(seconds=1)
    open_run = start_run(app, world.paused)

    def list_ids(**query: Any) -> list[str]:
        return [each["id"] for each in read(page, "/runner/runs", **query)["runs"]]

    assert set(list_ids(state="current")) == {left.id, open_run.id}
    assert list_ids(state="ended") == [old.id]
    assert list_ids(workflow_id=world.paused) == [open_run.id]
    pages = read_pages(page, "/runner/runs", "runs", limit=1)
    assert [each["id"] for [each] in pages] == list_ids()
    assert len(pages) == read(page, "/runner/runs")["total"] == 3


def test_attempts_are_listed_by_page_and_filtered(world: World, app: Application, page: TestClient):
    run, other = start_run(app, world.plan), start_run(app, world.paused)
    ship = world.planned["ship"]
    ended = move(app, add_attempt(app, run, ship), AttemptStage.FAILED)
    parked = add_attempt(app, run, ship, stage=AttemptStage.PARKED, created_at=ended.created_at + 1)
    running = add_attempt(app, other, "tk_1", created_at=ended.created_at + 2)

    def list_ids(**query: Any) -> list[str]:
        return [each["id"] for each in read(page, "/runner/attempts", **query)["attempts"]]

    assert list_ids() == [running.id, parked.id, ended.id]
    assert list_ids(state="current") == [running.id, parked.id]
    assert list_ids(state="ended") == list_ids(stage="failed") == [ended.id]
    assert list_ids(run_id=run.id) == list_ids(task_id=ship) == list_ids(workflow_id=world.plan)
    assert list_ids(workflow_id=world.paused) == [running.id]
    pages = read_pages(page, "/runner/attempts", "attempts", limit=2)
    assert [each["id"] for lines in pages for each in lines] == list_ids()
    assert read(page, "/runner/attempts", limit=1)["total"] == 3
    assert read_error(page, "/runner/attempts", limit=501) == (400, "INVALID_INPUT")


def test_the_end_of_an_agents_output_is_text(
    world: World, app: Application, page: TestClient, tmp_path: Path
):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"], starts=2)
    address = f"/runner/attempts/{attempt.id}/output"
    assert read(page, address)["reason"] == "The output is on the machine local, or was removed."
    first, last = (AttemptFiles.locate(app.settings.state_folder, attempt.id, start) for start in (1, 2))
    first.folder.mkdir(parents=True)
    first.stdout.write_text("the first start\n")
    last.folder.mkdir()
    last.stdout.write_bytes(b"one\n" + b"two\n" * 9 + b"\x1b[31mred \xff\x00\n")
    last.stderr.symlink_to(app.settings.state_folder / "token")

    shown = read(page, address)
    assert (shown["start"], shown["stream"], shown["size"]) == (2, "stdout", 52)
    assert shown["text"] == "one\n" + "two\n" * 9 + "\\x1b[31mred \N{REPLACEMENT CHARACTER}\\x00\n"
    assert read(page, address, max_bytes=16)["text"].startswith("\\x1b[31mred")
    assert read(page, address, start=1)["text"] == "the first start\n"
    assert read(page, address, stream="stderr")["text"] == ""
    assert read_error(page, address, start=3) == (400, "INVALID_INPUT")
    assert read_error(page, address, max_bytes=10**9) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("work", 200), ("admin", 200)])
def test_an_agents_output_needs_the_scope_work(world: World, app: Application, scope: str, status: int):
    """It may contain whatever the agent read."""
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"], starts=1)
    files = AttemptFiles.locate(app.settings.state_folder, attempt.id, 1)
    files.folder.mkdir(parents=True)
    files.stdout.write_text("the secret\n")
    client = create_client(app, create_token(app, f"a-{scope}", scope))

    for stream in ("stdout", "stderr"):
        answer = client.get(f"/api/v1/runner/attempts/{attempt.id}/output", params={"stream": stream})

        assert answer.status_code == status
        assert ("the secret" in answer.text) == (status == 200 and stream == "stdout")
    assert client.get(f"/api/v1/runner/attempts/{attempt.id}").status_code == 200


def test_a_run_that_does_not_exist_is_not_found(app: Application, page: TestClient):
    assert read_error(page, "/runner/runs/run_0") == (404, "RUN_NOT_FOUND")
    assert read_error(page, "/runner/attempts/at_0") == (404, "ATTEMPT_NOT_FOUND")
    assert post(page, "run_0", "pause").json()["code"] == "RUN_NOT_FOUND"


def test_a_person_pauses_resumes_and_stops_a_run(world: World, app: Application, page: TestClient):
    id = start_run(app, world.plan).id
    assert list_labels(page, id) == ["Pause", "Stop", "Stop now"]

    assert post(page, id, "pause").json()["status"] == "paused"

    assert read(page, f"/runner/runs/{id}")["reason"] == "Paused by human:owner."
    assert list_labels(page, id) == ["Resume", "Stop", "Stop now"]
    assert post(page, id, "pause").status_code == 200  # again
    assert post(page, id, "resume").json()["status"] == "active"
    assert "reason" not in read(page, f"/runner/runs/{id}")
    assert post(page, id, "stop").json()["status"] == "stopping"
    assert list_labels(page, id) == ["Resume", "Stop now"]
    assert post(page, id, "stop", now=True).json()["status"] == "ending"
    assert list_labels(page, id) == []
    assert [each.type for each in list_events(app)].count("run:updated") == 4


def test_agents_that_are_being_ended_are_not_called_back(world: World, app: Application, page: TestClient):
    id = start_run(app, world.plan).id
    post(page, id, "stop", now=True)

    refused = post(page, id, "resume")
    RunService(app.database).set_status(id, RunStatus.STOPPED)
    ended = post(page, id, "resume")

    assert (refused.status_code, refused.json()["message"]) == (409, f"Run {id} is ending.")
    assert (ended.status_code, ended.json()["message"]) == (409, f"Run {id} has ended: stopped.")


@pytest.mark.parametrize("scope", ["read", "work"])
def test_only_a_person_stops_a_run(world: World, app: Application, scope: str):
    id = start_run(app, world.plan).id
    client = create_client(app, create_token(app, "robot", scope))

    assert post(client, id, "stop").status_code == 403
    assert read(client, f"/runner/runs/{id}")["status"] == "active"


def test_the_description_of_the_api_has_the_endpoints_of_runs(app: Application, page: TestClient):
    paths = read(page, "/openapi.json")["paths"]

    assert {"/api/v1/runner/runs", "/api/v1/runner/runs/{id}", "/api/v1/runner/attempts/{id}"} <= paths.keys()
    [verb] = [
        each["schema"]["enum"]
        for each in paths["/api/v1/runner/runs/{id}/{verb}"]["post"]["parameters"]
        if each["name"] == "verb"
    ]
    assert verb == ["pause", "resume", "stop", "set"]


def list_agent_needs(page: TestClient) -> list[Any]:
    return [
        each for each in read(page, "/home")["needs_you"] if each["kind"] in ("parked_attempt", "agent_run")
    ]


def test_what_stopped_agents_and_waits_for_a_person_is_listed(
    world: World, app: Application, page: TestClient, clock: Clock
):
    run = start_run(app, world.plan)
    before = read(page, "/home")["needs_you_total"]
    parked = add_attempt(app, run, world.planned["ship"])
    move(app, parked, AttemptStage.PARKED, parked_for=ParkedFor.PERSON, reason="Approve it.")
    limited = add_attempt(app, run, world.planned["backend"])
    move(app, limited, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, reason="Until 07:00.")
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "1 task waits for you.")

    [attempt] = list_agent_needs(page)  # the run ended because of it: that is one entry

    assert (attempt["id"], attempt["title"]) == (parked.id, "The agent of ship waits for you")
    assert (attempt["task"]["id"], attempt["detail"]) == (world.planned["ship"], "Approve it.")
    assert attempt["next"] == f"deepwork run {world.plan} --agent claude --agent codex --agents 2"
    assert read(page, "/home")["needs_you_total"] == before + 1
    clock.advance(seconds=1)
    start_run(app, world.plan)  # goes on with the attempts
    assert [each["id"] for each in list_agent_needs(page)] == [parked.id]


def test_a_run_whose_work_is_over_needs_nobody(world: World, app: Application, page: TestClient):
    run = start_run(app, world.plan)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Two tasks failed.")
    assert [each["id"] for each in list_agent_needs(page)] == [run.id]

    call_tool(app, "workflow_update_status", id=world.plan, status="abandoned", reason="Enough.")

    assert list_agent_needs(page) == []


def test_a_person_raises_the_limit_that_a_run_used_up_as_the_page_does(
    world: World, app: Application, page: TestClient
):
    run = start_run(app, world.plan, max_usd=1.0)
    add_attempt(app, run, world.planned["ship"], usd_micros=1_500_000)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Used up.")
    [act] = read(page, f"/runner/runs/{run.id}")["actions"]

    too_low = post(page, run.id, "set", max_usd="1.2")
    raised = post(page, run.id, "set", max_usd="5")

    assert (act["tool"], [each["name"] for each in act["asks"]]) == ("set_run", ["max_usd"])
    assert (too_low.status_code, raised.status_code) == (400, 200)
    assert (raised.json()["status"], raised.json()["max_usd"]) == ("active", 5.0)
    assert "Raise the limit" not in list_labels(page, run.id)
