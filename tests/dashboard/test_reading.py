"""HTTP details of answers: ETags, compression, unchanged text, methods, OpenAPI."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from application import Clock, call_tool
from dashboard.make import World, create_client, read
from dashboard.make_agent_runs import add_attempt, start_run
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.dashboard.api import TAG_PERIOD_MS
from deepwork.views.dashboard.endpoint_registry import ROUTES, SERVER_ENDPOINTS
from tracking import make as track

READS = tuple(each for each in ROUTES if not each.reads_files)
TIMED = [each.path for each in READS if not each.follows_events]
WITHOUT_ROWS = (
    "/api/v1/why",  # about a repository, which the project here does not have
    "/api/v1/approvals/{id}/evidence",
    "/api/v1/inbox/evidence",
    *(f"/api/v1/{kind}/{{id}}" for kind in ("messages", "approvals", "landings", "rewinds")),
)
SCRIPT = "<script>alert(1)</script>\"'`${x}\u2028&lt;"


@pytest.fixture
def world(world: World, app: Application) -> World:
    """Add a run of agents to the usual data."""
    run = start_run(app, world.plan)
    call = Call("human:ada", "create_wish")
    world.wish = invoke(app.database, app.operations["create_wish"], {"text": SCRIPT}, call)["id"]
    world.agent_run, world.attempt = run.id, add_attempt(app, run, world.planned["ship"]).id
    return world


def address(path: str, world: World) -> str:
    """Return the path with an existing id."""
    ids = {
        "/tasks/": world.tasks["part"], "/agents/": world.agent, "/runner/runs/": world.agent_run,
        "/runner/attempts/": world.attempt, "/review/": world.planned["ship"], "/wishes/": world.wish,
        "/runner/lanes/": world.attempt,
    }  # fmt: skip
    id = next((id for part, id in ids.items() if part in path), world.track)
    query = (
        "?q=money"
        if path.endswith("search")
        else f"?agent_id={world.agent}"
        if path.endswith("messages")
        else ""
    )
    return path.replace("{id}", id) + ("" if "{id}/messages" in path else query)


def every(world: World) -> list[str]:
    return [address(each.path, world) for each in READS if each.path not in WITHOUT_ROWS]


def test_unchanged_answers_are_not_sent_again(world: World, app: Application, page: TestClient, clock: Clock):
    clock.now -= clock.now % TAG_PERIOD_MS  # the start of a tag period
    for path in every(world):
        first = page.get(path)
        again = page.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
        assert again.headers["etag"] == first.headers["etag"]


def test_an_event_changes_every_etag(world: World, app: Application, page: TestClient, clock: Clock):
    clock.now -= clock.now % TAG_PERIOD_MS
    tags = {path: page.get(path).headers["etag"] for path in every(world)}

    call_tool(app, "log_milestone", task_id=world.tasks["part"], message="further", progress=60)

    for path, tag in tags.items():
        assert page.get(path, headers={"if-none-match": tag}).status_code == 200, path


def test_time_changes_the_etag_of_time_dependent_answers(world: World, page: TestClient, clock: Clock):
    tags = {path: page.get(path).headers["etag"] for path in every(world)}

    clock.advance(seconds=200)

    changed = {
        path
        for path, tag in tags.items()
        if page.get(path, headers={"if-none-match": tag}).status_code == 200
    }
    assert changed == {address(path, world) for path in TIMED if path not in WITHOUT_ROWS}
    assert {"/api/v1/home", "/api/v1/agents"} <= changed


def test_the_etag_starts_with_the_last_event_number(world: World, page: TestClient):
    answer = page.get("/api/v1/home")

    assert answer.headers["etag"].startswith(f'W/"{answer.json()["last_seq"]}-')


def test_large_answers_are_compressed_for_clients_that_accept_it(world: World, page: TestClient):
    path = f"/api/v1/runs/{world.track}/events"
    with page.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
    plain = page.get(path, headers={"accept-encoding": "identity"})

    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 2
    assert "content-encoding" not in page.get("/api/v1/me").headers


def test_text_is_returned_unchanged_and_never_as_html(app: Application, page: TestClient):
    id = track.create_workflow(app, name=SCRIPT, objective=SCRIPT)
    where = (id, track.create_phase(app, id, name=SCRIPT))
    task = track.create_task(app, where, SCRIPT, agent_name=SCRIPT, goal=SCRIPT)
    track.create_blocker(app, task, SCRIPT)
    call_tool(app, "log_milestone", task_id=task, message=SCRIPT)

    for path in (
        "/home",
        "/runs",
        f"/runs/{id}",
        f"/runs/{id}/tasks",
        f"/runs/{id}/issues",
        f"/tasks/{task}",
        "/agents",
    ):
        answer = page.get(f"/api/v1{path}")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert SCRIPT in _texts(answer.json())


def _texts(value: object) -> set[str]:
    """Return every string in an answer."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for each in inner for text in _texts(each)}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_read_endpoints_accept_only_get_and_head(app: Application, page: TestClient, method: str):
    answer = page.request(method, "/api/v1/home")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.json()["code"] == "INVALID_INPUT"


