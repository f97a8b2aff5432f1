"""Names work wherever ids do: every command that takes an id takes the name of what is meant, or names the candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from application import call_tool, make_app
from approvals import make as approvals
from cli.command_tree import Words, is_runnable, walk_commands
from deepwork.edge.cli.framework.documents import DocumentParam
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import find_kind
from deepwork.edge.cli.framework.tool_commands import ToolCommand
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.overview.identifier_store import NAMED_BY_WORK

NAME = "Twin"
NAMELESS = {
    "step_id", "instance_id", "proof_id", "proof_ids", "review_id", "review_ids", "thread_id", "since_id", "reply_to_id",
    "session_id", "issue_id", "template_id", "message_ids",
}  # fmt: skip
"""Of things without a name: what they are about is a text, or they belong to a task that is named instead."""
OTHER_THINGS = {("db", "target"), ("notify", "id"), ("jobs", "workflow"), ("sessions", "instance_id")}
NEEDED = {
    ("work",): ["--once"], ("tasks", "reword"): ["--name", "x"], ("runs", "set"): ["--agents", "1"],
    ("approvals", "refuse"): ["--comment", "x"],
}  # fmt: skip
"""Options without which a command is refused before it looks for what is meant."""
MEANT = {"plan", "task", "work", "target", "workflow", "undo", "id"}


def is_id(words: Words, parameter: click.Parameter) -> bool:
    """Whether a parameter says which thing is meant, of those that have names."""
    name = parameter.name or ""
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    if (
        is_flag
        or isinstance(parameter.type, DocumentParam)
        or name in NAMELESS
        or (words[0], name) in OTHER_THINGS
    ):
        return False
    kind = find_kind(words[0], name)
    return kind not in ("session", "job", "template", "message", "any_issue") and (
        bool(kind) or name.endswith(("_id", "_ids")) or name in MEANT
    )


def list_parameters() -> list[tuple[Words, click.Command, click.Parameter]]:
    return [
        (words, command, parameter)
        for words, command in walk_commands()
        if words and is_runnable(command) and not isinstance(command, click.Group)
        for parameter in command.params
        if is_id(words, parameter)
    ]


def insert(tx: Transaction, table: str, **values: Any) -> None:
    """Insert a row; columns that must have a value get one."""
    for column in tx.fetch_all(
        f"SELECT name, type, dflt_value AS usual FROM pragma_table_info('{table}') WHERE \"notnull\" = 1"
    ):
        if column["name"] not in values and column["usual"] is None:
            values[column["name"]] = 1 if column["type"] in ("BIGINT", "INTEGER", "BOOLEAN") else "{}"
    tx.insert(table, values)


def add_twin(app: Application, folder: Path, number: int) -> None:
    plan = call_tool(app, "workflow_create", name=NAME, source_type="prompt", source_content="x")["id"]
    tasks = [{"name": NAME, "description": ""}]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    task = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"][0]["id"]
    call_tool(app, "agent_register", name=NAME, runtime="codex")
    record = call_tool(app, "start_workflow", name=NAME, objective="Pay")["workflow_id"]
    phase = call_tool(app, "start_phase", workflow_id=record, number=1, name=NAME)["phase_id"]
    place = {"workflow_id": record, "phase_id": phase, "caller_type": "orchestrator"}
    call_tool(app, "start_task", **place, name=NAME, goal="g")
    workspace = call_tool(
        app, "workspace_create", workflow_id=plan, path=str(folder / f"t{number}"), branch=f"b{number}"
    )["id"]
    ids = {"workflow_id": plan, "task_id": task}
    with app.database.transaction() as tx:
        tx.execute("UPDATE plan_tasks SET workspace_id = :w WHERE id = :id", w=workspace, id=task)
        insert(tx, "approvals", id=f"ap_{number:012}", subject_kind="task", subject_id=task, status="pending")
        insert(tx, "runner_runs", id=f"rn_{number:012}", workflow_id=plan, status="active")
        insert(tx, "attempts", id=f"at_{number:012}", run_id=f"rn_{number:012}", stage="running", **ids)
        insert(tx, "landings", id=f"ld_{number:012}", subject_id=task, status="queued", **ids)
        insert(tx, "rewinds", id=f"rw_{number:012}", number=1, **ids)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has two of each thing with the same name."""
    folder = tmp_path_factory.mktemp("twins")
    (folder / ".git").mkdir()
    app = make_app(folder, str(folder / ".deepwork" / "deepwork.db"))
    for number in range(2):
        add_twin(app, folder, number)
    app.close()
    return folder


def fill(words: Words, command: click.Command, meant: click.Parameter) -> list[str]:
    """Write a command line that means something by its name; everything else is only there."""
    options, values = [*NEEDED.get(words, [])], list[str]()
    for parameter in command.params:
        given = NAME if parameter is meant else _make_up(parameter)
        if isinstance(parameter, click.Argument):
            values += [given] if parameter is meant or parameter.required else []
        elif parameter is meant or parameter.required:
            options += [parameter.opts[0], given]
    return [*options, "--", *values]


def _make_up(parameter: click.Parameter) -> str:
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if "int" in kind.name or "float" in kind.name:
        return "1"
    return "wf_000000000000" if (parameter.name or "").endswith("id") else "x"


def test_every_command_of_a_tool_knows_what_its_ids_are_of():
    unknown = [
        (words, parameter.name)
        for words, command, parameter in list_parameters()
        if isinstance(command, ToolCommand) and not find_kind(words[0], parameter.name or "")
    ]

    assert unknown == []


@pytest.mark.parametrize(
    ("words", "command", "parameter"),
    [each for each in list_parameters() if not isinstance(each[1], ToolCommand)],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else getattr(each, "name", ""),
)
def test_an_ambiguous_name_is_refused_with_the_candidates(
    twins: Path, words: Words, command: click.Command, parameter: click.Parameter
):
    given = fill(words, command, parameter)
    ran = CliRunner().invoke(deepwork, [*words, "--path", str(twins), *given])

    assert f"{NAME!r} may mean" in f"{ran.output}{ran.exception}", given


def test_a_name_means_what_is_open_else_the_last_one(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    plan = call_tool(app, "workflow_create", name="Hotel", source_type="prompt", source_content="x")["id"]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": [{"name": "Rooms"}]})
    task = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"][0]["id"]
    request = ApprovalRequest(ApprovalKind.TASK, task, plan, {"name": "Rooms"})
    first = approvals.ask(app, request).id
    approvals.decide(app, first, "refuse")

    assert resolve_id(app.database, "approval", "rooms") == first

    second = approvals.ask(app, ApprovalRequest(ApprovalKind.TASK, task, plan, {"name": "Rooms 2"})).id
    assert resolve_id(app.database, "approval", "ROOMS") == second
    assert [resolve_id(app.database, kind, "Rooms") for kind in NAMED_BY_WORK] == [second, *["Rooms"] * 5]
    app.close()
