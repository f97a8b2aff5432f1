"""Every call that may change something is recorded in the transaction of its effect."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from access.make import (
    call_token_tool,
    call_tool_as,
    list_entries,
    list_outcomes,
    make_token,
    run_sql,
    verify_audit,
)
from application import NOW, call_tool, list_event_types, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.mcp_server import build_server
from deepwork.gates.access import models
from deepwork.gates.access.models import (
    AuditEntry,
    ChainedEntry,
    ChainHead,
    ChainKey,
    create_anchor,
    find_anchor_problem,
    parse_anchor,
)
from deepwork.gates.access.store import AuditStore
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError, NotFound, StorageError
from deepwork.kernel.operations import operation
from deepwork.work.agents.tools import AgentTools


def register(app: Application, caller: str = "local") -> str:
    id: str = call_tool(app, "agent_register", caller=caller, name="Ada", runtime="codex")["id"]
    return id


UNKEYED = ChainKey(models.hash_text)


def build_entry(outcome: str = "done") -> AuditEntry:
    return AuditEntry(1, "ci", "ci", "vm", "agent_register", "{}", "d", outcome)


def build_chain(*entries: AuditEntry) -> list[ChainedEntry]:
    links: list[ChainedEntry] = []
    for number, each in enumerate(entries, 1):
        before = links[-1].chain if links else ""
        links.append(ChainedEntry(number, each, models.compute_chain(before, number, each)))
    return links


# What is recorded


def test_a_call_is_recorded_with_its_argument_names_and_ids(app: Application):
    id = register(app, "ci")

    call_tool(
        app, "agent_update", caller="ci", id=id, workspace_path="/secret/place", metadata={"key": "hidden"}
    )

    first, second = list_entries(app)
    arguments = {"id": id, "workspace_path": "/secret/place", "metadata": {"key": "hidden"}}
    assert (first.seq, second.seq) == (1, 2)
    assert second.entry == AuditEntry(
        at=NOW, account="ci", caller="ci", host=socket.gethostname(), tool="agent_update",
        arguments=json.dumps({"id": id, "workspace_path": None, "metadata": None}, separators=(",", ":")),
        digest=models.compute_digest(arguments), outcome="done",
    )  # fmt: skip


def test_text_given_by_callers_is_not_recorded(app: Application):
    id = register(app)
    secret = "dw_3k9x0q2m7b1z_" + "s" * 43
    for arguments in (
        {"id": id, "metadata": {secret: secret}},
        {"id": secret},
        {"id": id, secret: 1},
        {"id": [secret, id]},
        {"id": f"{id}\n{secret}"},
    ):
        try:
            call_tool(app, "agent_update", **arguments)
        except DeepworkError:
            continue

    assert len(list_entries(app)) == 6
    # Longer than an id, which may hold any letters.
    assert "s" * 13 not in str(list_entries(app))


def test_a_list_is_recorded_by_its_ids_up_to_a_limit(app: Application):
    given = {"message_ids": [f"msg_{number:012}" for number in range(100)] + ["text"]}

    told = json.loads(models.summarize_arguments(["message_ids"], given))

    assert told == {"message_ids": [f"msg_{number:012}" for number in range(models.MAX_IDS)]}


def test_reading_is_not_recorded(app: Application):
    id = register(app)
    call_tool(app, "agent_get", id=id)
    call_tool(app, "agent_list")
    with pytest.raises(NotFound):
        call_tool(app, "agent_get", id="ag_none")

    assert list_outcomes(app) == [("agent_register", "done")]


def test_reading_a_message_again_changes_nothing_and_is_not_recorded(app: Application):
    ada, bob = register(app), register(app)
    sent = call_tool(app, "message_send", sender_id=ada, recipient_id=bob, message_type="query", body="hi")

    for mark_read in (False, True, True):
        call_tool(app, "message_get", id=sent["id"], mark_read=mark_read)

    assert list_outcomes(app)[3:] == [("message_get", "done")]


def test_a_failed_call_is_recorded_with_its_code(app: Application):
    with pytest.raises(DeepworkError):
        call_tool(app, "agent_heartbeat", agent_id="ag_none00000000")
    with pytest.raises(DeepworkError):
        call_tool(app, "agent_heartbeat")
    with pytest.raises(DeepworkError):
        call_tool(app, "agent_heartbeat", agent_id="x\0y")

    assert list_outcomes(app) == [
        ("agent_heartbeat", "AGENT_NOT_FOUND"),
        ("agent_heartbeat", "INVALID_INPUT"),
        ("agent_heartbeat", "INVALID_INPUT"),
    ]
    assert verify_audit(app).problem is None


def test_an_internal_error_is_recorded_and_leaves_nothing_else(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    @operation("work", acts_as="id", idempotent=True, destructive=True)
    def breaks(tools: AgentTools, id: str) -> None:
        with app.database.transaction() as tx:
            tx.emit("agent:updated", {})
            raise ZeroDivisionError

    monkeypatch.setattr(AgentTools, "agent_unregister", breaks)

    with pytest.raises(ZeroDivisionError):
        call_tool(app, "agent_unregister", id="ag_1")

    assert list_outcomes(app) == [("agent_unregister", "INTERNAL_ERROR")]
    assert list_event_types(app) == []


def test_a_refused_answer_is_recorded_as_refused(app: Application):
    ada, bob = register(app), register(app)
    workflow = call_tool(app, "workflow_create", name="w", source_type="prompt", source_content="x")["id"]
    plan = {"summary": "s", "tasks": [{"name": "build", "description": "d"}]}
    call_tool(app, "workflow_set_plan", id=workflow, plan=plan)
    task = call_tool(app, "workflow_get", id=workflow, include_tasks=True)["tasks"][0]["id"]
    call_tool(app, "workflow_update_status", id=workflow, status="in_progress")
    call_tool(app, "task_claim", task_id=task, agent_id=ada)

    assert call_tool(app, "task_claim", task_id=task, agent_id=bob)["success"] is False

    assert list_outcomes(app)[-2:] == [("task_claim", "done"), ("task_claim", "refused:claimed")]


def test_a_repeated_call_is_recorded_as_repeated(app: Application):
    for _ in range(2):
        call_tool(app, "agent_register", key="k", name="Ada", runtime="codex")

    assert list_outcomes(app) == [("agent_register", "done"), ("agent_register", "repeated")]


def test_a_call_beyond_its_scope_is_recorded(app: Application):
    with pytest.raises(DeepworkError):
        call_tool_as(app, "viewer", "agent_register", scope="read", name="Ada", runtime="codex")

    [link] = list_entries(app)
    assert (link.entry.account, link.entry.outcome) == ("viewer", "UNAUTHORIZED")


def test_creating_and_revoking_tokens_is_recorded(app: Application):
    make_token(app, "ci")
    call_token_tool(app, "token_list")
    call_token_tool(app, "token_revoke", name="ci")

    assert list_outcomes(app) == [("token_create", "done"), ("token_revoke", "done")]


def test_a_tool_that_works_in_files_is_recorded_too(app: Application):
    def call(tool: str, **arguments: Any) -> Any:
        return invoke(app.database, app.registry[tool], arguments, Call("local", tool))

    with pytest.raises(DeepworkError):
        call("start_workflow", goal="g", job_name="none", workflow_name="w")
    with pytest.raises(DeepworkError):
        call("abort_workflow", explanation="x")

    assert list_outcomes(app) == [
        ("start_workflow", "JOB_NOT_FOUND"),
        ("abort_workflow", "NO_ACTIVE_SESSION"),
    ]


def test_a_read_only_server_records_nothing(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    ada = register(app)
    sent = call_tool(app, "message_send", sender_id=ada, recipient_id=ada, message_type="query", body="hi")
    reading = make_app(tmp_path, str(tmp_path / "deepwork.db"), read_only=True)

    async def look() -> None:
        from fastmcp import Client

        async with Client(build_server(reading)) as client:
            await client.call_tool("message_get", {"id": sent["id"]})
            await client.call_tool("message_get", {"id": "msg_x"}, raise_on_error=False)

    asyncio.run(look())
    reading.close()

    assert [tool for tool, _ in list_outcomes(app)] == ["agent_register", "message_send"]
    app.close()


# In one transaction with the effect


@contextmanager
def break_table(app: Application, table: str) -> Iterator[None]:
    run_sql(app, f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        run_sql(app, f"ALTER TABLE {table}_away RENAME TO {table}")


def test_a_call_that_cannot_be_recorded_has_no_effect(app: Application):
    with break_table(app, "audit"), pytest.raises(StorageError):
        register(app)

    assert call_tool(app, "agent_list")["total"] == 0
    assert list_event_types(app) == []
    assert verify_audit(app).problem is None


def test_an_error_is_not_masked_by_an_entry_that_cannot_be_written(
    app: Application, caplog: pytest.LogCaptureFixture
):
    with break_table(app, "audit"), pytest.raises(NotFound):
        call_tool(app, "agent_heartbeat", agent_id="ag_none")

    assert "agent_heartbeat could not be recorded" in caplog.text


@pytest.mark.differs
def test_concurrent_writers_share_one_chain(app: Application):
    agents = [register(app) for _ in range(4)]

    def work(number: int) -> None:
        agent = agents[number % 4]
        if number % 3 == 0:
            with pytest.raises(NotFound):
                call_tool(app, "agent_update", id="ag_none")
        else:
            call_tool(app, "agent_heartbeat", agent_id=agent)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(48)))

    assert [link.seq for link in list_entries(app)] == list(range(1, 53))
    assert verify_audit(app).problem is None


def test_processes_on_one_store_write_one_chain(app: Application, location: str, tmp_path: Path):
    others = [make_app(tmp_path, location) for _ in range(3)]

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda other: [register(other) for _ in range(5)], others))
    for other in others:
        other.close()

    assert verify_audit(app).rows == 15
    assert verify_audit(app).problem is None


# Integrity


def test_an_empty_chain_is_intact(app: Application):
    assert (verify_audit(app).rows, verify_audit(app).problem) == (0, None)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", 1), ("account", "eve"), ("caller", "eve"), ("host", "eve"), ("tool", "agent_list"),
        ("arguments", "{}"), ("digest", "0"), ("outcome", "UNAUTHORIZED"), ("chain", "0" * 64),
    ],
)  # fmt: skip
def test_an_edited_row_is_detected(app: Application, column: str, value: Any):
    for _ in range(4):
        register(app)
    run_sql(app, f"UPDATE audit SET {column} = :value WHERE seq = 2", value=value)

    assert (verify_audit(app).bad_row, verify_audit(app).problem) == (
        2,
        "row 2 was changed after it was written",
    )


@pytest.mark.parametrize(("gone", "bad_row"), [(1, 1), (2, 2), (4, 4)])
def test_a_deleted_row_is_detected(app: Application, gone: int, bad_row: int):
    for _ in range(4):
        register(app)
    run_sql(app, "DELETE FROM audit WHERE seq = :gone", gone=gone)

    assert verify_audit(app).bad_row == bad_row
    assert "missing" in str(verify_audit(app).problem)


def test_an_emptied_log_is_detected(app: Application):
    register(app)
    run_sql(app, "DELETE FROM audit")

    assert verify_audit(app).problem == "rows 1 to 1 are missing at the end"


def test_swapped_rows_are_detected(app: Application):
    for _ in range(4):
        register(app)
    run_sql(app, "UPDATE audit SET seq = 99 WHERE seq = 2")
    run_sql(app, "UPDATE audit SET seq = 2 WHERE seq = 3")
    run_sql(app, "UPDATE audit SET seq = 3 WHERE seq = 99")

    assert verify_audit(app).bad_row == 2


def test_rows_renumbered_after_a_deletion_are_detected(app: Application):
    for _ in range(4):
        register(app)
    run_sql(app, "DELETE FROM audit WHERE seq = 2")
    run_sql(app, "UPDATE audit SET seq = 2 WHERE seq = 3")
    run_sql(app, "UPDATE audit SET seq = 3 WHERE seq = 4")

    assert verify_audit(app).bad_row == 2


@pytest.mark.parametrize("seq", [-1, 0, 5])
def test_an_inserted_row_is_detected(app: Application, seq: int):
    for _ in range(4):
        register(app)
    run_sql(
        app,
        "INSERT INTO audit SELECT :seq, at, account, caller, host, tool, arguments, digest, outcome, chain"
        " FROM audit WHERE seq = 4",
        seq=seq,
    )

    assert verify_audit(app).problem is not None


def test_a_forged_end_is_detected_by_the_head():
    links = build_chain(build_entry(), build_entry(), build_entry())
    forged = [*links[:2], *build_chain(build_entry(), build_entry(), build_entry("UNAUTHORIZED"))[2:]]

    assert models.verify_chain(links, ChainHead(3, links[2].chain), UNKEYED).problem is None
    assert models.verify_chain(forged, ChainHead(3, links[2].chain), UNKEYED).problem is not None


def test_any_change_of_any_row_is_detected():
    """Many small attacks on one log, each of which must be detected."""
    links = build_chain(*[build_entry(f"done{number}") for number in range(30)])
    head = ChainHead(30, links[-1].chain)
    chance = random.Random(7)
    for _ in range(300):
        attacked = list(links)
        one, other = chance.sample(range(30), 2)
        match chance.randrange(4):
            case 0:
                del attacked[one]
            case 1:
                attacked[one], attacked[other] = attacked[other], attacked[one]
            case 2:
                attacked[one] = ChainedEntry(one + 1, links[other].entry, links[one].chain)
            case _:
                attacked.insert(one, links[other])
        assert models.verify_chain(attacked, head, UNKEYED).problem is not None


def test_a_chain_is_read_lazily_and_only_up_to_the_first_bad_row():
    given = 0

    def links() -> Iterator[ChainedEntry]:
        nonlocal given
        for link in [
            *build_chain(build_entry(), build_entry()),
            ChainedEntry(3, build_entry(), "x"),
            *build_chain(build_entry()),
        ]:
            given += 1
            yield link

    found = models.verify_chain(links(), ChainHead(9, "x"), UNKEYED)

    assert (given, found.rows, found.bad_row) == (3, 2, 3)


def test_a_chain_continues_across_pages(app: Application, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("deepwork.gates.access.store.PAGE", 2)
    for _ in range(5):
        register(app)

    assert (verify_audit(app).rows, verify_audit(app).problem) == (5, None)


@pytest.mark.parametrize(
    "tampering",
    ["UPDATE audit SET arguments = x'ff00' WHERE seq = 1", "DELETE FROM audit_head", "DROP TABLE audit"],
)
def test_verify_gives_a_verdict_for_any_tampering(tmp_path: Path, tampering: str):
    (tmp_path / "p").mkdir()
    deepwork = [sys.executable, "-P", "-m", "deepwork"]
    where = ["--path", str(tmp_path / "p")]
    subprocess.run([*deepwork, "agents", "register", "Ada", "codex", *where], check=True, capture_output=True)
    app = make_app(tmp_path / "p", "")
    run_sql(app, tampering)
    app.close()

    done = subprocess.run([*deepwork, "audit", "verify", "--json", *where], capture_output=True, check=False)

    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["intact"]) == (1, False)
    assert verdict["problem"]


# Anchors


KEY = ChainKey(lambda text: models.hash_text(f"secret:{text}"), store_id="5a")


def test_an_anchor_can_be_read_again():
    anchor = parse_anchor(create_anchor(ChainHead(3, "ab"), KEY))

    assert anchor is not None
    assert (anchor.store_id, anchor.head) == ("5a", ChainHead(3, "ab"))
    assert find_anchor_problem(anchor, 3, "ab", KEY) is None
    assert find_anchor_problem(anchor, 9, "ab", KEY) is None


@pytest.mark.parametrize("text", ["", "dwa1.5a.3.ab", "dw_k1_x", "dwa1.5a.-3.ab." + "0" * 64])
def test_what_is_not_an_anchor_is_not_read_as_one(text: str):
    assert parse_anchor(text) is None


def test_an_anchor_shows_what_was_removed_rewritten_or_forged():
    anchor = parse_anchor(create_anchor(ChainHead(3, "ab"), KEY))
    assert anchor is not None
    forged = replace(anchor, head=ChainHead(2, "aa"))
    other = replace(KEY, store_id="5b")

    assert "cut off" in str(find_anchor_problem(anchor, 2, None, KEY))
    assert "rewritten" in str(find_anchor_problem(anchor, 3, "ac", KEY))
    assert "changed" in str(find_anchor_problem(forged, 3, "aa", KEY))
    assert "another store" in str(find_anchor_problem(anchor, 3, "ab", other))


def test_a_cut_tail_with_a_head_set_back_is_found_by_the_anchor_alone(app: Application):
    for _ in range(4):
        register(app)
    with app.database.reading() as tx:
        anchor = parse_anchor(create_anchor(AuditStore(tx).get_head(), AuditStore(tx).get_key()))
    run_sql(app, "DELETE FROM audit WHERE seq > 2")
    run_sql(app, "UPDATE audit_head SET seq = 2, chain = (SELECT chain FROM audit WHERE seq = 2)")

    assert anchor is not None
    assert verify_audit(app).problem is None, "the chain alone cannot show it"
    with app.database.reading() as tx:
        store = AuditStore(tx)
        assert "cut off" in str(find_anchor_problem(anchor, store.get_head().seq, None, store.get_key()))
    for _ in range(2):
        register(app, caller="another")
    with app.database.reading() as tx:
        store = AuditStore(tx)
        chain = store.find_chain(4)
        assert "rewritten" in str(find_anchor_problem(anchor, store.get_head().seq, chain, store.get_key()))


def test_a_rewritten_log_needs_the_key(app: Application):
    """Whoever can write the store, but does not know the key, cannot chain entries of their own."""
    for _ in range(3):
        register(app)
    with app.database.reading() as tx:
        links = list(AuditStore(tx).iterate_chain())
    forged = build_chain(*(replace(link.entry, caller="nobody") for link in links))
    for link in forged:
        run_sql(
            app,
            "UPDATE audit SET caller = 'nobody', chain = :chain WHERE seq = :seq",
            chain=link.chain,
            seq=link.seq,
        )
    run_sql(app, "UPDATE audit_head SET chain = :chain", chain=forged[-1].chain)

    assert verify_audit(app).bad_row == 1


def test_the_command_prints_an_anchor_and_verifies_with_it(tmp_path: Path):
    deepwork = [sys.executable, "-P", "-m", "deepwork"]
    app = make_app(tmp_path, "")
    register(app)
    register(app)

    made = subprocess.run(
        [*deepwork, "audit", "anchor"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    verify = [*deepwork, "audit", "verify", "--json", "--expect", made.stdout.strip()]
    done = subprocess.run(verify, cwd=tmp_path, capture_output=True, check=True)
    run_sql(app, "DELETE FROM audit WHERE seq = 2")
    run_sql(app, "UPDATE audit_head SET seq = 1, chain = (SELECT chain FROM audit WHERE seq = 1)")
    app.close()
    cut = subprocess.run(verify, cwd=tmp_path, capture_output=True, check=False)

    assert json.loads(done.stdout)["anchored_rows"] == 2
    assert (cut.returncode, json.loads(cut.stdout)["intact"]) == (1, False)
    assert "cut off" in json.loads(cut.stdout)["problem"]
