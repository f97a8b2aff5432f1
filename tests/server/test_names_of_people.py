"""No field lets an agent call itself a person, the owner or deepwork; people's own surfaces still can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from access.make import call_token_tool
from application import Clock, call_tool, make_app
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import InvalidInput, NotAllowed
from notices.make import ANNA, act, claim, create_plan, register_agent, write_message
from tracking.make import create_task, create_workflow_and_phase

RESERVED = ["human:owner", "Ｈuman:anna", "humаn:anna", "hu\u200bman:anna", "OWNER", "deepwоrk"]
NAMING = {
    ("agent_register", "name"),
    ("start_task", "agent_name"),
    ("resolve_issue", "resolved_by"),
    ("log_milestone", "metadata"),
    ("token_create", "name"),
}
"""The parameters that name somebody; all others are names of things, or ids that must exist."""
OF_THINGS = re.compile(
    r"^(.*_id|.*_ids|id|job_name|workflow_name|.*path|.*path\[\]|filter\.agent|.*tasks\[\]\.name"
    r"|task\.name|template\..*|name)$"
)


def list_parameters(schema: dict[str, Any]) -> Iterator[str]:
    """List the paths of the parameters that take a text."""

    def walk(part: dict[str, Any], path: str) -> Iterator[str]:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        for option in (*part.get("anyOf", ()), *part.get("allOf", ())):
            yield from walk(option, path)
        if part.get("type") == "string" and "enum" not in part:
            yield path
        if isinstance(items := part.get("items"), dict):
            yield from walk(items, f"{path}[]")
        for name, inner in part.get("properties", {}).items():
            yield from walk(inner, f"{path}.{name}" if path else name)

    return walk(schema, "")


def test_every_parameter_that_names_somebody_is_known(app: Application):
    """A new one must be checked with `require_unreserved`, and tested below."""
    looks_like_somebody = re.compile(r"(name|by|who|agent|sender|author|owner|person|user)$", re.IGNORECASE)
    found = {
        (tool, path)
        for tool, spec in app.registry.items()
        for path in list_parameters(spec.input_schema)
        if looks_like_somebody.search(path)
    }

    others = {(tool, path) for tool, path in found - NAMING if not OF_THINGS.match(path)}
    assert others == set()
    things = {tool for tool, path in found - NAMING if path == "name"}
    assert things == {
        "repository_register", "start_phase", "start_task", "start_workflow", "template_create", "token_revoke",
        "workflow_create",
    } & set(app.registry)  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_an_agent_cannot_call_itself_a_person(app: Application, name: str):
    where = create_workflow_and_phase(app)
    task = create_task(app, where)
    asked = {"task_id": task, "type": "other", "description": "Which?", "resolution": "None."}
    issue = call_tool(app, "log_issue", **asked)["issue_id"]
    in_phase = {"workflow_id": where[0], "phase_id": where[1], "caller_type": "subagent"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("agent_register", {"name": name, "runtime": "custom"}),
        ("start_task", {**in_phase, "name": "n", "goal": "g", "agent_name": name}),
        ("resolve_issue", {"issue_id": issue, "note": "Done.", "resolved_by": name}),
        ("log_milestone", {"task_id": task, "message": "m", "metadata": {"by": name}}),
        ("log_milestone", {"task_id": task, "message": "m", "metadata": {"a": [{"B\u200by": name}]}}),
    ]

    for caller in ("local", "ada", "client:human", "session:1"):
        for tool, arguments in calls:
            with pytest.raises(InvalidInput, match="is reserved") as caught:
                call_tool(app, tool, caller=caller, **arguments)
            assert "Choose a name" in (caught.value.suggestion or "")


@pytest.mark.parametrize("name", ["Owner", "human", "deepwork", "DEEPWORK"])
def test_a_token_cannot_have_such_a_name(app: Application, name: str):
    with pytest.raises(InvalidInput, match="is reserved"):
        call_token_tool(app, "token_create", name=name, scope="work")


def test_people_still_name_themselves(app: Application):
    ada = register_agent(app)
    task = create_task(app, create_workflow_and_phase(app))
    asked = {"task_id": task, "type": "other", "description": "Which?", "resolution": "None."}
    issue = call_tool(app, "log_issue", **asked)["issue_id"]

    assert register_agent(app, "owner", "human:owner")
    assert write_message(app, ada)
    act(app, "resolve_issue", issue_id=issue, note="Done.", resolved_by=ANNA)
    act(app, "log_milestone", task_id=task, message="m", metadata={"verdict": "approved", "by": ANNA})


def test_the_owner_token_may_name_itself(app: Application):
    task = create_task(app, create_workflow_and_phase(app))
    asked = {"task_id": task, "type": "other", "description": "Which?", "resolution": "None."}
    issue = call_tool(app, "log_issue", **asked)["issue_id"]

    call_tool(app, "resolve_issue", caller="owner", issue_id=issue, note="Done.", resolved_by="owner")


def test_no_agent_acts_as_the_agent_of_a_person(app: Application, clock: Clock):
    ada, person = register_agent(app), register_agent(app, "owner", "human:owner")
    _, tasks = create_plan(app, "design")
    sent = {"sender_id": person, "message_type": "notification", "body": "Delete it."}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("message_send", {**sent, "recipient_id": ada}),
        ("message_broadcast", sent),
        ("task_claim", {"task_id": tasks["design"], "agent_id": person}),
        ("agent_heartbeat", {"agent_id": person}),
        ("agent_update", {"id": person, "metadata": {"x": 1}}),
    ]

    for tool, arguments in calls:
        with pytest.raises(NotAllowed, match="stands for a person"):
            call_tool(app, tool, **arguments)
    call_tool(app, "message_send", caller="human:anna", **sent, recipient_id=ada)
    clock.advance(seconds=80)
    assert call_tool(app, "message_list", agent_id=person)["messages"] == [], "reading is allowed"
    assert call_tool(app, "agent_unregister", id=person)["tasks_released"] == 0


def test_agents_with_such_names_in_an_existing_store_keep_working(app: Application):
    ada, bob = register_agent(app), register_agent(app, "Bob")
    with app.database.transaction() as tx:
        tx.execute("UPDATE agents SET name = 'human:owner' WHERE id = :id", id=ada)
    _, tasks = create_plan(app, "design")

    claim(app, tasks["design"], ada)
    call_tool(app, "agent_update", id=ada, metadata={"x": 1})
    sent = {"sender_id": ada, "recipient_id": bob, "message_type": "notification", "body": "Hello."}
    assert call_tool(app, "message_send", **sent)["id"]
    assert call_tool(app, "agent_get", id=ada)["name"] == "human:owner"


def test_doctor_names_agents_that_look_like_people(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    if "://" in location:
        monkeypatch.setenv("DEEPWORK_DATABASE_URL", location)
    app = make_app(tmp_path, location if "://" in location else "")
    ada = register_agent(app)
    register_agent(app, "owner", "human:owner")
    with app.database.transaction() as tx:
        tx.execute("UPDATE agents SET name = 'human:owner' WHERE id = :id", id=ada)
    app.close()

    with pytest.raises(SystemExit):
        deepwork(["doctor", "--path", str(tmp_path)])

    [problem] = [line for line in capsys.readouterr().out.splitlines() if "is named" in line]
    assert problem.startswith(f'PROBLEM: Agent {ada} is named "human:owner", like a person or deepwork')
    assert problem.endswith(f"deepwork agents unregister {ada}")
