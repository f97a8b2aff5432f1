"""Agents at work, what they wrote, and what people do with one of them, over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from application import Clock
from dashboard.make import World, create_client, create_token, read, read_error
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.lanes import QUIET_MS
from deepwork.delivery.runner.models import Attempt, AttemptStage, ParkedFor
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.edge.server.application import Application
from deepwork.gates.budgets.models import CostSource

STREAMS = Path(__file__).parents[1] / "runner" / "streams"


def write_output(app: Application, attempt: Attempt, start: int, text: str, prompt: str = "") -> None:
    files = AttemptFiles.locate(app.settings.state_folder, attempt.id, start)
    files.folder.mkdir(parents=True, exist_ok=True)
    files.stdout.write_text(text)
    if prompt:
        files.prompt.write_text(prompt)


def read_transcript(page: TestClient, attempt: Attempt, **query: Any) -> Any:
    return read(page, f"/runner/attempts/{attempt.id}/transcript", **query)


def post(page: TestClient, attempt: Attempt, verb: str) -> Any:
    return page.post(f"/api/v1/runner/attempts/{attempt.id}/{verb}", json={})


# Lanes


def test_a_lane_says_what_an_agent_does_and_what_it_used(
    world: World, app: Application, page: TestClient, clock: Clock
):
    run = start_run(app, world.plan)
    state = StreamState(
        model="claude-opus-4-8", open_tools={"a": "Read: a.py", "b": "Bash: make test"}, doing_since=clock.now,
        last_message="First.\nAll sums are exact now.\n", context_tokens=84_000,
    )  # fmt: skip
    works = add_attempt(
        app, run, world.planned["ship"], stream_state=state.to_json(), active_at=clock.now, input_tokens=90,
        usd_micros=250_000, usd_source=CostSource.REPORTED,
    )  # fmt: skip
    silent = add_attempt(
        app, run, world.planned["backend"], profile="make", vendor="command", active_at=clock.now
    )
    ended = move(app, add_attempt(app, run, world.planned["design"]), AttemptStage.FAILED, reason="No.")
    clock.advance(seconds=QUIET_MS / 1000 + 1)

    found = read(page, "/runner/lanes")

    lanes = {each["id"]: each for each in found["lanes"]}
    lane, other = lanes[works.id], lanes[silent.id]
    assert (found["total"], ended.id in lanes) == (2, False)
    assert (lane["tool"], lane["last_line"], lane["context_tokens"]) == (
        "Bash: make test", "All sums are exact now.", 84_000,
    )  # fmt: skip
    assert (lane["model"], lane["tokens"], lane["usd"]) == ("claude-opus-4-8", 90, 0.25)
    assert lane["doing_since"] == lane["quiet_since"]
    assert {"tokens", "usd", "context_tokens", "tool"} & other.keys() == set()  # unknown is not 0
    assert read(page, f"/runner/lanes/{works.id}") == lane
    assert read(page, f"/runner/lanes/{ended.id}")["state"] == "failed"


# Transcripts


@pytest.mark.parametrize("vendor", ["claude", "codex", "gemini", "opencode"])
def test_a_transcript_is_the_same_for_every_vendor(
    world: World, app: Application, page: TestClient, vendor: str
):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"], vendor=vendor)
    write_output(app, attempt, 1, (STREAMS / f"{vendor}_task.jsonl").read_text(), prompt="Write hi.")

    found = read_transcript(page, attempt)["entries"]

    kinds = list(dict.fromkeys(each["kind"] for each in found))
    [tool, *_], [result] = ([each for each in found if each["kind"] == kind] for kind in ("tool", "result"))
    assert kinds == ["prompt", "session", "tool", "result", "said", "end"]
    assert found[0]["text"] == "Write hi."
    assert "printf hi > a.txt" in tool["text"]
    assert tool["tool_id"] == result["tool_id"]
    assert [each["text"] for each in found if each["kind"] == "said"] == ["Wrote a.txt."]


def test_pages_of_a_transcript_fit_together_over_all_starts(world: World, app: Application, page: TestClient):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"], vendor="command", starts=2)
    lines = [f"line {number} {'x' * 200}" for number in range(60)]
    write_output(app, attempt, 1, "".join(f"{line}\n" for line in lines[:40]), prompt="First.")
    write_output(app, attempt, 2, "".join(f"{line}\n" for line in lines[40:]) + "half a li", prompt="Again.")

    end = read_transcript(page, attempt, max_bytes=1024)
    pages = [end]
    while pages[0]["has_earlier"]:
        pages.insert(0, read_transcript(page, attempt, before=pages[0]["first"], max_bytes=1024))
    forward = read_transcript(page, attempt, after=pages[0]["first"], max_bytes=1024)
    write_output(app, attempt, 2, "".join(f"{line}\n" for line in lines[40:]) + "half a line\n")
    after = read_transcript(page, attempt, after=end["last"])

    entries = [each for each_page in pages for each in each_page["entries"]]
    assert len(pages) > 10
    assert [each["text"] for each in entries if each["kind"] == "output"] == lines
    assert [each["text"] for each in entries if each["kind"] == "prompt"] == ["First.", "Again."]
    assert len({each["key"] for each in entries}) == len(entries)
    assert forward["entries"][0]["text"] == lines[0]
    assert ([each["text"] for each in after["entries"]], after["is_over"]) == (["half a line"], False)


def test_a_line_that_is_longer_than_a_page_is_cut_and_hides_nothing(
    world: World, app: Application, page: TestClient
):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"], vendor="command")
    write_output(app, attempt, 1, f"before\n{'x' * 3_000_000}\nafter\n")

    found = read_transcript(page, attempt, max_bytes=4096)
    texts = [each["text"] for each in found["entries"]]
    while found["has_earlier"]:
        found = read_transcript(page, attempt, before=found["first"], max_bytes=4096)
        texts = [*[each["text"] for each in found["entries"]], *texts]

    assert (texts[0], texts[-1]) == ("before", "after")
    assert max(map(len, texts)) < 40_000


def test_a_transcript_that_is_not_there_says_why(world: World, app: Application, page: TestClient):
    run = start_run(app, world.plan)
    new = add_attempt(app, run, world.planned["ship"], starts=0, stage=AttemptStage.CLAIMED)
    gone = add_attempt(app, run, world.planned["backend"])

    assert read_transcript(page, new)["reason"] == "The agent was not started yet."
    assert "removed" in read_transcript(page, gone)["reason"]
    for wrong in ({"after": "x"}, {"after": "1-0", "before": "1-0"}, {"after": f"1-{'9' * 40}"}):
        assert read_error(page, f"/runner/attempts/{gone.id}/transcript", **wrong)[0] == 400


def test_who_only_reads_sees_no_transcript(world: World, app: Application):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"])
    reader = create_client(app, create_token(app, "reader", "read"))

    assert reader.get(f"/api/v1/runner/attempts/{attempt.id}/transcript").status_code == 403


# What people do


def test_a_parked_attempt_is_held_at_once_and_continues(world: World, app: Application, page: TestClient):
    attempt = add_attempt(
        app, start_run(app, world.plan), world.planned["ship"], tree="/trees/it's", vendor_session="s-1"
    )
    move(app, attempt, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, reason="Until 07:00.", not_before=1)

    taken = post(page, attempt, "take").json()
    needs = [each["id"] for each in read(page, "/home")["needs_you"] if each["kind"] == "parked_attempt"]
    back = post(page, attempt, "continue").json()
    refused = post(
        page,
        add_attempt(
            app, start_run(app, None, job="j", goal="g"), f"{world.job}/draft", stage=AttemptStage.CHECKING
        ),
        "pause",
    )

    assert (taken["parked_for"], taken["reason"]) == ("taken", "owner has taken over its session.")
    assert taken["takeover"]["command"] == "cd '/trees/it'\"'\"'s' && claude --resume s-1"
    assert needs == [attempt.id]
    assert (back["wish"], back["parked_for"]) == ("continue", "taken")
    assert (refused.status_code, refused.json()["code"]) == (409, "INVALID_STATE")


@pytest.mark.parametrize("verb", ["pause", "take", "continue", "stop"])
def test_only_a_person_does_something_with_an_attempt(world: World, app: Application, verb: str):
    attempt = add_attempt(app, start_run(app, world.plan), world.planned["ship"])
    client = create_client(app, create_token(app, "robot", "work"))

    assert post(client, attempt, verb).status_code == 403
    assert "wish" not in read(client, f"/runner/attempts/{attempt.id}")
