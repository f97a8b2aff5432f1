"""What happened since a person left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool
from approvals.make import ask, decide
from dashboard.make import World, create_client, create_token, make_everything, read, read_error
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.runner.models import AttemptStage, ParkedFor
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.kernel.values import format_timestamp
from overview.make import add_landing


@pytest.fixture
def world(app: Application, tmp_path: Path, clock: Clock) -> World:
    return make_everything(app, tmp_path, clock)


def act(client: Any, tool: str) -> Any:
    answer = client.post(f"/api/v1/actions/{tool}", json={})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_happened_since_a_moment_is_listed_and_what_happened_before_is_not(
    app: Application, world: World, clock: Clock
):
    before = read(create_client(app), "/since", since="1h")
    clock.advance(seconds=7200)
    run = start_run(app, world.plan)
    parked = add_attempt(app, run, world.planned["ship"])
    move(app, parked, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, reason="Until 09:00.")
    landing = add_landing(app, world.plan, world.planned["design"], LandingStatus.LANDED, branch="main")

    found = read(create_client(app), "/since", since="1h")

    assert [each["id"] for each in before["failed"]["items"]] == [
        world.planned["frontend"],
        world.tasks["broken"],
    ]
    assert world.decision in [each["id"] for each in before["decided"]["items"]]
    assert world.planned["design"] in [each["id"] for each in before["done"]["items"]]
    assert [each["id"] for each in found["landed"]["items"]] == [landing.id]
    assert [(each["id"], each["detail"]) for each in found["parked"]["items"]] == [
        (parked.id, "Until 09:00.")
    ]
    assert found["landed"]["items"][0]["run"] == {"id": world.plan, "kind": "plan", "name": "Release"}
    assert found["total"] == 2
    assert found["failed"]["total"] == found["done"]["total"] == found["decided"]["total"] == 0


def test_what_was_spent_is_added_up_from_that_moment_on(app: Application, world: World, clock: Clock):
    def spend(usd: float) -> None:
        detail = {"usage": {"usd": usd, "tokens": 10}}
        call_tool(app, "checkpoint_add", task_id=world.planned["backend"], type="progress", summary="s",
                  agent_id=world.agent, detail=detail)  # fmt: skip

    spend(5.0)
    clock.advance(seconds=7200)
    spend(0.25)

    assert read(create_client(app), "/since", since="1h")["spent"] == {"usd": 0.25, "tokens": 10}
    assert read(create_client(app), "/since", since="1d")["spent"] == {
        "usd": 5.25,
        "tokens": 1020,  # 1,000 of them are those of a tracked task
    }


def test_what_i_approved_is_not_decided_without_me(app: Application, world: World):
    request = ApprovalRequest(ApprovalKind.TASK, world.planned["ship"], world.plan, {"name": "ship"})
    asked = ask(app, request)
    decide(app, asked.id, by="human:grace")
    grace, ada = (create_token(app, name, "work", is_person=True) for name in ("grace", "ada"))

    def list_decided(token: str) -> list[Any]:
        found = read(create_client(app, token), "/since", since="1h")["decided"]["items"]
        return [(each["id"], each["title"], each["by"]) for each in found if each["kind"] == "approval"]

    assert list_decided(ada) == [(asked.id, "ship", "human:grace")]
    assert list_decided(grace) == []


def test_a_person_with_a_token_of_their_own_hears_what_happened_since_their_last_visit(
    app: Application, clock: Clock
):
    ada = create_client(app, create_token(app, "ada", "work", is_person=True))
    seen = format_timestamp(clock.now)
    assert act(ada, "note_visit") == {"seen": seen, "is_kept": True}
    clock.advance(seconds=3599)
    assert not read(ada, "/since")["is_back"]

    clock.advance(seconds=1)
    back = read(ada, "/since")
    act(ada, "note_visit")
    clock.advance(seconds=60)
    act(ada, "note_visit")
    later = read(ada, "/since")

    assert (back["is_back"], back["since"], back["is_kept"]) == (True, seen, True)
    assert (later["is_back"], later["since"]) == (False, seen)  # still told about the last absence


def test_of_the_owner_a_browser_keeps_when_they_were_here(app: Application, clock: Clock):
    owner = create_client(app)
    assert act(owner, "note_visit") == {"is_kept": False}
    clock.advance(seconds=100_000)

    found = read(owner, "/since")

    assert (found["is_back"], found["is_kept"]) == (False, False)
    assert found["since"] == format_timestamp(clock.now - 8 * 3600 * 1000)


@pytest.mark.parametrize("since", ["yesterday", "8 parsecs", "2999-01-01", "-5h", "99999999w"])
def test_what_is_no_moment_in_the_past_is_refused(app: Application, since: str):
    assert read_error(create_client(app), "/since", since=since) == (400, "INVALID_INPUT")


@pytest.mark.parametrize("since", ["90m", "2027-01-15T07:00", "2027-01-15T07:00:00Z", "999999w"])
def test_periods_and_times_are_understood(app: Application, since: str):
    assert read(create_client(app), "/since", since=since)["total"] == 0
