"""What an agent under a run may do: its own task, and what it reads of its plan; and until when."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.delivery.runner.agent_access import AgentToken, Grant
from deepwork.delivery.runner.models import AttemptStage
from deepwork.edge.server.application import Application
from deepwork.gates.access.store import AuditStore
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.protocol.messages import Request, RequestError
from deepwork.work.agents.store import LeaseStore
from server.agent_world import ATTEMPT, AgentWorld

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "registers an agent": ("agent_register", {"name": "x", "runtime": "codex"}),
    "unregisters another": ("agent_unregister", {"id": "{stranger}"}),
    "unregisters itself": ("agent_unregister", {"id": "{agent}"}),
    "acts as another by a heartbeat": ("agent_heartbeat", {"agent_id": "{peer}"}),
    "changes another": ("agent_update", {"id": "{peer}", "status": "offline"}),
    "reads another": ("agent_get", {"id": "{stranger}"}),
    "lists all agents": ("agent_list", {}),
    "claims another task": ("task_claim", {"task_id": "{secret}"}),
    "claims for another": ("task_claim", {"task_id": "{mine}", "agent_id": "{peer}"}),
    "releases for another": ("task_release", {"task_id": "{next}", "agent_id": "{peer}"}),
    "releases its task in another's name": ("task_release", {"agent_id": "{peer}"}),
    "completes another task": ("task_update_status", {"id": "{next}", "status": "completed", "outcome": "x"}),
    "reports as another": ("task_update_status", {"status": "failed", "error": "x", "agent_id": "{peer}"}),
    "plans another task": ("task_set_plan", {"id": "{next}", "plan": "x"}),
    "notes on another task": ("checkpoint_add", {"task_id": "{next}", "type": "progress", "summary": "x"}),
    "decides on another task": ("log_decision", {"task_id": "{next}", "category": "other", "question": "q"}),
    "forces its plan": ("workflow_update_status", {"id": "{plan}", "status": "completed", "force": True}),
    "adds a task": ("workflow_add_task", {"workflow_id": "{plan}", "task": {"name": "x"}}),
    "removes a task": ("workflow_remove_task", {"workflow_id": "{plan}", "task_id": "{next}"}),
    "replans": ("workflow_replan", {"workflow_id": "{plan}", "reason": "x", "tasks": []}),
    "raises the parallelism": ("workflow_set_parallelism", {"id": "{plan}", "max_parallel_tasks": 9}),
    "makes a plan": ("workflow_create", {"name": "x", "source_type": "prompt"}),
    "lists plans": ("workflow_list", {}),
    "reads another plan": ("workflow_get", {"id": "{other_plan}"}),
    "searches another plan": ("workflow_search", {"query": "secret", "workflow_id": "{other_plan}"}),
    "reads the context of another plan": ("get_context", {"workflow_id": "{other_plan}", "include": ["tasks"]}),
    "reads a task of another plan": ("task_get", {"id": "{secret}"}),
    "loads a task of another plan": ("task_load_context", {"task_id": "{secret}"}),
    "reads notes of another plan": ("checkpoint_list", {"task_id": "{secret}"}),
    "reads the diff of another plan": ("get_task_diff", {"task_id": "{secret}"}),
    "reads messages of another": ("message_list", {"agent_id": "{peer}"}),
    "reads a message of others": ("message_get", {"id": "{letter}"}),
    "hides a message of others": ("message_archive", {"message_ids": ["{letter}"]}),
    "marks its own message as read": ("message_mark_read", {"message_ids": ["{sent}"]}),
    "writes as another": ("message_send", {"sender_id": "{peer}", "recipient_id": "{agent}", "body": "x"}),
    "writes to another plan": ("message_send", {"recipient_id": "{stranger}", "body": "x"}),
    "answers a message of others": (
        "message_send", {"recipient_id": "{stranger}", "body": "x", "reply_to_id": "{letter}"},
    ),
    "writes to everybody": ("message_broadcast", {"message_type": "notification", "body": "x"}),
    "starts a job": ("start_workflow", {"goal": "x", "job_name": "a", "workflow_name": "b"}),
    "ends a job": ("abort_workflow", {"explanation": "x"}),
    "lists jobs": ("get_workflows", {}),
    "passes a review": ("mark_review_passed", {"review_id": "x"}),
    "makes a worktree": ("workspace_create", {"workflow_id": "{plan}", "branch": "x"}),
    "registers a repository": ("repository_register", {"path": "/"}),
    "applies a template": ("template_apply", {"template_id": "x", "workflow_name": "x"}),
    "asks with what is no id": ("task_get", {"id": "tk_\0"}),
}  # fmt: skip


@pytest.fixture
def world(app: Application) -> AgentWorld:
    world = AgentWorld(app)
    sent = {"message_type": "notification", "body": "hello"}
    letter = call_tool(
        app, "message_send", sender_id=world.ids["stranger"], recipient_id=world.ids["peer"], **sent
    )
    own = call_tool(app, "message_send", sender_id=world.ids["agent"], recipient_id=world.ids["peer"], **sent)
    world.ids |= {"letter": letter["id"], "sent": own["id"]}
    return world


def take_picture(world: AgentWorld) -> Any:
    """What the attacks try to change."""
    names = (
        "agents",
        "plans",
        "plan_tasks",
        "leases",
        "messages",
        "checkpoints",
        "decisions",
        "job_sessions",
    )
    with world.app.database.reading() as tx:
        return {name: tx.fetch_value(f"SELECT count(*) FROM {name}") for name in names} | {
            "tasks": tx.fetch_all("SELECT id, status, claimed_by FROM plan_tasks ORDER BY id"),
            "agents": tx.fetch_all("SELECT id, unregistered_at, last_heartbeat FROM agents ORDER BY id"),
            "messages": tx.fetch_all("SELECT id, status FROM messages ORDER BY id"),
            "plans": tx.fetch_all("SELECT id, status FROM plans ORDER BY id"),
        }


def test_an_agent_cannot_reach_beyond_its_task_and_its_plan(world: AgentWorld):
    before = take_picture(world)

    codes = {name: world.call(tool, **arguments).get("code") for name, (tool, arguments) in ATTACKS.items()}

    assert {name: code for name, code in codes.items() if code != "UNAUTHORIZED"} == {}
    assert take_picture(world) == before


def test_every_tool_is_either_allowed_and_listed_or_refused(world: AgentWorld):
    service = world.build_service()

    listed = {tool["name"] for tool in json.loads(service.list_tools(Request(1, "tools/list", {})))}
    names = sorted(world.app.registry, key="task_release".__eq__)  # which ends the claim, and so the token
    refused = {name for name in names if world.call(name).get("code") == "UNAUTHORIZED"}

    assert listed | refused == set(world.app.registry)
    assert not listed & refused


def test_prompts_and_resources_are_not_for_agents_under_a_run(world: AgentWorld):
    service, request = world.build_service(), Request(1, "resources/read", {})

    with pytest.raises(RequestError) as refused:
        service.read_resource(request, f"deepwork://plans/{world.other_plan}")

    assert refused.value.data["code"] == "UNAUTHORIZED"
    assert (service.list_resources(), service.list_templates(), service.list_prompts()) == ([], [], [])


def test_an_agent_does_its_work_without_naming_itself_or_its_task(world: AgentWorld):
    assert world.call("task_claim")["success"]
    assert world.call("task_get")["id"] == world.ids["mine"]
    assert world.call("task_get", id="{next}")["id"] == world.ids["next"]
    assert world.call("workflow_get", id="{plan}")["id"] == world.plan
    assert world.call("task_load_context", task_id="{mine}")
    assert world.call("checkpoint_add", type="progress", summary="half")["sequence"]
    decision = {"category": "other", "question": "q", "chosen": "c", "reasoning": "r"}
    assert world.call("log_decision", **decision)["decision_id"]
    assert world.call("get_context", include=["decisions"])["decisions"][0]["chosen"] == "c"
    assert world.call("agent_heartbeat")
    done = world.call("task_update_status", status="completed", outcome="Did it.", claim_epoch=77)

    assert done.get("code") is None, done
    assert call_tool(world.app, "task_get", id=world.ids["mine"])["status"] == "completed"


def test_an_agent_writes_to_agents_of_its_plan_and_answers_others(world: AgentWorld):
    letter = call_tool(
        world.app, "message_send", sender_id=world.ids["stranger"], recipient_id=world.ids["agent"],
        message_type="query", body="How long?",
    )["id"]  # fmt: skip
    reply = {
        "message_type": "response",
        "body": "An hour.",
        "recipient_id": "{stranger}",
        "reply_to_id": letter,
    }

    found = world.call("message_list")["messages"]
    read = world.call("message_get", id=letter)
    answered = world.call("message_send", **reply)
    told = world.call("message_send", message_type="notification", body="Done.", recipient_id="{peer}")

    assert [message["id"] for message in found] == [letter]
    assert read["body"] == "How long?"
    assert answered["id"]
    assert told["id"]


def release(world: AgentWorld) -> None:
    call_tool(world.app, "task_release", task_id=world.ids["mine"], agent_id=world.ids["agent"])


def release_to_another(world: AgentWorld) -> None:
    release(world)
    call_tool(world.app, "task_claim", task_id=world.ids["mine"], agent_id=world.ids["peer"])


def claim_again(world: AgentWorld) -> None:
    """Let the same agent hold the task in another epoch, as a runner does whose claim has run out."""
    release(world)
    again = call_tool(
        world.app, "task_claim", task_id=world.ids["mine"], agent_id=world.ids["agent"], start=True
    )
    world.change_attempt(claim_epoch=again["claim_epoch"])


def let_claim_run_out(world: AgentWorld) -> None:
    """Let the lease end, and be noticed by the claim of another agent on the same plan."""
    with world.app.database.transaction() as tx:
        LeaseStore(tx, 0).expire(world.ids["agent"])
    next_task = {"task_id": world.ids["next"], "agent_id": world.ids["peer"]}
    call_tool(world.app, "task_release", **next_task)
    assert call_tool(world.app, "task_claim", **next_task)["success"]


def unregister(world: AgentWorld) -> None:
    call_tool(world.app, "agent_unregister", id=world.ids["agent"])


ENDINGS: dict[str, Callable[[AgentWorld], object]] = {
    "the attempt has ended": lambda world: world.change_attempt(stage=AttemptStage.DONE.value, ended_at=1),
    "the attempt is parked": lambda world: world.change_attempt(stage=AttemptStage.PARKED.value),
    "another process of the attempt was started": lambda world: world.change_attempt(starts=2),
    "the attempt is not in this store": lambda world: world.remove_attempt(),
    "its claim was released": release,
    "another agent got the task": release_to_another,
    "its runner holds the task in another epoch": claim_again,
    "its claim ran out": let_claim_run_out,
    "its agent was unregistered": unregister,
}
RECOVERABLE = {
    "its runner holds the task in another epoch",
    "its claim ran out",
    "its agent was unregistered",
}
"""After which the runner may claim the task again for this agent."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_token_ends_when(ending: str, world: AgentWorld):
    service = world.build_service()
    request = Request(1, "tools/call", {})
    before = json.loads(service.call_tool(request, "task_get", {}).text)

    ENDINGS[ending](world)
    after = json.loads(service.call_tool(request, "task_get", {}).text)

    assert before["id"] == world.ids["mine"]
    assert (after["code"], after["recoverable"]) == ("UNAUTHORIZED", ending in RECOVERABLE)


