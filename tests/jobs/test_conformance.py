"""One test for every numbered requirement on jobs, through a real client, over every transport.

The numbers are those of JOBS-REQ-001; requirements on the server's creation (1.1) are in test_creation.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import ClientTransport, SSETransport, StreamableHttpTransport

import quick
from http_tests.http_server import HttpServer
from jobs.project import make_file_output, make_files_output, make_review, make_step, write_files, write_job
from jobs.tool_client import ToolCallError, ToolClient

DOORS = ("stdio, jobs only", "stdio", "http", "sse")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a job for each occasion."""
    root = tmp_path_factory.mktemp("project")
    write_files(root, "a.md", "b.md", "c.md", "x.md", "y.md")
    write_job(root, "chain", [make_step("a"), make_step("b"), make_step("c")])
    write_job(root, "two_ways", [make_step("a"), make_step("b")], one=["a"], other=["b"])
    write_job(
        root, "kinds",
        [make_step("a", {"one": make_file_output(), "maybe": make_file_output(required=False), "many": make_files_output(required=False)})],
    )  # fmt: skip
    write_job(root, "group", [make_step("a"), make_step("b"), make_step("c")], main=["a", ["b", "c"]])
    write_job(root, "group_first", [make_step("b"), make_step("c")], main=[["b", "c"]])
    write_job(root, "reviewed", [make_step("a", reviews=[make_review(Short="Is it short?")]), make_step("b")])
    folder = root / ".deepwork" / "jobs" / "broken"
    folder.mkdir()
    (folder / "job.yml").write_text("name: [")
    return root


@pytest.fixture(scope="module", params=DOORS)
def client_of_door(request: pytest.FixtureRequest, root: Path) -> Iterator[ToolClient]:
    with_stdio = request.param.startswith("stdio")
    flags = ["--toolsets", "jobs"] if request.param == "stdio, jobs only" else []
    if with_stdio:
        with ToolClient(quick.build_transport(root, *flags)) as client:
            yield client
        return
    with HttpServer(root, transport=request.param) as server:
        way: ClientTransport = StreamableHttpTransport(
            f"{server.url}/mcp", headers=server.bearer
        ) if request.param == "http" else SSETransport(f"{server.url}/sse", headers=server.bearer)  # fmt: skip
        with ToolClient(way) as client:
            yield client


@pytest.fixture
def client(client_of_door: ToolClient) -> Iterator[ToolClient]:
    yield client_of_door
    client_of_door.abort_all()


def start_session(
    client: ToolClient, job_name: str = "chain", workflow_name: str = "main", **more: Any
) -> Any:
    return client.call(
        "start_workflow", goal="try it", job_name=job_name, workflow_name=workflow_name, **more
    )


def finish_step(client: ToolClient, outputs: dict[str, Any], **more: Any) -> Any:
    return client.call("finished_step", outputs=outputs, **more)


# 1.2 get_workflows


def test_1_2_1_and_2_get_workflows_takes_no_parameters(client: ToolClient):
    assert client.list_tools()["get_workflows"].input_schema["properties"] == {}


def test_1_2_3_to_5_get_workflows_lists_jobs_with_their_workflows(client: ToolClient):
    listed = {each["name"]: each for each in client.call("get_workflows")["jobs"]}

    assert listed["two_ways"]["summary"] == "the job two_ways"
    assert listed["two_ways"]["workflows"] == [
        {"name": "one", "summary": "workflow one"},
        {"name": "other", "summary": "workflow other"},
    ]


def test_1_2_6_and_7_get_workflows_lists_jobs_that_failed_to_parse(client: ToolClient, root: Path):
    [error] = client.call("get_workflows")["errors"]

    assert (error["job_name"], error["job_dir"]) == ("broken", str(root / ".deepwork" / "jobs" / "broken"))
    assert "job.yml" in error["error"]


def test_1_2_8_get_workflows_loads_from_all_folders(client: ToolClient):
    names = {each["name"] for each in client.call("get_workflows")["jobs"]}

    assert {"chain", "deepwork_jobs", "hello_review"} <= names


