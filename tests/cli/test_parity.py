"""Every tool has a command, and both do and answer the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from application import list_event_types
from cli.command_tree import build_arguments, map_tool_commands, run_command
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.config import load_settings
from deepwork.kernel.store_admin.store_overview import load_overview
from jobs.project import make_step, write_job
from workspaces.make import create_repository

NO_VERB: dict[str, str] = {}
"""Tools without a command, each with the reason; there are none."""

RULE = """
python:
  description: Somebody looks at it.
  match: {include: ["*.py"]}
  review: {strategy: individual, instructions: Look.}
"""

STATE_KEYS = ("state", "because", "next")
Do = Callable[..., Any]


@dataclass
class World:
    """A project after the same story, executed by tools or by commands."""

    app: Application
    project: Path
    scratch: Path
    ids: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def by_tool(self, tool: str, **arguments: Any) -> Any:
        spec = self.app.registry[tool]
        # `track resolve` is a person's verb; commands show notices without counting as carrying them.
        caller = "human:ada" if tool == "resolve_issue" else "local"
        call = Call(caller, tool, carries_notices=False)
        return invoke(self.app.database, spec, arguments, call)

    def by_verb(self, tool: str, **arguments: Any) -> Any:
        return self.by_verbs(tool, arguments)[0]

    def by_verbs(self, tool: str, arguments: dict[str, Any], *, all: bool = False) -> list[Any]:
        """Return the answers of the tool's commands that take these arguments: of one, or of all."""
        fitting = [
            (words, given)
            for words, command in map_tool_commands()[tool]
            if (given := build_arguments(command, arguments, self.scratch)) is not None
        ]
        assert fitting, f"no verb of {tool} takes {sorted(arguments)}"
        return [run_command(words, given, self.project) for words, given in fitting[: None if all else 1]]

    @property
    def effects(self) -> tuple[Counter[str], dict[str, int]]:
        seen = load_overview(self.app.database.engine)
        assert seen is not None
        return Counter(list_event_types(self.app)), dict(seen.rows)


def prepared(folder: Path) -> World:
    project = create_repository(folder / "project")
    (project / "a.py").write_text("print()\n")
    (project / ".deepreview").write_text(RULE)
    write_job(project, "report", [make_step("gather"), make_step("write")])
    # On a slow machine, no agent may go silent in one of the two stories.
    (project / ".deepwork" / "config.yml").write_text("git_branch: 'off'\nlease_seconds: 86400\n")
    (project / "gather.md").write_text("Facts.")
    (project / "write.md").write_text("Text.")
    scratch = folder / "scratch"
    scratch.mkdir()
    return World(Application(load_settings(project, environment={})), project, scratch)


def story(world: World, call: Do) -> None:
    """Make every kind of change, each based on the earlier ones."""

    def do(tool: str, **arguments: Any) -> Any:
        said = call(tool, **arguments)
        world.answers.append((tool, shape(said)))
        return said

    ids = world.ids
    people(do, ids)
    plans(do, ids, world)
    records(do, ids, world)
    runs(do, ids)
    reviews(do, ids, world)


def people(do: Do, ids: dict[str, str]) -> None:
    ada = ids["ada"] = do(
        "agent_register", name="Ada", runtime="codex", capabilities=["python", "sql"], metadata={"model": "x"}
    )["id"]
    bob = ids["bob"] = do("agent_register", name="Bob", runtime="custom", role="coordinator")["id"]
    eve = do("agent_register", name="Eve", runtime="custom")["id"]
    do("agent_heartbeat", agent_id=ada, status="busy")
    do("agent_update", id=ada, status="online", current_task_id=None, metadata={"turn": 2})
    sent = do(
        "message_send", sender_id=ada, recipient_id=bob, message_type="query", body="up?", priority="high"
    )
    ids["message"] = sent["id"]
    do(
        "message_broadcast",
        sender_id=bob,
        message_type="notification",
        body="-- hello",
        recipient_filter={"role": "worker"},
    )
    do("message_get", id=sent["id"], mark_read=False)
    do("message_mark_read", message_ids=[sent["id"], "msg_unknown"])
    do("message_archive", message_ids=[sent["id"]])
    do("agent_unregister", id=eve)