def test_an_agent_goes_on_with_the_token_of_the_epoch_that_its_runner_took_again(world: AgentWorld):
    first = world.token
    claim_again(world)
    world.update_file()

    noted = world.call("checkpoint_add", type="progress", summary="x", claim_epoch=1)

    assert noted["sequence"]
    assert world.token != first


def test_an_agent_that_has_reported_its_result_may_still_write_notes(world: AgentWorld):
    world.call("task_update_status", status="completed", outcome="Did it.")

    decision = {"category": "other", "question": "q", "chosen": "c", "reasoning": "r"}
    assert world.call("log_decision", **decision)["decision_id"]


def test_a_call_that_is_on_its_way_when_its_attempt_ends_changes_nothing(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
):
    service, find_grant = world.build_service(), AgentToken.find_grant

    def end_after_looking(token: AgentToken) -> Grant:
        found = find_grant(token)
        world.change_attempt(stage=AttemptStage.DONE.value, ended_at=1)
        return found

    monkeypatch.setattr(AgentToken, "find_grant", end_after_looking)
    note = {"type": "progress", "summary": "late"}
    answer = service.call_tool(Request(1, "tools/call", {}), "checkpoint_add", note)

    assert json.loads(answer.text)["code"] == "UNAUTHORIZED"
    assert call_tool(world.app, "checkpoint_list", task_id=world.ids["mine"])["checkpoints"] == []


