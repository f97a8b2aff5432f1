"""The specified interface of reviews, through a real client on each transport and protocol generation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport

import quick
from http_tests.http_server import HttpServer
from jobs.tool_client import ToolCallError, ToolClient
from protocol.stdio_server import StdioServer
from reviews.make import (
    FOLDER,
    ReviewProject,
    make_project,
    make_rule_data,
    parse_ids,
    parse_names,
    parse_tasks,
    read_instructions,
)

DOORS = [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto")]

RULES = {
    "python": make_rule_data("**/*.py", description="Python is read twice.", agent={"claude": "pythonista"}),
    "docs": make_rule_data("docs/**", strategy="matches_together", description="Pages agree."),
    "release": make_rule_data("CHANGELOG.md", strategy="all_changed_files", description="The whole change."),
}


class Reviews(ToolClient):
    """A client that asks for reviews."""

    def __init__(self, transport: ClientTransport, project: ReviewProject, **more: Any) -> None:
        super().__init__(transport, **more)
        self.project = project

    def get_instructions(self, **arguments: Any) -> str:
        """The plain text of get_review_instructions, which is the same in both forms."""
        result = self._result("get_review_instructions", arguments)
        text: str = result.content[0].text
        assert result.structured_content == {"result": text}
        return text

    def list_rules(self, **arguments: Any) -> Any:
        """The list of get_configured_reviews, which is the same in both forms."""
        result = self._result("get_configured_reviews", arguments)
        listed = result.structured_content["result"]
        assert json.loads(result.content[0].text) == listed
        return listed

    def _result(self, tool: str, arguments: dict[str, Any]) -> Any:
        async def ask() -> Any:
            return await self.client.call_tool(tool, arguments, raise_on_error=False)

        result = self._portal.call(ask)
        assert len(result.content) == 1
        if result.is_error:
            raise ToolCallError(json.loads(result.content[0].text))
        return result


@pytest.fixture(scope="module", params=DOORS, ids=" ".join)
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviews]:
    transport, era = request.param
    project = make_project(tmp_path_factory.mktemp("there") / "project", **RULES)
    project.write(".gitignore", content="server-*.log\n/.deepwork/\n")
    project.commit("docs/old.md")
    project.git("branch", "-f", "main")
    if transport == "stdio":
        with Reviews(quick.build_transport(project.root), project, mode=era) as talk:
            yield talk
        return
    with HttpServer(project.root) as server:
        way = StreamableHttpTransport(f"{server.url}/mcp", headers=server.bearer)
        with Reviews(way, project, mode=era) as talk:
            yield talk


@pytest.fixture
def talk(door: Reviews) -> Reviews:
    """The project as it was, and a server that has seen it otherwise."""
    door.project.git("reset", "-q", "--hard", "main")
    door.project.git("clean", "-q", "-d", "-f")
    return door


# get_review_instructions


def test_changed_files_are_reviewed_by_the_rules_in_deepreview_files(talk: Reviews):
    talk.project.write("src/a.py", "docs/new.md", "docs/newer.md", "other.txt")

    assert parse_names(talk.get_instructions()) == ["python review of src/a.py", "docs review of 2 files"]


def test_review_instructions_list_tasks_to_invoke_in_parallel(talk: Reviews):
    talk.project.write("a.py", "b.py")

    text = talk.get_instructions()

    assert text.startswith("Invoke the following list of Tasks in parallel, each with the Task tool:\n\n")
    assert len(parse_tasks(text)) == 2


def test_each_task_has_name_description_subagent_type_and_prompt(talk: Reviews):
    talk.project.write("a.py", "docs/new.md")

    first, second = parse_tasks(talk.get_instructions())

    assert (first["name"], first["description"], first["subagent_type"]) == (
        "python review of a.py", "Review python", "pythonista",
    )  # fmt: skip
    assert (second["name"], second["description"], second["subagent_type"]) == (
        "docs review of docs/new.md", "Review docs", "general-purpose",
    )  # fmt: skip
    assert all(re.fullmatch(rf"@{FOLDER}/rv_[0-9a-z]{{12}}\.md", task["prompt"]) for task in (first, second))


def test_each_prompt_names_a_file_with_complete_instructions(talk: Reviews):
    talk.project.write("a.py")

    [text] = read_instructions(talk.project.root, talk.get_instructions())

    assert text.startswith("# Review: python — a.py\n\n## Review Instructions\n\nLook.\n")
    assert "\n- @a.py\n" in text
    assert re.fullmatch(
        r"This review was requested by the policy in \.deepreview:2; review_id: rv_[0-9a-z]{12}",
        text.splitlines()[-1],
    )


def test_review_tools_can_be_called_outside_a_workflow(talk: Reviews):
    assert talk.call("get_workflows")["stack"] == []
    talk.get_instructions()
    talk.list_rules()

    assert talk.call("get_workflows")["stack"] == []


def test_files_is_optional_and_may_be_null(talk: Reviews):
    schema = talk.list_tools()["get_review_instructions"].input_schema

    assert list(schema["properties"]) == ["files"]
    assert "required" not in schema
    talk.project.write("a.py")
    assert talk.get_instructions(files=None) == talk.get_instructions()


def test_the_given_files_are_reviewed(talk: Reviews):
    talk.project.write("a.py", "b.py")

    assert parse_names(talk.get_instructions(files=["b.py"])) == ["python review of b.py"]
    assert parse_names(talk.get_instructions(files=["docs/old.md"])) == ["docs review of docs/old.md"]


def test_without_files_changes_come_from_git_against_the_default_branch(talk: Reviews):
    talk.project.git("switch", "-q", "-C", "work")
    talk.project.commit("committed.py")
    talk.project.stage("staged.py")
    talk.project.write("new.py")

    assert parse_names(talk.get_instructions()) == [
        f"python review of {name}.py" for name in ("committed", "new", "staged")
    ]


def test_no_rules_is_an_informational_message(talk: Reviews):
    talk.project.remove(".deepreview")

    assert talk.get_instructions() == "No .deepreview configuration files found: there are no review rules."


def test_no_changed_files_is_an_informational_message(talk: Reviews):
    assert talk.get_instructions() == "No changed files detected: nothing differs from main."
    assert talk.get_instructions(files=[]) == "No changed files detected."


def test_no_match_is_an_informational_message(talk: Reviews):
    talk.project.write("other.txt")

    assert talk.get_instructions() == "No review rules matched the changed files."


def test_a_rule_for_all_changed_files_gives_one_task(talk: Reviews):
    talk.project.write("CHANGELOG.md", "other.txt")

    text = talk.get_instructions()

    assert parse_names(text) == ["release review of 2 changed files"]
    assert "- @CHANGELOG.md\n- @other.txt\n" in read_instructions(talk.project.root, text)[0]


def test_files_that_are_not_a_list_of_strings_are_refused(talk: Reviews):
    for given in ("a.py", [1], {"a": 1}):
        with pytest.raises(ToolCallError) as refused:
            talk.get_instructions(files=given)
        assert refused.value.code == "INVALID_INPUT"
    with pytest.raises(ToolCallError) as refused:
        talk.get_instructions(files=["../x"])
    assert refused.value.code == "PATH_OUTSIDE_PROJECT"


# get_configured_reviews


def test_every_rule_is_listed_with_its_name_description_and_location(talk: Reviews):
    talk.project.write_rules("src", nested=make_rule_data(description="Below."))

    assert talk.list_rules() == [
        {"name": "nested", "description": "Below.", "defining_file": "src/.deepreview:2"},
        {"name": "python", "description": "Python is read twice.", "defining_file": ".deepreview:2"},
        {"name": "docs", "description": "Pages agree.", "defining_file": ".deepreview:17"},
        {"name": "release", "description": "The whole change.", "defining_file": ".deepreview:29"},
    ]


def test_the_filter_is_optional_and_may_be_null(talk: Reviews):
    schema = talk.list_tools()["get_configured_reviews"].input_schema

    assert list(schema["properties"]) == ["only_rules_matching_files", "limit"]
    assert "required" not in schema
    assert talk.list_rules(only_rules_matching_files=None) == talk.list_rules()


def list_names(rows: Any) -> list[str]:
    return [row["name"] for row in rows]


def test_a_filter_returns_the_rules_that_match_at_least_one_file(talk: Reviews):
    def matching(*files: str) -> list[str]:
        return list_names(talk.list_rules(only_rules_matching_files=list(files)))

    assert matching("x.py") == ["python"]
    assert matching("./docs/x.py", "none") == ["python", "docs"]
    assert matching("none") == []
    assert matching() == []


def test_without_a_filter_all_rules_are_listed(talk: Reviews):
    assert list_names(talk.list_rules()) == ["python", "docs", "release"]


def test_the_list_of_rules_can_be_limited(talk: Reviews):
    assert list_names(talk.list_rules(limit=1)) == ["python"]


def test_no_rules_are_an_empty_list(talk: Reviews):
    talk.project.remove(".deepreview")

    assert talk.list_rules() == []


def test_an_invalid_rule_file_is_listed_as_an_error_row(talk: Reviews):
    talk.project.write("src/.deepreview", content="bad: [\n")
    talk.project.write_rules("docs", half=make_rule_data(), broken=make_rule_data(strategy="all"))

    half, *others, bad, broken = sorted(talk.list_rules(), key=lambda row: row["name"].startswith("PARSE"))

    assert (half["name"], len(others)) == ("half", 3)
    assert {bad["name"], broken["name"]} == {"PARSE_ERROR:src/.deepreview", "PARSE_ERROR:docs/.deepreview"}
    rows = {row["name"]: row for row in (bad, broken)}
    assert rows["PARSE_ERROR:docs/.deepreview"]["defining_file"] == "docs/.deepreview:22"
    assert "'all' is not known" in rows["PARSE_ERROR:docs/.deepreview"]["description"]
    assert list_names(talk.list_rules(only_rules_matching_files=["src/x.txt"])) == [
        "PARSE_ERROR:src/.deepreview"
    ]


def test_a_running_server_detects_new_changed_and_removed_rule_files(talk: Reviews):
    (talk.project.root / "empty").mkdir()
    for _ in range(3):
        assert len(talk.list_rules()) == 3
    talk.project.write_rules("empty", new=make_rule_data())
    assert list_names(talk.list_rules())[0] == "new"
    talk.project.write(".gitignore", content="server-*.log\nempty\n")
    assert len(talk.list_rules()) == 3
    talk.project.write_rules(python=make_rule_data("**/*.py", description="Changed."))
    assert talk.list_rules()[0]["description"] == "Changed."
    talk.project.remove(".deepreview")
    assert talk.list_rules() == []


# mark_review_passed


def test_a_review_that_passed_is_left_out_until_its_file_changes(talk: Reviews):
    talk.project.write("a.py", "b.py", content=f"{uuid4()}\n")
    [first, _] = parse_ids(talk.get_instructions())

    passed = talk.call("mark_review_passed", review_id=first)

    assert passed["review_id"] == first
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", passed["passed_at"])
    assert talk.call("mark_review_passed", review_id=first) == passed
    text = talk.get_instructions()
    assert parse_names(text) == ["python review of b.py"]
    assert text.splitlines()[-1].startswith("1 review was left out: it passed before")
    talk.project.write("a.py", content="otherwise\n")
    assert len(parse_tasks(talk.get_instructions())) == 2


def test_an_unknown_review_is_not_found(talk: Reviews):
    with pytest.raises(ToolCallError) as refused:
        talk.call("mark_review_passed", review_id="rv_000000000000")

    assert refused.value.code == "REVIEW_NOT_FOUND"


# Several servers, other platforms


def call_for_text(wire: StdioServer, tool: str = "get_review_instructions", **arguments: Any) -> str:
    answer = wire.request("tools/call", {"name": tool, "arguments": arguments})
    text: str = answer["result"]["content"][0]["text"]
    return text


def test_w18_parallel_servers_do_not_delete_each_others_instructions(tmp_path: Path):
    project = make_project(tmp_path / "project", python=make_rule_data("*.py"))
    project.write("a.py", "b.py")
    announced: set[str] = set()

    with StdioServer(project.root) as one, StdioServer(project.root) as other:
        for round in range(3):
            project.write("a.py", content=f"round {round}\n")
            for wire in (one, other):
                announced |= {task["prompt"] for task in parse_tasks(call_for_text(wire))}
                assert all((project.root / prompt.removeprefix("@")).exists() for prompt in announced)

    assert len(announced) == 4, "one for b.py, one for each round of a.py, and both servers name the same"


def test_r5_another_platform_gets_the_same_tasks_in_a_neutral_form(tmp_path: Path):
    project = make_project(
        tmp_path / "project", python=make_rule_data("*.py", agent={"claude": "x", "codex": "persona"})
    )
    project.write("a.py")

    with StdioServer(project.root, "--platform", "codex") as wire:
        text = call_for_text(wire)

    assert text.startswith("Do these reviews, in parallel if you can: ")
    assert (
        '\n1. name: "python review of a.py"\n   description: Review python\n   subagent_type: persona\n'
        in text
    )
    assert re.search(rf'\n   prompt: "Read {FOLDER}/rv_\w+\.md and do what it says\."\n', text)


def test_the_platform_can_be_set_in_the_project_config(tmp_path: Path):
    project = make_project(tmp_path / "project", python=make_rule_data("*.py"))
    project.write(".deepwork/config.yml", content="platforms: [gemini, claude]\n")
    project.write("a.py")

    with StdioServer(project.root) as wire:
        assert "Do these reviews" in call_for_text(wire)


def test_w23_a_folder_that_is_not_a_repository_is_reported_in_one_sentence(tmp_path: Path):
    with StdioServer(tmp_path) as wire:
        error = wire.call("get_review_instructions")

    assert error["code"] == "GIT_ERROR"
    assert error["message"].endswith("is not a git repository.")
    assert "usage" not in error["message"]