# 1.3 start_workflow


def test_1_3_2_and_3_start_workflow_has_its_parameters(client: ToolClient):
    tools = client.list_tools()
    schema = tools["start_workflow"].input_schema

    assert schema["properties"].keys() >= {"goal", "job_name", "workflow_name", "instance_id"}
    if "start_phase" in tools:  # it records work too, so what a job needs is asked for when it is called
        with pytest.raises(ToolCallError, match=r"`workflow_name` is missing"):
            client.call("start_workflow", goal="g", job_name="chain")
    else:
        assert set(schema["required"]) == {"goal", "job_name", "workflow_name"}


def test_1_3_4_an_unknown_job_is_an_error(client: ToolClient):
    with pytest.raises(ToolCallError) as refused:
        start_session(client, "nowhere")

    assert refused.value.code == "JOB_NOT_FOUND"


def test_1_3_5_a_single_workflow_is_chosen_whatever_name_is_given(client: ToolClient):
    assert start_session(client, "chain", "anything")["stack"][-1]["workflow"] == "chain/main"


def test_1_3_6_an_unknown_workflow_name_lists_the_existing_ones(client: ToolClient):
    with pytest.raises(ToolCallError, match=r"one, other"):
        start_session(client, "two_ways", "third")


def test_1_3_8_and_9_a_session_is_stored_with_its_first_step_started(client: ToolClient, root: Path):
    id = start_session(client)["begin_step"]["session_id"]

    session = client.call("get_session", session_id=id)["session"]
    assert (root / ".deepwork" / "tmp" / f"session_{id}.json").exists()
    assert session["step_progress"]["a"]["started_at"]
    assert (session["job_name"], session["workflow_name"], session["goal"]) == ("chain", "main", "try it")


def test_1_3_10_and_11_start_workflow_returns_the_first_step(client: ToolClient, root: Path):
    begin = start_session(client)["begin_step"]

    assert begin["step_id"] == "a"
    assert begin["step_instructions"] == "Do a."
    assert begin["job_dir"] == str(root / ".deepwork" / "jobs" / "chain")
    assert begin["common_job_info"] == "about chain"
    assert begin["step_reviews"] == []
    assert len(begin["session_id"]) == 8


def test_1_3_12_start_workflow_returns_the_stack(client: ToolClient):
    assert start_session(client)["stack"][-1] == {"workflow": "chain/main", "step": "a"}


def test_1_3_13_and_14_expected_outputs_include_the_syntax_to_submit_them(client: ToolClient):
    expected = {
        each["name"]: each for each in start_session(client, "kinds")["begin_step"]["step_expected_outputs"]
    }

    assert expected["one"] == {
        "name": "one", "type": "file", "description": "a file", "required": True,
        "syntax_for_finished_step_tool": "filepath",
    }  # fmt: skip
    assert expected["many"]["syntax_for_finished_step_tool"] == "array of filepaths for all individual files"
    assert expected["many"]["required"] is False


# 1.4 finished_step


def test_1_4_2_and_3_finished_step_has_its_parameters(client: ToolClient):
    schema = client.list_tools()["finished_step"].input_schema

    assert schema["required"] == ["outputs"]
    assert {"notes", "quality_review_override_reason", "session_id"} <= set(schema["properties"])


def test_1_4_4_finished_step_without_a_session_is_a_state_error(client: ToolClient):
    with pytest.raises(ToolCallError, match="No active workflow session") as refused:
        finish_step(client, {})

    assert refused.value.code == "NO_ACTIVE_SESSION"


def test_1_4_5_a_session_id_targets_that_session(client: ToolClient):
    lower = start_session(client)["begin_step"]["session_id"]
    start_session(client, "two_ways", "one")

    answer = finish_step(client, {"a.md": "a.md"}, session_id=lower)

    assert answer["begin_step"]["session_id"] == lower
    assert [entry["step"] for entry in answer["stack"]] == ["b", "a"]


def test_1_4_6_outputs_are_validated(client: ToolClient):
    start_session(client)

    with pytest.raises(ToolCallError, match=r"nothing\.md"):
        finish_step(client, {"a.md": "nothing.md"})