def test_a_token_is_for_one_agent_task_start_and_epoch_and_cannot_be_made_of_another(world: AgentWorld):
    attempt, starts, epoch, digest = world.token.split(".")
    forged = [
        f"{attempt}.{starts}.{int(epoch) + 1}.{digest}",
        f"{attempt}.{int(starts) + 1}.{epoch}.{digest}",
        f"{attempt}.{starts}.{epoch}.{'0' * 64}",
    ]
    world.files.bridge.write_text(json.dumps({"socket": "/nowhere", "token": forged[2]}))  # anybody can
    for token in forged:
        with pytest.raises(NotAllowed):
            world.access.find_grant(token)

    world.update_file()
    world.change_attempt(agent_id=world.ids["peer"])
    with pytest.raises(NotAllowed):
        world.access.find_grant(world.token)


def test_calls_of_an_agent_are_in_the_audit_log_as_its_own(world: AgentWorld):
    world.call("checkpoint_add", type="progress", summary="half")
    world.call("task_release", agent_id="{peer}")
    world.call("agent_register", name="x", runtime="codex")
    world.call("agent_list")
    world.call("task_release")

    with world.app.database.reading() as tx:
        found = AuditStore(tx).list_newest(account=ATTEMPT, tool=None, since=None, limit=9)

    assert [(each.entry.caller, each.entry.tool, each.entry.outcome) for each in found] == [
        (f"agent:{world.ids['agent']}", "task_release", "done"),
        (f"agent:{world.ids['agent']}", "agent_register", "UNAUTHORIZED"),
        (f"agent:{world.ids['agent']}", "task_release", "UNAUTHORIZED"),
        (f"agent:{world.ids['agent']}", "checkpoint_add", "done"),
    ]


