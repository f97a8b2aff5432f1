"""What can be asked of templates, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import NOW, ask, events, make_app, size, told
from deepwork.errors import Code, DeepworkError, InvalidInput, NotAllowed, NotFound
from deepwork.server.application import Application
from templates.make_templates import created, listed, write


def planned(app: Application, *tasks: dict[str, Any], **given: Any) -> str:
    """A workflow with a plan; its id."""
    made = {"name": "Release", "source_type": "prompt", "source_content": "Ship it."} | given
    id: str = ask(app, "workflow_create", **made)["id"]
    ask(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": list(tasks)})
    return id


def applied(app: Application, template: str, **variables: str) -> Any:
    """The workflow made from a template, with its tasks in full."""
    answer = ask(app, "template_apply", template_id=template, workflow_name="W", variables=variables)
    assert answer.keys() == {"workflow_id"}
    return ask(
        app, "workflow_get", id=answer["workflow_id"], include_tasks=True, include_task_summaries=False
    )


def refusal(app: Application, tool: str, **arguments: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        ask(app, tool, **arguments)
    return refused.value


# template_create


def test_a_template_is_kept_as_it_was_defined(app: Application):
    tasks = [
        {"name": "Design {{what}}", "description": "Think.", "sequence": 1},
        {"name": "Build", "description": "", "sequence": 2, "parallel_group": "b", "estimated_complexity": "high",
         "files_likely_affected": ["src/**"], "required_capabilities": ["python"]},
        {"name": "Ship", "description": "", "sequence": 3, "depends_on": ["Build"]},
        {"name": "Tell", "description": "", "sequence": 3, "depends_on": []},
    ]  # fmt: skip
    variables = [{"name": "who", "description": "Whom to tell", "required": False, "default": "all"}]

    answer = ask(
        app, "template_create", name="release", description="How we release.",
        template={"tasks": tasks, "variables": variables},
    )  # fmt: skip

    assert answer == {"id": answer["id"]}
    assert answer["id"].startswith("tmpl_")
    assert listed(app)["release"] == {
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


def test_a_variable_may_be_just_its_name(app: Application):
    created(app, {"name": "a"}, variables=["x", {"name": "y"}])

    assert listed(app)["release"]["template"]["variables"] == [
        {"name": "x", "description": "", "required": True},
        {"name": "y", "description": "", "required": True},
    ]


def test_a_task_needs_only_its_name(app: Application):
    created(app, {"name": "a"})

    assert listed(app)["release"]["template"]["tasks"] == [{"name": "a", "description": "", "sequence": 1}]


def test_a_plan_becomes_a_template_with_all_it_said(app: Application):
    tasks = [
        {"name": "Ship", "description": "Off {{where}}.", "sequence": 7, "depends_on": ["Build"]},
        {"name": "Build", "description": "All.", "sequence": 2, "parallel_group": "b", "estimated_complexity": "low",
         "files_likely_affected": ["src/**"], "required_capabilities": ["sql"]},
        {"name": "Tell", "description": "", "sequence": 3, "depends_on": []},
        {"name": "Wait", "description": "", "sequence": 3},
    ]  # fmt: skip
    workflow = planned(app, *tasks)

    ask(app, "template_create", name="again", from_workflow_id=workflow)

    assert listed(app)["again"]["template"] == {
        "tasks": tasks,
        "variables": [{"name": "where", "description": "", "required": True}],
    }


def test_a_workflow_that_is_over_can_become_a_template(app: Application):
    workflow = planned(app, {"name": "a"})
    ask(app, "workflow_update_status", id=workflow, status="abandoned")

    assert ask(app, "template_create", name="again", from_workflow_id=workflow)["id"]


def test_what_was_noted_in_a_task_does_not_spoil_its_template(app: Application):
    workflow = planned(app, {"name": "a", "files_likely_affected": ["b"], "estimated_complexity": "low"})
    [task] = ask(app, "workflow_get", id=workflow, include_tasks=True)["tasks"]
    odd = {"estimated_complexity": "gigantic", "required_capabilities": 5, "mine": 1}
    ask(app, "task_set_plan", id=task["id"], plan={"steps": ["x"]}, context=odd)

    ask(app, "template_create", name="again", from_workflow_id=workflow)

    assert listed(app)["again"]["template"]["tasks"] == [
        {"name": "a", "description": "", "sequence": 1, "files_likely_affected": ["b"]}
    ]


@pytest.mark.parametrize("given", [{}, {"from_workflow_id": "wf_1", "template": {"tasks": [{"name": "a"}]}}])
def test_exactly_one_of_workflow_and_definition_is_needed(app: Application, given: dict[str, Any]):
    error = refusal(app, "template_create", name="t", **given)

    assert error.code is Code.INVALID_INPUT
    assert error.suggestion == "Give exactly one of them."


def test_an_unknown_workflow_and_one_without_a_plan_are_refused(app: Application):
    empty = ask(app, "workflow_create", name="w", source_type="prompt", source_content="x")["id"]

    assert refusal(app, "template_create", name="t", from_workflow_id="wf_x").code is Code.WORKFLOW_NOT_FOUND
    error = refusal(app, "template_create", name="t", from_workflow_id=empty)
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
def test_what_could_never_be_a_plan_is_no_template(app: Application, tasks: list[Any], code: Code):
    error = refusal(app, "template_create", name="t", template={"tasks": tasks})

    assert (error.code, error.recoverable) == (code, True)
    assert "t" not in listed(app)


@pytest.mark.parametrize(
    "variables", [[{"name": "a b"}], ["x", "x"], [3], [{"name": "x", "defualt": "y"}], [{"description": "x"}]]
)
def test_variables_that_cannot_be_are_refused(app: Application, variables: list[Any]):
    template = {"tasks": [{"name": "a"}], "variables": variables}

    assert refusal(app, "template_create", name="t", template=template).code is Code.INVALID_INPUT


def test_a_name_is_given_once_even_if_many_ask_at_the_same_time(app: Application):
    def attempt(_: int) -> bool:
        try:
            created(app, {"name": "a"})
        except NotAllowed:
            return False
        return True

    with ThreadPoolExecutor(6) as askers:
        assert sum(askers.map(attempt, range(6))) == 1
    assert (
        "'release' already"
        in refusal(app, "template_create", name=" release ", template={"tasks": [{"name": "a"}]}).message
    )


def test_a_new_template_is_told_and_a_refused_one_is_not(app: Application):
    id = created(app, {"name": "{{x}}"}, description="d")
    refusal(app, "template_create", name="release", template={"tasks": [{"name": "a"}]})

    [event] = events(app)
    assert (event.type, event.workflow_id) == ("template:created", None)
    assert event.data == listed(app)["release"]
    assert event.data["id"] == id


def test_a_repeated_call_under_one_key_makes_one_template(app: Application):
    call: dict[str, Any] = {"name": "t", "template": {"tasks": [{"name": "a"}]}}

    assert ask(app, "template_create", key="k", **call) == ask(app, "template_create", key="k", **call)


# template_list


def test_templates_are_listed_by_name_with_those_that_are_shipped(app: Application):
    created(app, {"name": "a"}, name="zebra")
    created(app, {"name": "a"}, name="ant")

    answer = ask(app, "template_list")

    assert [each["name"] for each in answer["templates"]] == ["ant", "bugfix", "feature", "refactor", "zebra"]
    assert answer["total"] == 5
    assert "errors" not in answer
    assert [each.get("shipped") for each in answer["templates"]] == [None, True, True, True, None]
    assert listed(app)["feature"]["source"] == "shipped"


def test_a_list_has_a_limit_and_says_how_many_there_are(app: Application):
    for name in ("x", "y"):
        created(app, {"name": "a"}, name=name)

    answer = ask(app, "template_list", limit=2)

    assert ([each["name"] for each in answer["templates"]], answer["total"]) == (["bugfix", "feature"], 5)
    for limit in (0, 1001, -1):
        assert refusal(app, "template_list", limit=limit).code is Code.INVALID_INPUT


def test_a_long_template_is_cut_in_a_list_and_whole_when_asked_for(app: Application):
    id = created(app, *({"name": f"t{number}", "description": "x" * 600} for number in range(60)))

    cut = listed(app)["release"]
    [whole] = ask(app, "template_list", template_id=id)["templates"]

    assert (len(cut["template"]["tasks"]), cut["tasks_total"], cut["truncated"]) == (50, 60, True)
    assert cut["template"]["tasks"][0]["description"] == "x" * 499 + "…"
    assert whole["template"]["tasks"][59] == {"name": "t59", "description": "x" * 600, "sequence": 1}
    assert "truncated" not in whole


def test_a_list_of_the_shipped_ones_is_small(app: Application):
    assert size(ask(app, "template_list")) < 14_000


def test_one_template_can_be_asked_for_by_id_or_name(app: Application):
    id = created(app, {"name": "a"})

    by_id, by_name = (ask(app, "template_list", template_id=it) for it in (id, "release"))

    assert by_id == by_name
    assert (by_id["total"], by_id["templates"][0]["id"]) == (1, id)
    assert refusal(app, "template_list", template_id="none").code is Code.TEMPLATE_NOT_FOUND


# template_apply


def test_a_template_becomes_a_workflow_that_is_ready(app: Application, tmp_path: Path):
    id = created(
        app,
        {"name": "Build {{ what }}", "description": "For {{who}}.", "sequence": 1, "parallel_group": "g"},
        {"name": "Ship", "sequence": 4, "depends_on": ["Build {{what}}"], "estimated_complexity": "low",
         "files_likely_affected": ["{{what}}/**"], "required_capabilities": ["{{who}}"]},
        {"name": "Rest", "sequence": 4},
        description="How we release.",
        variables=[{"name": "who", "description": "For whom", "required": True}],
    )  # fmt: skip
    (tmp_path / "sub").mkdir()

    answer = ask(
        app, "template_apply", template_id=id, workflow_name="Release 2",
        variables={"what": "docs", "who": "Ada"}, repository_path="sub", max_parallel_tasks=3,
    )  # fmt: skip

    workflow = ask(
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


def test_without_more_words_it_is_for_this_project_one_task_after_another(app: Application, tmp_path: Path):
    created(app, {"name": "a"})

    workflow = applied(app, "release")

    assert (workflow["repository_path"], workflow["max_parallel_tasks"]) == (str(tmp_path), 1)


def test_defaults_and_optional_variables_need_not_be_given(app: Application):
    created(
        app, {"name": "a", "description": "{{x}}|{{y}}|{{z}}"},
        variables=[
            {"name": "x", "description": "", "required": True, "default": "d"},
            {"name": "y", "description": "", "required": False},
            {"name": "z", "description": "", "required": False, "default": "e"},
        ],
    )  # fmt: skip

    assert applied(app, "release")["tasks"][0]["description"] == "d||e"
    assert applied(app, "release", x="1", y="2", z="3")["tasks"][0]["description"] == "1|2|3"


def test_all_missing_variables_are_named_and_nothing_is_made(app: Application):
    id = created(app, {"name": "{{x}} {{y}}"}, variables=["z"])
    before = told(app)

    error = refusal(app, "template_apply", template_id=id, workflow_name="W", variables={"y": "1"})

    assert (error.code, error.recoverable) == (Code.MISSING_VARIABLES, True)
    assert error.message == "The template 'release' needs 'z', 'x'."
    assert ask(app, "workflow_list")["total"] == 0
    assert told(app) == before


def test_a_variable_that_is_not_one_is_refused(app: Application):
    created(app, {"name": "{{version}}"})

    error = refusal(
        app, "template_apply", template_id="release", workflow_name="W", variables={"version": "1", "verison": "2"}
    )  # fmt: skip

    assert error.code is Code.INVALID_INPUT
    assert "'verison'. Did you mean 'version'?" in error.message


def test_a_value_is_text(app: Application):
    created(app, {"name": "{{x}}"})

    error = refusal(app, "template_apply", template_id="release", workflow_name="W", variables={"x": 1})

    assert error.message == "`variables.x`: input should be a valid string, not 1."


def test_names_that_become_the_same_are_refused_and_nothing_is_made(app: Application):
    created(app, {"name": "Test {{x}}"}, {"name": "Test {{y}}"})

    with pytest.raises(InvalidInput) as refused:
        applied(app, "release", x="it", y="it")

    assert refused.value.code is Code.DUPLICATE_TASK_NAME
    assert ask(app, "workflow_list")["total"] == 0


def test_applying_tells_of_the_workflow_and_of_its_plan_once(app: Application):
    created(app, {"name": "a"}, {"name": "b"})
    applied(app, "release")  # the first plan makes its repository known
    before = len(events(app))

    applied(app, "release")

    assert told(app)[before:] == ["plan:created", "plan:updated"]


def test_what_is_made_from_a_template_is_found_by_its_words(app: Application):
    created(app, {"name": "a"}, variables=["x"])
    applied(app, "release", x="flux capacitor")

    assert ask(app, "workflow_search", query="flux")["total"] == 1


def test_an_unknown_template_is_refused_with_the_nearest(app: Application):
    error = refusal(app, "template_apply", template_id="featrue", workflow_name="W")

    assert isinstance(error, NotFound)
    assert error.code is Code.TEMPLATE_NOT_FOUND
    assert error.suggestion.endswith("Did you mean 'feature'?")


def test_a_repeated_apply_under_one_key_makes_one_workflow(app: Application):
    created(app, {"name": "a"})
    call = {"template_id": "release", "workflow_name": "W"}

    first = ask(app, "template_apply", key="k", **call)

    assert ask(app, "template_apply", key="k", **call) == first
    assert ask(app, "workflow_list")["total"] == 1


def test_a_template_of_its_own_making_can_be_made_again(app: Application):
    """What was made from a template becomes one, and so on: nothing is lost on the way."""
    first = applied(app, "feature", feature="Login")
    ask(app, "template_create", name="again", from_workflow_id=first["id"])

    second = applied(app, "again")

    def plain(workflow: Any) -> list[Any]:
        keys = ("name", "description", "sequence", "parallel_group", "depends_on", "context")
        return [{key: task.get(key) for key in keys} for task in workflow["tasks"]]

    assert plain(second) == plain(first)


def test_a_large_template_is_kept_and_applied_whole(app: Application):
    tasks = [
        {"name": f"t{number}", "sequence": number % 10, "description": "{{x}}"} for number in range(2_000)
    ]
    created(app, *tasks)

    answer = ask(app, "template_apply", template_id="release", workflow_name="W", variables={"x": "y"})

    assert ask(app, "workflow_progress", workflow_id=answer["workflow_id"])["total_tasks"] == 2_000


# who has a right to a name


def test_a_users_template_may_be_called_like_a_shipped_one_and_wins(app: Application):
    id = created(app, {"name": "mine"}, name="feature")

    assert listed(app)["feature"]["id"] == id
    assert ask(app, "template_list")["total"] == 3
    assert [task["name"] for task in applied(app, "feature")["tasks"]] == ["mine"]
    assert len(applied(app, "shipped:feature", feature="x")["tasks"]) == 9


def test_the_project_goes_before_the_user_who_goes_before_what_is_stored(
    app: Application, tmp_path: Path, home: Path
):
    stored = created(app, {"name": "stored"})
    assert [task["name"] for task in applied(app, "release")["tasks"]] == ["stored"]

    write(home, "release.yml", "tasks: [{name: user}]")
    assert [task["name"] for task in applied(app, "release")["tasks"]] == ["user"]
    assert listed(app)["release"]["source"] == "user"

    write(tmp_path, "release.yml", "tasks: [{name: project}]")
    assert [task["name"] for task in applied(app, "release")["tasks"]] == ["project"]
    assert listed(app)["release"]["source"] == "project"
    assert listed(app)["release"]["id"] == "file:project:release"

    assert [task["name"] for task in applied(app, stored)["tasks"]] == ["stored"]
    assert [task["name"] for task in applied(app, "file:user:release")["tasks"]] == ["user"]
    assert ask(app, "template_list")["total"] == 4


def test_a_name_that_a_file_has_cannot_be_given_again(app: Application, tmp_path: Path):
    write(tmp_path, "r.yml", "name: release\ntasks: [{name: a}]")

    error = refusal(app, "template_create", name="release", template={"tasks": [{"name": "a"}]})

    assert error.code is Code.DUPLICATE_TEMPLATE
    assert "file:project:r" in error.message


def test_a_read_only_server_lists_templates_and_makes_none(tmp_path: Path, location: str):
    from deepwork.server.toolsets import chosen

    reader = make_app(tmp_path, location, read_only=True)

    assert {name for name in chosen(reader.registry, reader.settings) if name.startswith("template_")} == {
        "template_list"
    }