def test_1_4_7_status_is_one_of_three_values_and_every_key_is_present(client: ToolClient):
    start_session(client)

    answers = [finish_step(client, {name: name}) for name in ("a.md", "b.md", "c.md")]

    assert [each["status"] for each in answers] == ["next_step", "next_step", "workflow_complete"]
    keys = {"status", "feedback", "failed_reviews", "begin_step", "summary", "all_outputs", "stack"}
    assert all(keys <= set(each) for each in answers)


def test_1_4_8_and_10_self_review_writes_instructions_and_requests_changes(client: ToolClient, root: Path):
    begin = start_session(client, "reviewed")["begin_step"]

    answer = finish_step(client, {"a.md": "a.md"}, notes="my notes")

    page = root / ".deepwork" / "tmp" / f"quality_review_{begin['session_id']}_a.md"
    assert answer["status"] == "needs_work"
    assert f".deepwork/tmp/{page.name}" in answer["feedback"]
    assert "subagent" in answer["feedback"]
    text = page.read_text()
    assert all(part in text for part in ("Is it short?", "a.md", "my notes", "BEGIN OUTPUTS"))
    assert answer["stack"][-1]["step"] == "a"


def test_1_4_9_an_override_skips_the_review_and_is_stored(client: ToolClient):
    id = start_session(client, "reviewed")["begin_step"]["session_id"]

    answer = finish_step(client, {"a.md": "a.md"}, quality_review_override_reason="reviewed by hand")

    assert answer["status"] == "next_step"
    [override] = client.call("get_session", session_id=id)["session"]["overrides"]
    assert (override["step_id"], override["reason"]) == ("a", "reviewed by hand")


def test_1_4_15_a_completed_step_is_stored_with_outputs_and_notes(client: ToolClient):
    id = start_session(client)["begin_step"]["session_id"]

    finish_step(client, {"a.md": "a.md"}, notes="went well")

    done = client.call("get_session", session_id=id)["session"]["step_progress"]["a"]
    assert (done["outputs"], done["notes"]) == ({"a.md": "a.md"}, "went well")
    assert done["completed_at"]


def test_1_4_16_the_last_step_completes_the_workflow_with_all_outputs(client: ToolClient):
    start_session(client)
    for name in ("a.md", "b.md"):
        finish_step(client, {name: name})

    answer = finish_step(client, {"c.md": "c.md"})

    assert answer["status"] == "workflow_complete"
    assert "main" in answer["summary"]
    assert answer["all_outputs"] == {"a.md": "a.md", "b.md": "b.md", "c.md": "c.md"}
    assert answer["stack"] == []


def test_1_4_17_the_next_step_is_returned_with_its_instructions(client: ToolClient):
    start_session(client)

    begin = finish_step(client, {"a.md": "a.md"})["begin_step"]

    assert (begin["step_id"], begin["step_instructions"]) == ("b", "Do b.")


@pytest.mark.parametrize("at_start", [False, True])
def test_1_4_18_a_concurrent_entry_starts_with_its_first_step(client: ToolClient, at_start: bool):
    begin = start_session(client, "group_first" if at_start else "group")["begin_step"]
    if not at_start:
        begin = finish_step(client, {"a.md": "a.md"})["begin_step"]

    assert begin["step_id"] == "b"
    assert "**CONCURRENT STEPS**" in begin["step_instructions"]
    assert "Task tool" in begin["step_instructions"]
    assert [each["step_id"] for each in begin["concurrent_steps"]] == ["b", "c"]
    answer = finish_step(client, {"b.md": "b.md", "c.md": "c.md"})
    assert answer["all_outputs"].items() >= {"b.md": "b.md", "c.md": "c.md"}.items()


def test_1_4_19_every_answer_has_the_stack(client: ToolClient):
    start_session(client, "reviewed")

    assert finish_step(client, {"a.md": "a.md"})["stack"] == [{"workflow": "reviewed/main", "step": "a"}]