def test_head_answers_without_a_body(page: TestClient):
    answer = page.head("/api/v1/runs")

    assert answer.status_code == 200
    assert answer.headers["etag"]


def test_an_unknown_path_has_the_usual_error_format(page: TestClient):
    answer = page.get("/api/v1/nowhere", headers={"accept": "text/html"})

    assert answer.status_code == 404
    assert set(answer.json()) == {"code", "message", "recoverable", "suggestion"}


def test_openapi_describes_every_path(page: TestClient):
    told = read(page, "/openapi.json")["paths"]

    paths = {each.path for each in ROUTES} | set(SERVER_ENDPOINTS)
    assert paths < set(told)
    assert {"/api/v1/events", "/api/v1/actions/{tool}"} < set(told)
    of_diff = told["/api/v1/tasks/{id}/diff"]["get"]["parameters"]
    assert [(each["in"], each["name"]) for each in of_diff] == [
        ("path", "id"), ("query", "path"), ("query", "max_bytes"),
    ]  # fmt: skip
    names = {each["name"] for each in told["/api/v1/runs"]["get"]["parameters"]}
    assert names == {
        "kind", "status", "profile", "q", "agent", "since", "until", "sort", "order", "limit", "cursor",
    }  # fmt: skip


def test_every_answer_matches_its_schema(world: World, app: Application, page: TestClient):
    kinds = {each.path: app.operations[each.operation].answer_type for each in ROUTES}
    for path, kind in kinds.items():
        if path not in WITHOUT_ROWS:
            answer = page.get(address(path, world)).json()
            TypeAdapter(kind).validate_python(answer)


def test_the_parameters_of_an_operation_are_read_from_text(page: TestClient):
    assert read(page, "/landings", limit="2", open="true")["landings"] == []
    for query in ({"limit": "x"}, {"limit": "501"}, {"status": "odd"}, {"open": "perhaps"}, {"nope": "1"}):
        answer = page.get("/api/v1/landings", params=query)
        code, message = answer.json()["code"], answer.json()["message"]
        assert (answer.status_code, code) == (400, "INVALID_INPUT"), query
        assert f"`{next(iter(query))}`" in message


def test_every_route_names_a_read_operation_with_its_parameters(app: Application):
    for route in ROUTES:
        operation = app.operations[route.operation]
        assert operation.read_only, route
        assert route.path_arguments <= set(operation.parameter_names), route


def test_a_token_is_required(app: Application):
    stranger = create_client(app, token="x" * 40)

    for path in ("/home", "/runs", "/me", "/status", "/nowhere"):
        assert stranger.get(f"/api/v1{path}").status_code in (401, 429)


def test_the_number_of_statements_does_not_depend_on_the_length_of_lists(
    app: Application, page: TestClient, monkeypatch: pytest.MonkeyPatch
):
    def statements(path: str) -> int:
        count.clear()
        read(page, path)
        return len(count)

    count: list[str] = []
    original = Transaction._execute

    def counted(self: Transaction, sql: str, values: Any) -> Any:
        count.append(sql)
        return original(self, sql, values)

    monkeypatch.setattr(Transaction, "_execute", counted)
    where = track.create_workflow_and_phase(app)
    track.create_blocker(app, track.create_task(app, where))
    paths = ("/home", "/runs", "/agents", "/blockers", f"/runs/{where[0]}/tasks", f"/runs/{where[0]}/files")
    before = {path: statements(path) for path in paths}
    for number in range(10):
        track.create_blocker(
            app, track.create_task(app, track.create_workflow_and_phase(app, name=f"run {number}"))
        )
        track.create_task(app, where, f"task {number}")
        call_tool(app, "agent_register", name=f"a{number}", runtime="codex")

    assert {path: statements(path) for path in paths} == before | {"/agents": statements("/agents")}
    assert statements("/agents") <= before["/agents"] + 3