def test_what_is_filled_in_is_not_required_by_the_schemas_that_an_agent_gets(world: AgentWorld):
    listed = json.loads(world.build_service().list_tools(Request(1, "tools/list", {})))
    required = {tool["name"]: tool["inputSchema"].get("required", []) for tool in listed}

    assert required["checkpoint_add"] == ["type", "summary"]
    assert required["task_release"] == []
    assert required["task_get"] == []
    assert required["message_get"] == ["id"]


@pytest.mark.parametrize(
    "token", [None, "", 7, "at_000000000001.1.x", "../../x.1.1." + "a" * 64, "x" * 100_000]
)
def test_what_is_no_token_opens_nothing(token: object, world: AgentWorld):
    with pytest.raises(NotAllowed) as refused:
        world.access.find_grant(token)

    assert refused.value.code is Code.UNAUTHORIZED


def test_a_process_that_the_agent_did_not_start_cannot_use_its_token(world: AgentWorld):
    with pytest.raises(NotAllowed):
        world.access.find_grant(world.token, peer=1)


def test_a_bridge_that_moves_keeps_its_token(world: AgentWorld):
    token = world.token

    world.update_file(Path("/elsewhere"))

    assert json.loads(world.files.bridge.read_text()) == {"socket": "/elsewhere", "token": token}