def plans(do: Do, ids: dict[str, str], world: World) -> None:
    plan = ids["plan"] = do(
        "workflow_create",
        name="Login",
        source_type="prompt",
        source_content="Let people in.",
        max_parallel_tasks=3,
    )["id"]
    tasks = [
        {"name": name, "description": f"To {name}.", "sequence": 1, "parallel_group": "g"}
        for name in ("draw", "build", "ship")
    ]
    do("workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    do(
        "workflow_add_task",
        workflow_id=plan,
        task={"name": "tell", "description": "", "sequence": 2},
        after=["ship"],
    )
    listed = do("workflow_get", id=plan, include_tasks=True)["tasks"]
    named = {each["name"]: each["id"] for each in listed}
    do("workflow_remove_task", workflow_id=plan, task_id=named["tell"])
    do("workflow_set_parallelism", id=plan, max_parallel_tasks=2, file_conflicts="refuse")
    draw = ids["task"] = named["draw"]
    do("task_claim", task_id=draw, agent_id=ids["ada"])
    do(
        "task_set_plan",
        id=draw,
        plan={"approach": "a", "steps": ["one"]},
        context={"port": 1},
        agent_id=ids["ada"],
    )
    do("task_update_status", id=draw, status="in_progress", agent_id=ids["ada"])
    do(
        "checkpoint_add",
        task_id=draw,
        type="progress",
        summary="half",
        detail={"n": 1},
        files_changed=["a.py"],
    )
    do(
        "task_replan",
        id=draw,
        reason="better",
        new_plan={"approach": "b", "steps": ["two"]},
        agent_id=ids["ada"],
    )
    do("task_release", task_id=draw, agent_id=ids["ada"], reason="later")
    ids["workspace"] = do(
        "workspace_create",
        workflow_id=plan,
        path=str(world.project.parent / "project-tree"),
        branch="tree",
        create=True,
    )["id"]
    do("task_assign_workspace", task_id=named["build"], workspace_id=ids["workspace"])
    spare = do(
        "workspace_create",
        workflow_id=plan,
        path=str(world.project.parent / "project-spare"),
        branch="spare",
        create=True,
    )
    do("workspace_update", id=spare["id"], status="abandoned")
    do("repository_register", path=str(world.project), name="it")
    do("template_create", name="login", from_workflow_id=plan)
    do("template_apply", template_id="bugfix", workflow_name="Mondays", variables={"bug": "Login = broken"})
    do(
        "workflow_replan",
        workflow_id=plan,
        reason="new",
        tasks=[{"name": "again", "description": "", "sequence": 1}],
    )
    do("workflow_update_status", id=plan, status="paused", reason="lunch")


def records(do: Do, ids: dict[str, str], world: World) -> None:
    record = ids["record"] = do("start_workflow", name="Tidy", objective="Less.", profile="simple")[
        "workflow_id"
    ]
    phase = do("start_phase", workflow_id=record, number=1, name="first", is_parallel=True)["phase_id"]
    begun = {"workflow_id": record, "phase_id": phase, "caller_type": "orchestrator"}
    task = ids["tracked"] = do("start_task", **begun, name="sweep", goal="Sweep.", areas=["a.py"])["task_id"]
    left = do("start_task", **begun, name="mop", goal="Mop.")["task_id"]
    do(
        "log_decision",
        task_id=task,
        category="other",
        question="Which?",
        chosen="This.",
        reasoning="So.",
        options_considered=["a", "b"],
    )
    issue = do(
        "log_issue",
        task_id=task,
        type="other",
        description="Odd.",
        resolution="None.",
        requires_human_review=True,
    )
    do("resolve_issue", issue_id=issue["issue_id"], note="Fine.")
    do("log_milestone", task_id=task, message="half", progress=50.5, metadata={"n": 1})
    (world.project / "a.py").write_text("print(1)\n")
    do("complete_task", task_id=task, status="success", outcome={"summary": "Clean."})
    do("abandon_task", task_id=left, reason="No mop.")
    do("complete_phase", phase_id=phase, status="completed", summary="Done.")
    do("complete_workflow", workflow_id=record, status="completed", summary="Done.", achievements=["clean"])


def runs(do: Do, ids: dict[str, str]) -> None:
    begun = do("start_workflow", goal="A report.", job_name="report", workflow_name="main")
    first = begun["begin_step"]["session_id"]
    do("finished_step", outputs={"gather.md": "gather.md"}, notes="n", session_id=first)
    do("go_to_step", step_id="gather", session_id=first)
    do("abort_workflow", explanation="Enough.", session_id=first)
    second = do("start_workflow", goal="Another.", job_name="report", workflow_name="main")
    ids["session"] = second["begin_step"]["session_id"]


def reviews(do: Do, ids: dict[str, str], world: World) -> None:
    assert "a.py" in do("get_review_instructions", files=["a.py"])
    [due] = world.app.reviews.planner.plan(["a.py"]).reviews
    do("mark_review_passed", review_id=due.id)