# 1.5 output validation


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        pytest.param({"one": "x.md", "two": "y.md"}, "Unknown output names: two. Declared outputs: one, maybe, many", id="1.5.1"),
        pytest.param({"maybe": "x.md"}, "Missing required outputs: one", id="1.5.2"),
        pytest.param({"one": ["x.md"]}, "type 'file': pass a single string path, not a list", id="1.5.4"),
        pytest.param({"one": None}, "type 'file': pass a single string path, not null", id="1.5.4 null"),
        pytest.param({"one": "gone.md"}, "file not found at 'gone.md'", id="1.5.5"),
        pytest.param({"one": "x.md", "many": "y.md"}, "type 'files': pass a list of paths, not a string", id="1.5.6"),
        pytest.param({"one": "x.md", "many": ["y.md", 5]}, "type 'files': each path is a string, not a number", id="1.5.7"),
        pytest.param({"one": "x.md", "many": ["y.md", "gone.md"]}, "file not found at 'gone.md'", id="1.5.8"),
    ],
)  # fmt: skip
def test_1_5_invalid_outputs_are_refused_with_a_reason(
    client: ToolClient, outputs: dict[str, Any], said: str
):
    start_session(client, "kinds")

    with pytest.raises(ToolCallError) as refused:
        finish_step(client, outputs)

    assert said in refused.value.message
    assert client.call("validate_outputs", outputs=outputs)["valid"] is False


def test_1_5_3_optional_outputs_may_be_left_out(client: ToolClient):
    start_session(client, "kinds")

    assert client.call("validate_outputs", outputs={"one": "x.md"}) == {"valid": True, "problems": []}
    assert finish_step(client, {"one": "x.md"})["status"] == "workflow_complete"


def test_1_5_9_several_files_are_passed_as_a_list(client: ToolClient):
    start_session(client, "kinds")

    answer = finish_step(client, {"one": "x.md", "many": ["x.md", "y.md"]})

    assert answer["all_outputs"]["many"] == ["x.md", "y.md"]


# 1.6 abort_workflow


def test_1_6_2_and_3_abort_workflow_has_its_parameters(client: ToolClient):
    schema = client.list_tools()["abort_workflow"].input_schema

    assert schema["required"] == ["explanation"]
    assert "session_id" in schema["properties"]


def test_1_6_4_abort_workflow_without_a_session_is_a_state_error(client: ToolClient):
    with pytest.raises(ToolCallError) as refused:
        client.call("abort_workflow", explanation="why")

    assert refused.value.code == "NO_ACTIVE_SESSION"


def test_1_6_5_to_7_an_aborted_session_stores_its_reason_and_leaves_the_stack(client: ToolClient):
    id = start_session(client)["begin_step"]["session_id"]

    answer = client.call("abort_workflow", explanation="no longer needed")

    assert answer == {
        "aborted_workflow": "chain/main", "aborted_step": "a", "explanation": "no longer needed",
        "stack": [], "resumed_workflow": None, "resumed_step": None,
    }  # fmt: skip
    session = client.call("get_session", session_id=id)["session"]
    assert (session["status"], session["abort_reason"]) == ("aborted", "no longer needed")


def test_1_6_8_the_outer_workflow_is_resumed(client: ToolClient):
    start_session(client)
    start_session(client, "two_ways", "one")

    answer = client.call("abort_workflow", explanation="enough")

    assert (answer["resumed_workflow"], answer["resumed_step"]) == ("chain/main", "a")


def test_002_a_session_in_the_middle_of_the_stack_can_be_completed(client: ToolClient):
    ids = [start_session(client, name)["begin_step"]["session_id"] for name in ("chain", "kinds", "group")]

    finish_step(client, {"one": "x.md"}, session_id=ids[1])

    assert [entry["workflow"] for entry in client.call("get_workflows")["stack"]] == [
        "chain/main",
        "group/main",
    ]


def test_002_a_required_list_of_files_may_not_be_empty(client: ToolClient, root: Path):
    write_job(root, "list_needed", [make_step("a", {"many": make_files_output()})])
    start_session(client, "list_needed")

    with pytest.raises(ToolCallError, match="may not be empty"):
        finish_step(client, {"many": []})
