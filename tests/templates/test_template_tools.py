"""Template tools, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import NOW, call_tool, list_event_types, list_events, make_app, measure_bytes
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError, InvalidInput, NotAllowed, NotFound
from templates.make import create_template, list_templates, write_template


def create_planned_workflow(app: Application, *tasks: dict[str, Any], **given: Any) -> str:
    """A workflow with a plan; its id."""
    made = {"name": "Release", "source_type": "prompt", "source_content": "Ship it."} | given
    id: str = call_tool(app, "workflow_create", **made)["id"]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": list(tasks)})
    return id


def apply_template(app: Application, template: str, **variables: str) -> Any:
    """The workflow made from a template, with its tasks in full."""
    answer = call_tool(app, "template_apply", template_id=template, workflow_name="W", variables=variables)
    assert answer.keys() == {"workflow_id"}
    return call_tool(
        app, "workflow_get", id=answer["workflow_id"], include_tasks=True, include_task_summaries=False
    )


def expect_error(app: Application, tool: str, **arguments: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        call_tool(app, tool, **arguments)
    return refused.value


# template_create


def test_a_template_is_stored_as_given(app: Application):
    tasks = [
        {"name": "Design {{what}}", "description": "Think.", "sequence": 1},
        {"name": "Build", "description": "", "sequence": 2, "parallel_group": "b", "estimated_complexity": "high",
         "files_likely_affected": ["src/**"], "required_capabilities": ["python"]},
        {"name": "Ship", "description": "", "sequence": 3, "depends_on": ["Build"]},
        {"name": "Tell", "description": "", "sequence": 3, "depends_on": []},
    ]  # fmt: skip
    variables = [{"name": "who", "description": "Whom to tell", "required": False, "default": "all"}]

    answer = call_tool(
        app, "template_create", name="release", description="How we release.",
        template={"tasks": tasks, "variables": variables},
    )  # fmt: skip

    assert answer == {"id": answer["id"]}
    assert answer["id"].startswith("tmpl_")
    assert list_templates(app)["release"] == {
        "id": answer["id"],
        "name": "release",
        "description": "How we release.",
        "template": {
            "tasks": tasks,
            "variables": [*variables, {"name": "what", "description": "", "required": True}],
        },
        "version": 1,
        "created_at": NOW,
    }


def test_a_variable_may_be_given_as_just_its_name(app: Application):
    create_template(app, {"name": "a"}, variables=["x", {"name": "y"}])

    assert list_templates(app)["release"]["template"]["variables"] == [
        {"name": "x", "description": "", "required": True},
        {"name": "y", "description": "", "required": True},
    ]


def test_a_task_needs_only_its_name(app: Application):
    create_template(app, {"name": "a"})

    assert list_templates(app)["release"]["template"]["tasks"] == [
        {"name": "a", "description": "", "sequence": 1}
    ]


def test_a_template_created_from_a_plan_has_every_field(app: Application):
    tasks = [
        {"name": "Ship", "description": "Off {{where}}.", "sequence": 7, "depends_on": ["Build"]},
        {"name": "Build", "description": "All.", "sequence": 2, "parallel_group": "b", "estimated_complexity": "low",
         "files_likely_affected": ["src/**"], "required_capabilities": ["sql"]},
        {"name": "Tell", "description": "", "sequence": 3, "depends_on": []},
        {"name": "Wait", "description": "", "sequence": 3},
    ]  # fmt: skip
    workflow = create_planned_workflow(app, *tasks)

    call_tool(app, "template_create", name="again", from_workflow_id=workflow)

    assert list_templates(app)["again"]["template"] == {
        "tasks": tasks,
        "variables": [{"name": "where", "description": "", "required": True}],
    }


def test_a_template_can_be_created_from_a_finished_workflow(app: Application):
    workflow = create_planned_workflow(app, {"name": "a"})
    call_tool(app, "workflow_update_status", id=workflow, status="abandoned")

    assert call_tool(app, "template_create", name="again", from_workflow_id=workflow)["id"]


def test_invalid_context_of_a_task_is_left_out_of_its_template(app: Application):
    workflow = create_planned_workflow(
        app, {"name": "a", "files_likely_affected": ["b"], "estimated_complexity": "low"}
    )
    [task] = call_tool(app, "workflow_get", id=workflow, include_tasks=True)["tasks"]
    odd = {"estimated_complexity": "gigantic", "required_capabilities": 5, "mine": 1}
    call_tool(app, "task_set_plan", id=task["id"], plan={"steps": ["x"]}, context=odd)

    call_tool(app, "template_create", name="again", from_workflow_id=workflow)

    assert list_templates(app)["again"]["template"]["tasks"] == [
        {"name": "a", "description": "", "sequence": 1, "files_likely_affected": ["b"]}
    ]


@pytest.mark.parametrize("given", [{}, {"from_workflow_id": "wf_1", "template": {"tasks": [{"name": "a"}]}}])
def test_exactly_one_of_workflow_and_definition_is_needed(app: Application, given: dict[str, Any]):
    error = expect_error(app, "template_create", name="t", **given)

    assert error.code is Code.INVALID_INPUT
    assert error.suggestion == "Pass exactly one of them."


def test_an_unknown_workflow_and_one_without_a_plan_are_refused(app: Application):
    empty = call_tool(app, "workflow_create", name="w", source_type="prompt", source_content="x")["id"]

    assert (
        expect_error(app, "template_create", name="t", from_workflow_id="wf_x").code
        is Code.WORKFLOW_NOT_FOUND
    )
    error = expect_error(app, "template_create", name="t", from_workflow_id=empty)
    assert (error.code, error.message) == (Code.INVALID_STATE, "Workflow 'w' has no plan yet.")


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ([], Code.INVALID_INPUT),
        ([{"name": " "}], Code.INVALID_INPUT),
        ([{"name": "a"}, {"name": "a "}], Code.DUPLICATE_TASK_NAME),
        ([{"name": "a", "depends_on": ["a"]}], Code.SELF_DEPENDENCY),
        ([{"name": "a", "depends_on": ["b"]}], Code.UNKNOWN_DEPENDENCY),
        ([{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}], Code.CIRCULAR_DEPENDENCY),
        ([{"nmae": "a"}], Code.INVALID_INPUT),
    ],
)
def test_a_template_that_would_be_an_invalid_plan_is_refused(app: Application, tasks: list[Any], code: Code):
    error = expect_error(app, "template_create", name="t", template={"tasks": tasks})

    assert (error.code, error.recoverable) == (code, True)
    assert "t" not in list_templates(app)


@pytest.mark.parametrize(
    "variables", [[{"name": "a b"}], ["x", "x"], [3], [{"name": "x", "defualt": "y"}], [{"description": "x"}]]
)
def test_invalid_variables_are_refused(app: Application, variables: list[Any]):
    template = {"tasks": [{"name": "a"}], "variables": variables}

    assert expect_error(app, "template_create", name="t", template=template).code is Code.INVALID_INPUT


@pytest.mark.differs
def test_only_one_of_many_concurrent_creations_with_a_name_succeeds(app: Application):
    def attempt(_: int) -> bool:
        try:
            create_template(app, {"name": "a"})
        except NotAllowed:
            return False
        return True

    with ThreadPoolExecutor(6) as askers:
        assert sum(askers.map(attempt, range(6))) == 1
    assert (
        "'release' already"
        in expect_error(app, "template_create", name=" release ", template={"tasks": [{"name": "a"}]}).message
    )


def test_a_new_template_emits_an_event_and_a_refused_one_does_not(app: Application):
    id = create_template(app, {"name": "{{x}}"}, description="d")
    expect_error(app, "template_create", name="release", template={"tasks": [{"name": "a"}]})

    [event] = list_events(app)
    assert (event.type, event.workflow_id) == ("template:created", None)
    assert event.data == list_templates(app)["release"]
    assert event.data["id"] == id


def test_a_creation_repeated_under_one_key_creates_one_template(app: Application):
    call: dict[str, Any] = {"name": "t", "template": {"tasks": [{"name": "a"}]}}

    assert call_tool(app, "template_create", key="k", **call) == call_tool(
        app, "template_create", key="k", **call
    )


# template_list


def test_templates_are_listed_by_name_including_shipped_ones(app: Application):
    create_template(app, {"name": "a"}, name="zebra")
    create_template(app, {"name": "a"}, name="ant")

    answer = call_tool(app, "template_list")

    assert [each["name"] for each in answer["templates"]] == ["ant", "bugfix", "feature", "refactor", "zebra"]
    assert answer["total"] == 5
    assert "errors" not in answer
    assert [each.get("shipped") for each in answer["templates"]] == [None, True, True, True, None]
    assert list_templates(app)["feature"]["source"] == "shipped"


def test_the_template_list_is_limited_and_returns_the_total(app: Application):
    for name in ("x", "y"):
        create_template(app, {"name": "a"}, name=name)

    answer = call_tool(app, "template_list", limit=2)

    assert ([each["name"] for each in answer["templates"]], answer["total"]) == (["bugfix", "feature"], 5)
    for limit in (0, 1001, -1):
        assert expect_error(app, "template_list", limit=limit).code is Code.INVALID_INPUT


def test_a_long_template_is_truncated_in_the_list_but_not_on_its_own(app: Application):
    id = create_template(app, *({"name": f"t{number}", "description": "x" * 600} for number in range(60)))

    cut = list_templates(app)["release"]
    [whole] = call_tool(app, "template_list", template_id=id)["templates"]

    assert (len(cut["template"]["tasks"]), cut["tasks_total"], cut["truncated"]) == (50, 60, True)
    assert cut["template"]["tasks"][0]["description"] == "x" * 499 + "…"
    assert whole["template"]["tasks"][59] == {"name": "t59", "description": "x" * 600, "sequence": 1}
    assert "truncated" not in whole


def test_the_list_of_shipped_templates_is_small(app: Application):
    assert measure_bytes(call_tool(app, "template_list")) < 14_000


def test_one_template_can_be_requested_by_id_or_name(app: Application):
    id = create_template(app, {"name": "a"})

    by_id, by_name = (call_tool(app, "template_list", template_id=it) for it in (id, "release"))

    assert by_id == by_name
    assert (by_id["total"], by_id["templates"][0]["id"]) == (1, id)
    assert expect_error(app, "template_list", template_id="none").code is Code.TEMPLATE_NOT_FOUND


# template_apply


def test_applying_a_template_creates_a_ready_workflow(app: Application, tmp_path: Path):
    id = create_template(
        app,
        {"name": "Build {{ what }}", "description": "For {{who}}.", "sequence": 1, "parallel_group": "g"},
        {"name": "Ship", "sequence": 4, "depends_on": ["Build {{what}}"], "estimated_complexity": "low",
         "files_likely_affected": ["{{what}}/**"], "required_capabilities": ["{{who}}"]},
        {"name": "Rest", "sequence": 4},
        description="How we release.",
        variables=[{"name": "who", "description": "For whom", "required": True}],
    )  # fmt: skip
    (tmp_path / "sub").mkdir()

    answer = call_tool(
        app, "template_apply", template_id=id, workflow_name="Release 2",
        variables={"what": "docs", "who": "Ada"}, repository_path="sub", max_parallel_tasks=3,
    )  # fmt: skip

    workflow = call_tool(
        app, "workflow_get", id=answer["workflow_id"], include_tasks=True, include_task_summaries=False
    )
    build, ship, rest = workflow["tasks"]
    assert answer == {"workflow_id": workflow["id"]}
    assert (workflow["name"], workflow["status"]) == ("Release 2", "ready")
    assert (workflow["source_type"], workflow["source_ref"]) == ("template", id)
    assert workflow["plan_summary"] == "Applied template: release"
    assert workflow["plan"] == {"approach": "How we release."}
    assert "- who (For whom): Ada\n- what: docs" in workflow["source_content"]
    assert workflow["repository_path"] == str(tmp_path / "sub")
    assert workflow["max_parallel_tasks"] == 3
    assert (build["name"], build["description"], build["parallel_group"]) == ("Build docs", "For Ada.", "g")
    assert (ship["sequence"], ship["depends_on"]) == (4, ["Build docs"])
    assert ship["context"] == {
        "estimated_complexity": "low",
        "files_likely_affected": ["docs/**"],
        "required_capabilities": ["Ada"],
    }
    assert (rest["follows_sequence"], "depends_on" in rest) == (1, False)


def test_an_applied_template_is_for_this_project_and_sequential_by_default(app: Application, tmp_path: Path):
    create_template(app, {"name": "a"})

    workflow = apply_template(app, "release")

    assert (workflow["repository_path"], workflow["max_parallel_tasks"]) == (str(tmp_path), 1)


def test_variables_that_are_optional_or_have_a_default_can_be_omitted(app: Application):
    create_template(
        app, {"name": "a", "description": "{{x}}|{{y}}|{{z}}"},
        variables=[
            {"name": "x", "description": "", "required": True, "default": "d"},
            {"name": "y", "description": "", "required": False},
            {"name": "z", "description": "", "required": False, "default": "e"},
        ],
    )  # fmt: skip

    assert apply_template(app, "release")["tasks"][0]["description"] == "d||e"
    assert apply_template(app, "release", x="1", y="2", z="3")["tasks"][0]["description"] == "1|2|3"


def test_all_missing_variables_are_named_and_nothing_is_created(app: Application):
    id = create_template(app, {"name": "{{x}} {{y}}"}, variables=["z"])
    before = list_event_types(app)

    error = expect_error(app, "template_apply", template_id=id, workflow_name="W", variables={"y": "1"})

    assert (error.code, error.recoverable) == (Code.MISSING_VARIABLES, True)
    assert error.message == "Template 'release' needs a value for 'z', 'x'."
    assert call_tool(app, "workflow_list")["total"] == 0
    assert list_event_types(app) == before


def test_an_unknown_variable_is_refused(app: Application):
    create_template(app, {"name": "{{version}}"})

    error = expect_error(
        app, "template_apply", template_id="release", workflow_name="W", variables={"version": "1", "verison": "2"}
    )  # fmt: skip

    assert error.code is Code.INVALID_INPUT
    assert "'verison'. Did you mean 'version'?" in error.message


def test_a_value_must_be_text(app: Application):
    create_template(app, {"name": "{{x}}"})

    error = expect_error(app, "template_apply", template_id="release", workflow_name="W", variables={"x": 1})

    assert error.message == "`variables.x` must be a string, not 1."


def test_values_that_make_task_names_equal_are_refused_and_nothing_is_created(app: Application):
    create_template(app, {"name": "Test {{x}}"}, {"name": "Test {{y}}"})

    with pytest.raises(InvalidInput) as refused:
        apply_template(app, "release", x="it", y="it")

    assert refused.value.code is Code.DUPLICATE_TASK_NAME
    assert call_tool(app, "workflow_list")["total"] == 0


def test_applying_emits_one_event_for_the_workflow_and_one_for_its_plan(app: Application):
    create_template(app, {"name": "a"}, {"name": "b"})
    apply_template(app, "release")  # the first plan makes its repository known
    before = len(list_events(app))

    apply_template(app, "release")

    assert list_event_types(app)[before:] == ["plan:created", "plan:updated"]


def test_workflows_created_from_a_template_are_searchable_by_its_values(app: Application):
    create_template(app, {"name": "a"}, variables=["x"])
    apply_template(app, "release", x="flux capacitor")

    assert call_tool(app, "workflow_search", query="flux")["total"] == 1


def test_an_unknown_template_is_refused_with_a_suggestion(app: Application):
    error = expect_error(app, "template_apply", template_id="featrue", workflow_name="W")

    assert isinstance(error, NotFound)
    assert error.code is Code.TEMPLATE_NOT_FOUND
    assert error.suggestion.endswith("Did you mean 'feature'?")


def test_applying_twice_under_one_key_creates_one_workflow(app: Application):
    create_template(app, {"name": "a"})
    call = {"template_id": "release", "workflow_name": "W"}

    first = call_tool(app, "template_apply", key="k", **call)

    assert call_tool(app, "template_apply", key="k", **call) == first
    assert call_tool(app, "workflow_list")["total"] == 1


def test_a_workflow_from_a_template_can_become_the_same_template(app: Application):
    """What was made from a template becomes one, and so on: nothing is lost on the way."""
    first = apply_template(app, "feature", feature="Login")
    call_tool(app, "template_create", name="again", from_workflow_id=first["id"])

    second = apply_template(app, "again")

    def plain(workflow: Any) -> list[Any]:
        keys = ("name", "description", "sequence", "parallel_group", "depends_on", "context")
        return [{key: task.get(key) for key in keys} for task in workflow["tasks"]]

    assert plain(second) == plain(first)


def test_a_large_template_is_stored_and_applied_completely(app: Application):
    tasks = [
        {"name": f"t{number}", "sequence": number % 10, "description": "{{x}}"} for number in range(2_000)
    ]
    create_template(app, *tasks)

    answer = call_tool(app, "template_apply", template_id="release", workflow_name="W", variables={"x": "y"})

    assert call_tool(app, "workflow_progress", workflow_id=answer["workflow_id"])["total_tasks"] == 2_000


# who has a right to a name


def test_a_stored_template_overrides_a_shipped_one_of_the_same_name(app: Application):
    id = create_template(app, {"name": "mine"}, name="feature")

    assert list_templates(app)["feature"]["id"] == id
    assert call_tool(app, "template_list")["total"] == 3
    assert [task["name"] for task in apply_template(app, "feature")["tasks"]] == ["mine"]
    assert len(apply_template(app, "shipped:feature", feature="x")["tasks"]) == 9


def test_project_files_override_user_files_which_override_stored_templates(
    app: Application, tmp_path: Path, home: Path
):
    stored = create_template(app, {"name": "stored"})
    assert [task["name"] for task in apply_template(app, "release")["tasks"]] == ["stored"]

    write_template(home, "release.yml", "tasks: [{name: user}]")
    assert [task["name"] for task in apply_template(app, "release")["tasks"]] == ["user"]
    assert list_templates(app)["release"]["source"] == "user"

    write_template(tmp_path, "release.yml", "tasks: [{name: project}]")
    assert [task["name"] for task in apply_template(app, "release")["tasks"]] == ["project"]
    assert list_templates(app)["release"]["source"] == "project"
    assert list_templates(app)["release"]["id"] == "file:project:release"

    assert [task["name"] for task in apply_template(app, stored)["tasks"]] == ["stored"]
    assert [task["name"] for task in apply_template(app, "file:user:release")["tasks"]] == ["user"]
    assert call_tool(app, "template_list")["total"] == 4


def test_the_name_of_a_template_file_cannot_be_reused(app: Application, tmp_path: Path):
    write_template(tmp_path, "r.yml", "name: release\ntasks: [{name: a}]")

    error = expect_error(app, "template_create", name="release", template={"tasks": [{"name": "a"}]})

    assert (error.code, error.recoverable) == (Code.DUPLICATE_TEMPLATE, True)
    assert "file:project:r" in error.message


def test_a_read_only_server_only_lists_templates(tmp_path: Path, location: str):
    from deepwork.edge.server.registry import select_tools

    reader = make_app(tmp_path, location, read_only=True)

    assert {
        name for name in select_tools(reader.registry, reader.settings) if name.startswith("template_")
    } == {"template_list"}
