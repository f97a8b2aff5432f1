"""The list of runs of all kinds: filters, order and pagination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import NOW, Clock, call_tool
from dashboard.make import World, read, read_error, read_pages
from deepwork.edge.server.application import Application
from deepwork.views.overview.run_lines import derive_phase_status
from deepwork.views.overview.work_operations import RunLine
from tracking import make as track


def list_names(answer: dict[str, Any]) -> list[str]:
    return [run["name"] for run in answer["runs"]]


def test_runs_of_all_kinds_are_in_one_list(world: World, page: TestClient):
    answer = read(page, "/runs", sort="name", order="asc")

    # The session has the real time of its file, which the test clock does not control, so compare by name.
    assert list_names(answer) == ["Docs", "Later", "letter/main", "Payments", "Release"]
    assert (answer["total"], answer["cursor"]) == (5, None)
    assert [RunLine(**run).model_dump(mode="json") for run in answer["runs"]] == answer["runs"]


def test_a_run_has_its_progress(world: World, page: TestClient):
    lines = {run["name"]: run for run in read(page, "/runs")["runs"]}

    payments = lines["Payments"]
    assert payments["status"] == "blocked"
    assert payments["phase"] == {
        "current": 2, "total": 3, "statuses": ["completed", "in_progress", "pending"],
    }  # fmt: skip
    assert payments["tasks"] == {"total": 5, "done": 2, "failed": 1, "running": 2}
    assert (payments["blockers"], payments["tokens"], payments["agents"]) == (1, 1000, ["Ada", "Grace"])
    assert payments["last_milestone"] == "tests are red"
    assert "ended_at" not in payments
    release = lines["Release"]
    assert (release["status"], release["phase"]) == ("in_progress", payments["phase"])
    assert release["tasks"] == {"total": 4, "done": 1, "failed": 1, "running": 1}
    assert release["agents"] == ["Ada"]
    letter = lines["letter/main"]
    assert (letter["status"], letter["objective"]) == ("active", "Write to everybody.")
    assert (letter["phase"], letter["tasks"]["done"]) == (payments["phase"], 1)
    assert lines["Docs"]["ended_at"]


def test_failed_phases_and_phases_that_never_started_are_not_shown_as_completed(
    app: Application, page: TestClient
):
    id = track.create_workflow(app, name="Half")
    for number, status in ((1, "failed"), (3, "completed")):
        call_tool(app, "complete_phase", phase_id=track.create_phase(app, id, number), status=status)
    call_tool(app, "complete_workflow", workflow_id=id, status="completed", summary="Enough.")

    [line] = read(page, "/runs")["runs"]

    assert line["phase"]["statuses"][:3] == ["failed", "pending", "completed"]


def test_the_statuses_of_many_phases_are_left_out(app: Application, page: TestClient):
    track.create_workflow(app, total_phases=13)

    [line] = read(page, "/runs")["runs"]

    assert line["phase"] == {"current": 0, "total": 13}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ({"total": 2, "done": 2}, "completed"),
        ({"total": 2, "done": 1}, "in_progress"),
        ({"total": 2, "failed": 1, "running": 1}, "in_progress"),
        ({"total": 2, "done": 1, "failed": 1}, "failed"),
        ({"total": 2}, "pending"),
    ],
)
def test_the_status_of_a_level_follows_from_its_tasks(tasks: dict[str, int], expected: str):
    assert derive_phase_status(tasks) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"kind": "plan"}, ["Later", "Release"]),
        ({"kind": "job"}, ["letter/main"]),
        ({"status": "blocked"}, ["Payments"]),
        ({"status": "completed,PAUSED"}, ["Docs", "Later"]),
        ({"status": "in_progress", "kind": "track"}, []),
        ({"status": "pending"}, []),
        ({"status": "PENDING,blocked"}, ["Payments"]),
        ({"q": "currencies"}, ["Payments"]),
        ({"q": "VERSION 2"}, ["Release"]),
        ({"q": "everybody"}, ["letter/main"]),
        ({"q": "polish"}, []),
        ({"q": "100%"}, []),
        ({"agent": "Grace"}, ["Payments"]),
        ({"agent": "Ada"}, ["Payments", "Release"]),
        ({"profile": "complex"}, []),
        ({"profile": "STANDARD", "q": "money"}, ["Payments"]),
        ({"profile": "standard", "kind": "plan"}, []),
        ({"since": "2999-01-01T00:00:00Z"}, []),
        ({"until": "2999-01-01T00:00:00Z", "kind": "track"}, ["Docs", "Payments"]),
    ],
)
def test_runs_are_filtered(world: World, page: TestClient, query: dict[str, str], expected: list[str]):
    answer = read(page, "/runs", **query)

    assert sorted(list_names(answer)) == expected
    assert answer["total"] == len(expected)


KEYS: dict[str, Callable[[Any], Any]] = {
    "started": lambda run: run["started_at"],
    "updated": lambda run: run["updated_at"],
    "name": lambda run: run["name"].lower(),
}


@pytest.mark.parametrize("sort", KEYS)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_each_run_is_on_exactly_one_page(
    app: Application, page: TestClient, clock: Clock, sort: str, order: str
):
    for number in range(5):
        track.create_workflow(app, name=f"run {number}")
        call_tool(
            app, "workflow_create", name=f"Run {number}b", source_type="prompt", source_content="x"
        )  # fmt: skip
        clock.advance(seconds=number % 2)  # some at the same time

    pages = read_pages(page, "/runs", "runs", sort=sort, order=order, limit=3)

    assert [len(part) for part in pages] == [3, 3, 3, 1]
    turned = [run["id"] for part in pages for run in part]
    assert turned == [run["id"] for run in read(page, "/runs", sort=sort, order=order)["runs"]]
    assert len(set(turned)) == 10
    keys = [KEYS[sort](run) for part in pages for run in part]
    assert keys == sorted(keys, reverse=order == "desc")


def test_runs_started_meanwhile_do_not_shift_pages(app: Application, page: TestClient, clock: Clock):
    before = [track.create_workflow(app, name=f"run {number}") for number in range(4)]
    first = read(page, "/runs", limit=2)
    clock.advance(seconds=1)
    track.create_workflow(app, name="new")

    second = read(page, "/runs", limit=2, cursor=first["cursor"])

    assert {run["id"] for run in first["runs"] + second["runs"]} == set(before)
    assert (second["total"], second["cursor"]) == (5, None)


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "dream"}, {"status": "asleep"}, {"since": "yesterday"}, {"sort": "mood"}, {"limit": "0"},
        {"limit": "501"}, {"cursor": "made up"}, {"cursor": "WzFd"}, {"nonsense": "1"}, {"q": "x" * 201},
    ],
)  # fmt: skip
def test_invalid_queries_are_refused(page: TestClient, query: dict[str, str]):
    assert read_error(page, "/runs", **query) == (400, "INVALID_INPUT")


def test_a_cursor_of_another_order_is_refused(app: Application, page: TestClient):
    for number in range(2):
        track.create_workflow(app, name=f"run {number}")
    cursor = read(page, "/runs", limit=1, sort="name")["cursor"]

    assert read_error(page, "/runs", limit=1, sort="started", cursor=cursor) == (400, "INVALID_INPUT")


def test_since_and_until_filter_by_start(app: Application, page: TestClient, clock: Clock):
    track.create_workflow(app, name="old")
    clock.advance(seconds=3600)
    track.create_workflow(app, name="new")
    assert NOW == 1_800_000_000_000

    assert list_names(read(page, "/runs", since="2027-01-15T08:30:00Z")) == ["new"]
    assert list_names(read(page, "/runs", until="2027-01-15T08:30:00+00:00")) == ["old"]