READS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "agent_get": lambda ids: {"id": ids["ada"]},
    "agent_list": lambda _: {"status": ["online", "busy"], "limit": 5},
    "checkpoint_list": lambda ids: {"task_id": ids["task"], "type": ["progress"]},
    "get_configured_reviews": lambda _: {"only_rules_matching_files": ["a.py"]},
    "get_context": lambda ids: {"workflow_id": ids["record"], "include": ["tasks", "decisions"], "limit": 3},
    "get_session": lambda ids: {"session_id": ids["session"]},
    "get_task_diff": lambda ids: {"task_id": ids["tracked"], "path": "a.py"},
    "get_tracked_workflows": lambda _: {"status": ["completed"], "limit": 2},
    "get_workflows": lambda _: {},
    "message_count_unread": lambda ids: {"agent_id": ids["ada"], "priority": ["normal", "high"]},
    "message_list": lambda ids: {"agent_id": ids["bob"], "status": "all"},
    "repository_get": lambda ids: {"path": ids["project"]},
    "repository_list": lambda _: {"limit": 3},
    "task_check_dependencies": lambda ids: {"task_id": ids["task"]},
    "task_get": lambda ids: {"id": ids["task"], "include_checkpoints": True},
    "task_get_available": lambda ids: {"agent_id": ids["ada"]},
    "task_load_context": lambda ids: {"task_id": ids["task"], "include": {"workflow_plan": True}, "max_tokens": 4000},
    "template_list": lambda _: {"template_id": "bugfix"},
    "validate_outputs": lambda ids: {"outputs": {"gather.md": "nowhere.md"}, "session_id": ids["session"]},
    "workflow_get": lambda ids: {"id": ids["plan"], "include_tasks": True, "include_history": True},
    "workflow_get_summary": lambda ids: {"id": ids["plan"], "format": "markdown"},
    "workflow_list": lambda _: {"repository_path": "*", "status": ["paused", "ready"]},
    "workflow_next_tasks": lambda ids: {"workflow_id": ids["plan"], "include_failed": False},
    "workflow_progress": lambda ids: {"workflow_id": ids["plan"]},
    "workflow_search": lambda ids: {"query": "login", "workflow_id": ids["plan"]},
    "workspace_check": lambda ids: {"id": ids["workspace"]},
    "workspace_list": lambda ids: {"workflow_id": ids["plan"], "status": ["active", "abandoned"]},
}  # fmt: skip


def shape(value: Any) -> Any:
    """Reduce an answer to what is the same in every run."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    """Run the same calls twice: through tools and through commands."""
    one, other = (prepared(tmp_path_factory.mktemp(by)) for by in ("tools", "verbs"))
    story(one, one.by_tool)
    story(other, other.by_verb)
    yield one, other
    one.app.close()
    other.app.close()


def test_every_tool_has_its_verb_and_every_verb_its_tool(worlds: tuple[World, World]):
    registry = worlds[0].app.registry

    assert set(map_tool_commands()) | set(NO_VERB) == set(registry)


def test_every_tool_is_part_of_this_comparison(worlds: tuple[World, World]):
    registry = worlds[0].app.registry
    reading = {name for name, spec in registry.items() if spec.read_only}
    changing = {name for name, _ in worlds[0].answers} - reading

    assert set(READS) == reading, "add the arguments of a new tool that reads to READS"
    assert changing | set(NO_VERB) == set(registry) - reading, (
        "add a new tool that changes something to the story"
    )


def test_a_verb_answers_in_the_shape_of_its_tool(worlds: tuple[World, World]):
    for by_tool, by_verb in zip(worlds[0].answers, worlds[1].answers, strict=True):
        assert by_verb == by_tool


def test_a_verb_does_what_its_tool_does(worlds: tuple[World, World]):
    assert worlds[1].effects == worlds[0].effects


@pytest.mark.parametrize("tool", READS)
def test_a_verb_that_reads_returns_the_data_of_its_tool(worlds: tuple[World, World], tool: str):
    world = worlds[1]
    arguments = READS[tool]({**world.ids, "project": str(world.project)})

    by_tool = world.by_tool(tool, **arguments)

    for by_verb in world.by_verbs(tool, arguments, all=True):
        assert drop_states(by_verb) == by_tool


def drop_states(answer: Any) -> Any:
    """Leave out what only people read: whether a thing goes on by itself, and what to do if not."""
    if isinstance(answer, dict):
        return {key: drop_states(value) for key, value in answer.items() if key not in STATE_KEYS}
    return [drop_states(each) for each in answer] if isinstance(answer, list) else answer


def test_a_verb_takes_everything_its_tool_takes(worlds: tuple[World, World]):
    for tool, spec in worlds[0].app.registry.items():
        taken = {parameter.name for _, command in map_tool_commands()[tool] for parameter in command.params}
        assert set(spec.input_schema["properties"]) <= taken, tool
