"""Sessions: ownership, stacks, restarts, and the events they emit."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import ClientTransport, SSETransport, StreamableHttpTransport

import quick
from application import list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import (
    Code,
    Conflict,
    DeepworkError,
    DefinitionError,
    InvalidInput,
    NotAllowed,
    NotFound,
    StateError,
)
from http_tests.http_server import HttpServer
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import call_job_tool, finish_step, get_session, get_session_file, open_app, start_job
from jobs.tool_client import ToolCallError, ToolClient


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md", "c.md", "x.md")
    write_job(tmp_path, "chain", [make_step("a"), make_step("b"), make_step("c")])
    same = {"out": {"type": "file", "description": "x", "required": True}}
    write_job(tmp_path, "same", [make_step("a", same), make_step("b", same), make_step("c", same)])
    write_job(tmp_path, "reviewed", [make_step("a", reviews=[make_review()]), make_step("b")])
    return tmp_path


@pytest.fixture
def app(root: Path) -> Iterator[Application]:
    made = open_app(root)
    yield made
    made.close()


def run_in_process(root: Path, *code: str) -> str:
    """Run code in a process that then ends, like a server that was restarted."""
    lines = [
        "from pathlib import Path",
        "from jobs.runs import *",
        f"app = open_app(Path({str(root)!r}))",
        *code,
        "app.close()",
    ]
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tests)!r})\n" + "\n".join(lines)],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    return done.stdout.strip()


def start_in_dead_process(root: Path, name: str = "chain", **more: Any) -> str:
    return run_in_process(root, f"print(start_job(app, {name!r}, **{more!r}))")


# W1, J11: restart and take-over


def test_w1_after_a_restart_a_session_continues_by_its_id(root: Path, app: Application):
    id = start_in_dead_process(root)

    answer = finish_step(app, "a.md", session_id=id)

    assert (answer["status"], answer["begin_step"]["step_id"], answer["taken_over"]) == (
        "next_step",
        "b",
        None,
    )
    assert finish_step(app, "b.md")["begin_step"]["step_id"] == "c"


def test_w1_after_a_restart_the_only_orphan_is_taken_over(root: Path, app: Application):
    id = start_in_dead_process(root)

    answer = finish_step(app, "a.md")

    assert (answer["begin_step"]["session_id"], answer["taken_over"]) == (id, True)
    assert answer["stack"] == [{"workflow": "chain/main", "step": "b"}]
    assert finish_step(app, "b.md")["taken_over"] is None


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_session_that_came_with_a_repository_is_not_used(root: Path, app: Application, version: str):
    """It could say what a person decided, and the only orphan would be taken over."""
    id = start_in_dead_process(root)
    for words in (["init", "-q"], ["config", "index.version", version], ["add", "-f", ".deepwork/tmp"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    before = get_session_file(root, id).read_bytes()

    with pytest.raises(StateError, match=r"git tracks \.deepwork/tmp/session_") as refused:
        get_session(app, id)
    assert f"git rm -f .deepwork/tmp/session_{id}.json" in refused.value.suggestion
    with pytest.raises(DeepworkError) as unknown:
        finish_step(app, "a.md")
    assert unknown.value.code == "NO_ACTIVE_SESSION"
    assert get_session_file(root, id).read_bytes() == before

    subprocess.run(["git", "rm", "-q", "-f", f".deepwork/tmp/session_{id}.json"], cwd=root, check=True)
    assert get_session(app, start_job(app))


def test_a_takeover_is_reported_even_if_the_step_needs_work(root: Path, app: Application):
    start_in_dead_process(root, "reviewed")

    answer = finish_step(app, "a.md")

    assert (answer["status"], answer["taken_over"]) == ("needs_work", True)


def test_a_refused_call_takes_no_session_over(root: Path, app: Application):
    start_in_dead_process(root)

    with pytest.raises(InvalidInput):
        finish_step(app, "nothing")

    assert call_job_tool(app, "get_workflows")["stack"] == []
    assert finish_step(app, "a.md")["taken_over"] is True


def test_j11_several_orphans_are_listed_and_none_is_taken_over(root: Path, app: Application):
    ids = [start_in_dead_process(root, goal=f"goal {number}") for number in range(2)]

    with pytest.raises(StateError) as refused:
        finish_step(app, "a.md")

    assert refused.value.code is Code.NO_ACTIVE_SESSION
    assert all(each in refused.value.message for each in (*ids, "goal 0", "goal 1", "step a"))


def test_j11_a_session_of_a_running_process_is_not_taken_over(root: Path, app: Application):
    id = start_job(app)
    with_its_own_stack = open_app(root)

    with pytest.raises(StateError, match=id):
        finish_step(with_its_own_stack, "a.md")

    with_its_own_stack.close()


def test_1_6_4_abort_takes_no_session_over(root: Path, app: Application):
    id = start_in_dead_process(root)

    with pytest.raises(StateError, match=id) as refused:
        call_job_tool(app, "abort_workflow", explanation="x")

    assert refused.value.code is Code.NO_ACTIVE_SESSION
    assert call_job_tool(app, "abort_workflow", explanation="x", session_id=id)["aborted_step"] == "a"


def test_only_one_of_two_processes_takes_an_orphan_over(
    root: Path, app: Application, monkeypatch: pytest.MonkeyPatch
):
    start_in_dead_process(root, "same")
    found = threading.Barrier(2)
    apps = [app, open_app(root)]
    for each in apps:
        resolve = each.sessions._resolve

        def together(*given: Any, resolve: Any = resolve, **more: Any) -> Any:
            result = resolve(*given, **more)
            found.wait(timeout=60)
            return result

        monkeypatch.setattr(each.sessions, "_resolve", together)

    outcomes = run_together(
        *(lambda each=each: call_job_tool(each, "finished_step", outputs={"out": "x.md"}) for each in apps)
    )

    won = [each for each in outcomes if isinstance(each, dict)]
    assert [each["taken_over"] for each in won] == [True]
    apps[1].close()


def run_together(*works: Any) -> list[Any]:
    """What each piece of work gave, or raised, all begun at the same moment."""
    results: list[Any] = [None] * len(works)
    ready = threading.Barrier(len(works))

    def run(place: int) -> None:
        ready.wait()
        try:
            results[place] = works[place]()
        except DeepworkError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# W2, W3: at the same time


def test_w2_workflows_started_concurrently_do_not_affect_each_other(root: Path):
    with ToolClient(quick.build_transport(root)) as talk:
        names = ["chain", "same"] * 5
        answers = talk.call_together(
            *(("start_workflow", {"goal": name, "job_name": name, "workflow_name": "main"}) for name in names)
        )

        for name, answer in zip(names, answers, strict=True):
            kept = talk.call("get_session", session_id=answer["begin_step"]["session_id"])["session"]
            assert (kept["job_name"], kept["goal"], list(kept["step_progress"])) == (name, name, ["a"])
        assert sorted(len(answer["stack"]) for answer in answers) == list(range(1, 11))
        assert len(talk.call("get_workflows")["stack"]) == 10


@pytest.mark.parametrize("by", ["step_id", "key"])
def test_w3_only_one_of_three_identical_calls_completes_the_step(root: Path, app: Application, by: str):
    id = start_job(app, "same")
    more = {"step_id": "a"} if by == "step_id" else {"key": "once"}

    outcomes = run_together(
        *[lambda: call_job_tool(app, "finished_step", outputs={"out": "x.md"}, session_id=id, **more)] * 3
    )

    done = get_session(app, id)
    assert done["current_step_id"] == "b"
    if by == "key":
        assert [each["begin_step"]["step_id"] for each in outcomes] == ["b"] * 3
    else:
        refused = [each for each in outcomes if isinstance(each, NotAllowed)]
        assert len(refused) == 2
        assert "'b'" in refused[0].message


def test_w3_without_a_step_id_or_key_each_call_completes_one_step(root: Path, app: Application):
    """Nothing tells three identical calls from three pieces of work; but none is half applied."""
    id = start_job(app, "same")

    outcomes = run_together(
        *[lambda: call_job_tool(app, "finished_step", outputs={"out": "x.md"}, session_id=id)] * 3
    )

    assert sorted(each["status"] for each in outcomes) == ["next_step", "next_step", "workflow_complete"]
    assert {each["begin_step"]["step_id"] for each in outcomes if each["begin_step"]} == {"b", "c"}
    assert get_session(app, id)["status"] == "completed"


# keys


def test_a_repeated_key_returns_the_first_answer_without_a_second_effect(root: Path, app: Application):
    calls: list[tuple[str, dict[str, Any]]] = [
        ("start_workflow", {"goal": "x", "job_name": "chain", "workflow_name": "main"}),
        ("finished_step", {"outputs": {"a.md": "a.md"}}),
        ("go_to_step", {"step_id": "a"}),
        ("abort_workflow", {"explanation": "x"}),
    ]
    for tool, given in calls:
        first, second = (call_job_tool(app, tool, key="k", **given) for _ in range(2))
        assert first == second, tool

    assert len(app.sessions.list_all()) == 1
    assert list_event_types(app).count("session:updated") == 2


@pytest.mark.parametrize(
    ("tool", "given", "other"),
    [
        ("start_workflow", {"goal": "x", "job_name": "chain", "workflow_name": "main"}, {"goal": "y"}),
        ("finished_step", {"outputs": {"a.md": "a.md"}}, {"notes": "other"}),
        ("abort_workflow", {"explanation": "x"}, {"explanation": "y"}),
        ("go_to_step", {"step_id": "a"}, {"step_id": "b"}),
    ],
)
def test_a_key_with_different_arguments_is_refused(
    root: Path, app: Application, tool: str, given: dict[str, Any], other: Any
):
    if tool != "start_workflow":
        start_job(app)
    call_job_tool(app, tool, key="k", **given)

    with pytest.raises(Conflict) as refused:
        call_job_tool(app, tool, key="k", **given | other)

    assert refused.value.code is Code.KEY_REUSED


def test_a_repeated_last_step_is_not_applied_to_the_outer_workflow(root: Path, app: Application):
    outer = start_job(app, "same")
    write_job(
        root, "short", [make_step("a", {"out": {"type": "file", "description": "x", "required": True}})]
    )
    start_job(app, "short")
    first = call_job_tool(app, "finished_step", key="k", outputs={"out": "x.md"})

    again = call_job_tool(app, "finished_step", key="k", outputs={"out": "x.md"})

    assert first == again
    assert first["status"] == "workflow_complete"
    assert get_session(app, outer)["current_step_id"] == "a"


def test_a_key_reused_after_a_later_call_is_refused(root: Path, app: Application):
    start_job(app, "same")
    for key in ("one", "two"):
        call_job_tool(app, "finished_step", key=key, outputs={"out": "x.md"})

    with pytest.raises(NotAllowed, match="was already executed"):
        call_job_tool(app, "finished_step", key="one", outputs={"out": "x.md"})


def test_a_failed_attempt_repeated_under_its_key_is_counted_once(root: Path, app: Application):
    id = start_job(app, "reviewed")

    answers = [finish_step(app, "a.md", key="k") for _ in range(3)]

    assert answers[0] == answers[1] == answers[2]
    assert get_session(app, id)["step_progress"]["a"]["quality_attempts"] == 1


def test_a_key_still_applies_after_a_restart(root: Path, app: Application):
    first = json.loads(
        run_in_process(
            root, "import json", "start_job(app)", "print(json.dumps(finish_step(app, 'a.md', key='k')))"
        )
    )

    assert finish_step(app, "a.md", key="k") == first


# J20: go back, look, try


def test_go_to_step_clears_later_steps_and_keeps_their_files(root: Path, app: Application):
    id = start_job(app)
    finish_step(app, "a.md")
    finish_step(app, "b.md")

    answer = call_job_tool(app, "go_to_step", step_id="a")

    assert (answer["status"], answer["begin_step"]["step_id"]) == ("next_step", "a")
    assert answer["cleared_steps"] == ["a", "b", "c"]
    assert list(get_session(app, id)["step_progress"]) == ["a"]
    assert (root / "b.md").exists()
    assert [finish_step(app, name)["status"] for name in ("a.md", "b.md", "c.md")][-1] == "workflow_complete"


@pytest.mark.parametrize(("step_id", "error"), [("c", NotAllowed), ("nowhere", InvalidInput)])
def test_go_to_step_accepts_only_an_earlier_step(
    root: Path, app: Application, step_id: str, error: type[DeepworkError]
):
    start_job(app)
    finish_step(app, "a.md")

    with pytest.raises(error):
        call_job_tool(app, "go_to_step", step_id=step_id)


def test_get_session_returns_the_current_session_even_after_a_restart(root: Path, app: Application):
    id = start_in_dead_process(root)

    seen = call_job_tool(app, "get_session")

    assert (seen["session"]["session_id"], seen["begin_step"]["step_instructions"]) == (id, "Do a.")
    assert seen["stack"] == []
    assert "owner" not in seen["session"]


def test_get_session_with_an_unknown_id_is_an_error(app: Application):
    for id in ("zzzzzzzz", "../../x", "x"):
        with pytest.raises(NotFound) as refused:
            call_job_tool(app, "get_session", session_id=id)
        assert refused.value.code is Code.SESSION_NOT_FOUND


def test_validate_outputs_changes_nothing(root: Path, app: Application):
    id = start_job(app, "reviewed")
    before = get_session_file(root, id).read_bytes()

    answers = [
        call_job_tool(app, "validate_outputs", outputs=each)["valid"]
        for each in ({"a.md": "a.md"}, {"z": "z"}, {})
    ]

    assert answers == [True, False, False]
    assert get_session_file(root, id).read_bytes() == before


# W7, W8, W11: definitions that change


def test_w7_the_step_order_is_fixed_when_the_session_starts(root: Path, app: Application):
    start_job(app)
    finish_step(app, "a.md")
    write_files(root, "new.md")
    write_job(
        root,
        "chain",
        [make_step("new"), make_step("a"), make_step("b"), make_step("c")],
        main=["new", "a", "c", "b"],
    )
    (root / ".deepwork/jobs/chain/steps/c.md").write_text("Do c well.")

    answer = finish_step(app, "b.md")

    assert (answer["begin_step"]["step_id"], answer["begin_step"]["step_instructions"]) == ("c", "Do c well.")
    assert finish_step(app, "c.md")["status"] == "workflow_complete"


def test_w7_a_removed_step_is_named_and_the_session_can_be_aborted(root: Path, app: Application):
    id = start_job(app)
    write_job(root, "chain", [make_step("b"), make_step("c")])

    calls: list[tuple[str, dict[str, Any]]] = [
        ("finished_step", {"outputs": {"a.md": "a.md"}}),
        ("get_session", {}),
    ]
    for tool, given in calls:
        with pytest.raises(StateError, match="'a'") as refused:
            call_job_tool(app, tool, **given)
        assert refused.value.code is Code.INVALID_STATE
        assert "abort_workflow" in refused.value.suggestion

    assert call_job_tool(app, "abort_workflow", explanation="gone")["aborted_step"] == "a"
    assert get_session(app, id)["status"] == "aborted"


def test_w7_a_session_of_a_removed_job_can_be_aborted(root: Path, app: Application):
    start_job(app)
    (root / ".deepwork/jobs/chain/job.yml").unlink()

    with pytest.raises(NotFound):
        finish_step(app, "a.md")

    assert call_job_tool(app, "abort_workflow", explanation="gone")["aborted_workflow"] == "chain/main"


@pytest.mark.parametrize(
    "shape", ["absolute", "../outside/chain", "./chain", "chain/", "..", "chain/../chain"]
)
def test_w8_a_path_is_not_accepted_as_a_job_name(root: Path, app: Application, shape: str):
    outside = write_job(root / "elsewhere", "chain", [make_step("a")])
    name = str(outside) if shape == "absolute" else shape

    with pytest.raises((NotFound, InvalidInput)):
        start_job(app, name)

    assert app.sessions.list_all() == []


def test_w11_missing_instructions_of_the_next_step_leave_the_state_unchanged(root: Path, app: Application):
    id = start_job(app)
    before = app.sessions.load(id)
    (root / ".deepwork/jobs/chain/steps/b.md").unlink()

    with pytest.raises(DefinitionError, match=r"steps/b\.md"):
        finish_step(app, "a.md")

    # Not with get_session: a job.yml that was written a moment ago is read again, and is not valid now.
    assert app.sessions.load(id).step_progress == before.step_progress
    (root / ".deepwork/jobs/chain/steps/b.md").write_text("Do b again.")
    assert finish_step(app, "a.md")["begin_step"]["step_instructions"] == "Do b again."


def test_w11_missing_instructions_of_the_first_step_leave_no_session(root: Path, app: Application):
    (root / ".deepwork/jobs/chain/steps/a.md").unlink()

    with pytest.raises(DefinitionError):
        start_job(app)

    assert app.sessions.list_all() == []
    assert call_job_tool(app, "get_workflows")["stack"] == []


# stacks


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_w19_two_clients_have_separate_stacks(root: Path, transport: str):
    with HttpServer(root, transport=transport) as server:

        def door() -> ClientTransport:
            if transport == "http":
                return StreamableHttpTransport(f"{server.url}/mcp")
            return SSETransport(f"{server.url}/sse")

        with ToolClient(door(), mode="legacy") as ada, ToolClient(door(), mode="legacy") as bob:
            given = {"goal": "x", "workflow_name": "main"}
            of_ada = ada.call("start_workflow", job_name="chain", **given)
            of_bob = bob.call("start_workflow", job_name="same", **given)

            assert [entry["workflow"] for entry in of_bob["stack"]] == ["same/main"]
            assert bob.call("finished_step", outputs={"out": "x.md"})["stack"] == [
                {"workflow": "same/main", "step": "b"}
            ]
            id = of_ada["begin_step"]["session_id"]
            assert ada.call("get_session", session_id=id)["session"]["current_step_id"] == "a"
            with pytest.raises(ToolCallError, match="Unknown output"):
                ada.call("finished_step", outputs={"out": "x.md"})


def test_w19_indistinguishable_clients_must_name_their_session(root: Path):
    with HttpServer(root) as server:
        door = StreamableHttpTransport(f"{server.url}/mcp")
        with (
            ToolClient(door, mode="auto") as ada,
            ToolClient(StreamableHttpTransport(f"{server.url}/mcp"), mode="auto") as bob,
        ):
            given = {"goal": "x", "workflow_name": "main", "job_name": "same"}
            ids = [each.call("start_workflow", **given)["begin_step"]["session_id"] for each in (ada, bob)]

            with pytest.raises(ToolCallError, match=ids[1]) as refused:
                bob.call("finished_step", outputs={"out": "x.md"})

            assert refused.value.code == "NO_ACTIVE_SESSION"
            answer = bob.call("finished_step", outputs={"out": "x.md"}, session_id=ids[1])
            assert answer["begin_step"]["session_id"] == ids[1]
            assert ada.call("get_session", session_id=ids[0])["session"]["current_step_id"] == "a"


def test_a_session_ended_by_another_client_is_reported_once_before_the_outer_one_resumes(
    root: Path, app: Application
):
    start_job(app)
    inner = start_job(app, "same")
    call_job_tool(open_app(root), "abort_workflow", explanation="by a human", session_id=inner)

    with pytest.raises(StateError, match="by a human"):
        call_job_tool(app, "finished_step", outputs={"out": "x.md"})

    assert finish_step(app, "a.md")["begin_step"]["step_id"] == "b"


def test_sessions_leak_no_file_descriptors(root: Path, app: Application):
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    for number in range(30):
        if number == 5:
            before = descriptors()
        call_job_tool(app, "abort_workflow", explanation="x", session_id=start_job(app))

    assert descriptors() <= before + 2


# events and rows


def test_every_change_emits_one_event_and_updates_the_row(root: Path, app: Application):
    id = start_job(app)
    for name in ("a.md", "b.md", "c.md"):
        finish_step(app, name)
    given_up = start_job(app)
    call_job_tool(app, "abort_workflow", explanation="x")

    assert list_event_types(app) == [
        "session:started", "session:updated", "session:updated", "session:completed",
        "session:started", "session:aborted",
    ]  # fmt: skip
    assert [event.workflow_id for event in list_events(app)] == [id] * 4 + [given_up] * 2
    assert read_rows(app) == {id: ("completed", 4), given_up: ("aborted", 2)}


def read_rows(app: Application) -> dict[str, tuple[str, int]]:
    with app.database.reading() as tx:
        found = tx.fetch_all("SELECT id, status, generation FROM job_sessions")
    return {row["id"]: (row["status"], row["generation"]) for row in found}


def test_a_change_that_a_process_failed_to_publish_is_published_by_the_next_one(
    root: Path, app: Application, monkeypatch: pytest.MonkeyPatch
):
    id = start_job(app)
    with monkeypatch.context() as dying:
        dying.setattr(app.sessions, "_publish", lambda *_: None)
        finish_step(app, "a.md")
    assert read_rows(app)[id] == ("active", 1)

    finish_step(app, "b.md")

    assert read_rows(app)[id] == ("active", 3)
    assert list_event_types(app) == ["session:started", "session:updated", "session:updated"]


@pytest.mark.parametrize("is_last", [False, True])
def test_a_repeated_call_publishes_what_the_killed_process_did_not(
    root: Path, app: Application, monkeypatch: pytest.MonkeyPatch, is_last: bool
):
    id = start_job(app)
    steps = ["a.md", "b.md", "c.md"] if is_last else ["a.md"]
    for name in steps[:-1]:
        finish_step(app, name)
    with monkeypatch.context() as dying:
        dying.setattr(app.sessions, "_publish", lambda *_: None)
        first = finish_step(app, steps[-1], key="k", session_id=id)

    again = finish_step(app, steps[-1], key="k", session_id=id)

    assert again == first
    assert read_rows(app)[id] == (("completed", 4) if is_last else ("active", 2))
    assert list_event_types(app)[-1] == ("session:completed" if is_last else "session:updated")


def test_the_end_that_a_killed_process_did_not_publish_is_published_by_the_next_call(
    root: Path, app: Application, monkeypatch: pytest.MonkeyPatch
):
    id = start_job(app)
    with monkeypatch.context() as dying:
        dying.setattr(app.sessions, "_publish", lambda *_: None)
        call_job_tool(app, "abort_workflow", explanation="x")

    with pytest.raises(StateError):
        finish_step(app, "a.md", session_id=id)

    assert read_rows(app)[id] == ("aborted", 2)
    assert list_event_types(app) == ["session:started", "session:aborted"]


def test_sessions_work_without_a_usable_database(root: Path):
    (root / "deepwork.db").write_bytes(b"no database at all" * 1000)
    app = open_app(root)

    id = start_job(app)
    answers = [finish_step(app, name)["status"] for name in ("a.md", "b.md", "c.md")]

    assert answers == ["next_step", "next_step", "workflow_complete"]
    assert get_session(app, id)["status"] == "completed"
    app.close()
