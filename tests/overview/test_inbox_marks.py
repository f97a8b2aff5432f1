"""Entries of the inbox can be put off, cleared and given to somebody, and say what they block and cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock, call_tool, list_event_types
from approvals.make import ask
from cli.run import run_deepwork
from dashboard.make import World, create_client, create_token, make_everything, read, read_error
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.models import AttemptStage, ParkedFor
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.inbox_evidence import find_failure, keep_colors


@pytest.fixture
def world(app: Application, tmp_path: Path, clock: Clock) -> World:
    return make_everything(app, tmp_path, clock)


@pytest.fixture
def page(app: Application, world: World) -> TestClient:
    return create_client(app)


def act(page: TestClient, tool: str, **arguments: Any) -> Any:
    answer = page.post(f"/api/v1/actions/{tool}", json=arguments)
    assert answer.status_code == 200, answer.text
    return answer.json()


def list_ids(page: TestClient, show: str = "open") -> list[str]:
    return [each["id"] for each in read(page, "/inbox", show=show)["items"]]


def make_failures(app: Application, names: list[str], error: str = "Check mypy failed ({}).") -> str:
    """Make a plan whose tasks failed, and one more that waits for all of them."""
    plan = call_tool(
        app, "workflow_create", name="Monorepo", source_type="prompt", source_content="Types.",
        max_parallel_tasks=9,
    )["id"]  # fmt: skip
    tasks = [{"name": name, "description": name, "sequence": 1} for name in names]
    tasks.append({"name": "release", "description": "release", "sequence": 2})
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "approach": "a", "tasks": tasks})
    agent = call_tool(app, "agent_register", name="Bob", runtime="codex")["id"]
    for number, task in enumerate(call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]):
        if task["name"] == "release":
            continue
        call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)
        for status, said in (("in_progress", {}), ("failed", {"error": error.format(number)})):
            call_tool(app, "task_update_status", id=task["id"], status=status, agent_id=agent, **said)
    return str(plan)


def test_a_snoozed_item_comes_back_at_its_time(page: TestClient, clock: Clock, app: Application):
    item, before = list_ids(page)[0], read(page, "/inbox")["counts"]["open"]

    act(page, "snooze_items", items=[item], until=format_timestamp(clock.now + 3_600_000))
    snoozed = read(page, "/inbox")["counts"], list_ids(page), list_ids(page, "snoozed")
    home = read(page, "/home")["needs_you_total"]
    clock.advance(seconds=3601)

    assert snoozed[0] | {"open": before - 1, "snoozed": 1} == snoozed[0]
    assert item not in snoozed[1]
    assert snoozed[2] == [item]
    assert home == before - 1
    assert item in list_ids(page)
    assert "inbox:updated" in list_event_types(app)


def test_a_cleared_item_comes_back_when_something_new_happens(
    page: TestClient, app: Application, world: World, clock: Clock
):
    item = f"failed_task:{world.planned['frontend']}"
    assert item in list_ids(page)
    act(page, "clear_items", items=[item], note="Known.")
    cleared = list_ids(page), read(page, "/inbox", show="cleared")["items"]
    clock.advance(seconds=5)
    for status, said in (("in_progress", {}), ("failed", {"error": "No browser again."})):
        call_tool(
            app, "task_update_status", id=world.planned["frontend"], status=status, agent_id=world.agent,
            **said,
        )  # fmt: skip

    assert item not in cleared[0]
    assert [(each["id"], each["note"]) for each in cleared[1]] == [(item, "Known.")]
    assert item in list_ids(page)


def test_what_is_restored_waits_again(page: TestClient):
    items = list_ids(page)[:2]
    act(page, "clear_items", items=items)
    assert not set(items) & set(list_ids(page))

    act(page, "restore_items", items=items)

    assert set(items) <= set(list_ids(page))
    assert list_ids(page, "cleared") == []


def test_what_is_given_to_somebody_is_open_for_them_only(page: TestClient, app: Application):
    item = list_ids(page)[0]
    given = act(page, "give_items", items=[item], to="ada", note="You know the yen.")
    ada = create_client(app, create_token(app, "ada", "work", is_person=True))

    mine, theirs = list_ids(page), read(ada, "/inbox")["items"]

    assert given["items"][0]["owner"] == "human:ada"
    assert item not in mine
    assert list_ids(page, "given") == [item]
    assert [each["owner_name"] for each in theirs if each["id"] == item] == ["ada"]
    assert read(page, "/inbox/people")["people"] == [{"id": "human:ada", "name": "ada"}]


def test_an_agent_that_gets_an_item_hears_of_it(page: TestClient, app: Application, world: World):
    item = list_ids(page)[0]

    act(page, "give_items", items=[item], to=world.agent)

    heard = call_tool(app, "agent_heartbeat", agent_id=world.agent)["notices"]
    assert [each["about"] for each in heard] == [item]
    assert world.agent in [each["id"] for each in read(page, "/inbox/people")["agents"]]


def test_bad_input_is_refused_and_says_what_helps(page: TestClient, clock: Clock):
    gone = page.post("/api/v1/actions/clear_items", json={"items": ["approval:ap_gone"]})
    past = page.post(
        "/api/v1/actions/snooze_items",
        json={"items": list_ids(page)[:1], "until": format_timestamp(clock.now)},
    )
    nobody = page.post("/api/v1/actions/give_items", json={"items": list_ids(page)[:1], "to": "ag_gone"})

    assert (gone.status_code, gone.json()["code"]) == (404, "ITEM_NOT_FOUND")
    assert past.json()["code"] == "INVALID_INPUT"
    assert nobody.json()["code"] == "AGENT_NOT_FOUND"
    assert read_error(page, "/inbox/evidence", item="approval:ap_gone") == (404, "ITEM_NOT_FOUND")


def test_tasks_that_failed_for_one_reason_are_one_item(page: TestClient, app: Application):
    plan = make_failures(app, ["core", "api", "page"])

    found = read(page, "/inbox", run=plan)

    [item] = found["items"]
    assert [part["task"]["name"] for part in item["same"]] == ["core", "api", "page"]
    assert found["counts"]["folded"] == 2
    assert item["tasks"] == 1  # release waits for all of them
    act(page, "clear_items", items=[item["id"]])
    assert read(page, "/inbox", run=plan)["items"] == []


def test_tasks_that_failed_for_different_reasons_are_items_of_their_own(page: TestClient, app: Application):
    plan = make_failures(app, ["core"], error="No disk.")
    other = make_failures(app, ["api", "page"], error="No disk.")

    assert len(read(page, "/inbox", run=plan)["items"]) == 1
    assert len(read(page, "/inbox", run=other)["items"]) == 1


def test_what_agents_wait_for_is_first_and_says_how_much_it_blocks(
    page: TestClient, app: Application, world: World
):
    run, task = start_run(app, world.plan), world.planned["backend"]
    parked = add_attempt(app, run, task, usd_micros=500_000)
    move(app, parked, AttemptStage.PARKED, parked_for=ParkedFor.PERSON, reason="Approve it.")
    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, task, world.plan, {"name": "backend"}))

    first = read(page, "/inbox")["items"][0]
    evidence = read(page, "/inbox/evidence", item=first["id"])

    assert first["id"] == f"approval:{asked.id}"
    assert first["agents"] >= 1
    assert first["tasks"] == 1
    assert evidence["blocks"]["tasks"] == ["ship"]
    assert evidence["commands"][0] == f"deepwork approvals approve {asked.id}"


def test_every_item_has_evidence(page: TestClient, app: Application):
    make_failures(app, ["core", "api"])

    for item in read(page, "/inbox")["items"]:
        found = read(page, "/inbox/evidence", item=item["id"])
        assert found["question"], item
        assert found["commands"], item


def test_the_terminal_lists_snoozes_clears_gives_and_restores(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    made = run_deepwork(project, "plans", "create", "Later", "--prompt", "x", "--json")
    plan = made.json["id"]
    task = {"summary": "s", "approach": "a", "tasks": [{"name": "one", "description": "d", "sequence": 1}]}
    (project / "plan.json").write_text(__import__("json").dumps(task))
    run_deepwork(project, "plans", "set-plan", plan, "plan.json")
    run_deepwork(project, "plans", "update-status", plan, "paused", "--reason", "Wait.")
    item = f"waiting_plan:{plan}"

    listed = run_deepwork(project, "inbox", "--json").json["items"]
    printed = run_deepwork(project, "inbox").out
    begun = [run_deepwork(project, "inbox", "show", each[:-4]).code for each in (item, plan)]
    short = run_deepwork(project, "inbox", "show", "waiting_plan:").code
    run_deepwork(project, "inbox", "snooze", plan, "--for", "2h")
    status = run_deepwork(project, "status", "--json").json["needs_you_total"]
    snoozed = run_deepwork(project, "inbox", "list", "--show", "snoozed", "--json").json["items"]
    run_deepwork(project, "inbox", "clear", item, "--note", "Known.")
    cleared = run_deepwork(project, "inbox", "list", "--show", "cleared", "--json").json["items"]
    run_deepwork(project, "inbox", "restore", item)
    run_deepwork(project, "inbox", "give", item, "--to", "ada")
    given = run_deepwork(project, "inbox", "list", "--show", "given", "--json").json["items"]
    shown = run_deepwork(project, "inbox", "show", item)

    assert [each["id"] for each in listed] == [item]
    assert f"{listed[0]['next']}  # " in printed
    assert (begun, short) == ([0, 0], 1)
    assert status == 0
    assert [each["id"] for each in snoozed] == [item]
    assert [each["id"] for each in cleared] == [item]
    assert [each["owner"] for each in given] == ["human:ada"]
    assert shown.code == 0


ESC = "\x1b"
PYTEST = f"""
=================================== FAILURES ===================================
{ESC}[31m______________________________ test_total_is_exact ______________________________{ESC}[0m

    def test_total_is_exact():
>       assert total() == 3
{ESC}[1m{ESC}[31mE       assert 4 == 3{ESC}[0m

____________________________________ test_two ____________________________________
E       other
=========================== short test summary info ============================
FAILED tests/test_total.py::test_total_is_exact - assert 4 == 3
FAILED tests/test_total.py::test_two - other
"""


def test_of_an_output_the_first_failure_is_cut_out_with_its_colors():
    text = keep_colors(PYTEST)

    found = find_failure(text, ["FAILED tests/test_total.py::test_total_is_exact - assert 4 == 3"])

    assert found is not None
    assert f"{ESC}[31mE       assert 4 == 3" in found
    assert "test_two" not in found


def test_only_escape_sequences_of_colors_are_kept():
    text = keep_colors(f"10 %\r50 %\r100 %\n{ESC}[2J{ESC}]0;title\x07{ESC}[32mok{ESC}[0m\x00\u202e")

    assert text == f"100 %\n{ESC}[32mok{ESC}[0m"
