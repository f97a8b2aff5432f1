"""A job.yml has the shape of its schema, or every departure is named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.files.definition_models import validate_data
from deepwork.work.jobs.definitions.catalog import STANDARD_JOBS, find_problems, load_job
from deepwork.work.jobs.definitions.job_file import JobDefinition
from deepwork.work.jobs.definitions.models import FileInput, HookAction, OutputType, UserInput, WorkflowEntry
from jobs.make import INFO, make_job, make_output, make_review, make_step, make_workflow, write_job

SCHEMA_FILE = STANDARD_JOBS.with_name("job.schema.json")
HOOKS = {"after_agent": [{"prompt": "Check."}], "before_tool": [{"script": "x.sh"}], "before_prompt": []}

GOOD: dict[str, dict[str, Any]] = {
    "the ordinary": make_job(),
    "without workflows": {key: value for key, value in make_job().items() if key != "workflows"},
    "no workflow": make_job(workflows=[]),
    "described": make_job(description="At length."),
    "an empty description": make_job(description=""),
    "a summary of 200": make_job(summary="x" * 200),
    "a name of 200": make_job(name="x" * 200),
    "no outputs, no reviews": make_job(make_step(outputs={}, reviews=[])),
    "several files, optional": make_job(make_step(outputs={"all": make_output("files", required=False)})),
    "an output with a free name": make_job(make_step(outputs={"Der Bericht (final).md": make_output()})),
    "a review": make_job(
        make_step(reviews=[make_review("step"), make_review("write.md", additional_review_guidance="Mind.")])
    ),
    "a user input": make_job(make_step(inputs=[{"name": "topic", "description": "About what."}])),
    "hooks": make_job(make_step(hooks=HOOKS, stop_hooks=[{"prompt_file": "p.md"}])),
    "all the rest": make_job(make_step(agent="writer", exposed=True, hidden=False, dependencies=[])),
    "a group": make_job(make_step("a"), make_step("b"), workflows=[make_workflow(["a", "b"])]),
    "a group of one": make_job(make_step("a"), workflows=[make_workflow(["a"])]),
}


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


MISSING = [
    (f"a job without {key}", without(make_job(), key), f"root: the key '{key}' is missing; add it: ")
    for key in ("name", "version", "summary", INFO, "steps")
] + [
    (f"a step without {key}", make_job(without(make_step(), key)), f"steps -> 0: the key '{key}' is missing; add it: ")
    for key in ("id", "name", "description", "instructions_file", "outputs", "reviews")
] + [
    (
        f"an output without {key}",
        make_job(make_step(outputs={"a": without(make_output(), key)})),
        f"steps -> 0 -> outputs -> a: the key '{key}' is missing; ",
    )
    for key in ("type", "description", "required")
] + [
    (
        f"a review without {key}",
        make_job(make_step(reviews=[without(make_review(), key)])),
        f"steps -> 0 -> reviews -> 0: the key '{key}' is missing; ",
    )
    for key in ("run_each", "quality_criteria")
] + [
    (
        f"a workflow without {key}",
        make_job(workflows=[without(make_workflow("write"), key)]),
        f"workflows -> 0: the key '{key}' is missing; ",
    )
    for key in ("name", "summary", "steps")
]  # fmt: skip

UNKNOWN = [
    ("a job", make_job(sumary="x"), "sumary: the key 'sumary' is unknown; did you mean 'summary'?"),
    ("a step", make_job(make_step(output={})), "steps -> 0 -> output: the key 'output' is unknown; did you mean 'outputs'?"),
    ("an output", make_job(make_step(outputs={"a": make_output() | {"kind": 1}})), "outputs -> a -> kind: the key 'kind' is unknown; allowed: 'type', 'description', 'required'."),
    ("a review", make_job(make_step(reviews=[make_review(criteria={})])), "the key 'criteria' is unknown; "),
    ("a workflow", make_job(workflows=[make_workflow("write") | {"step": 1}]), "did you mean 'steps'?"),
    ("hooks", make_job(make_step(hooks={"after_agents": []})), "did you mean 'after_agent'?"),
]  # fmt: skip

WRONG = [
    ("a name with capitals", make_job(name="Report"), "name: 'Report' is not allowed; lower-case letters, digits and underscores"),
    ("a name with a hyphen", make_job(name="my-report"), "name: 'my-report' is not allowed; "),
    ("a name that begins with a digit", make_job(name="1st"), "name: '1st' is not allowed; "),
    ("an empty name", make_job(name=""), "name: '' is not allowed; "),
    ("a name with a line break", make_job(name="report\n"), r"name: 'report\n' is not allowed; "),
    ("a name too long", make_job(name="x" * 201), "name: this has 201 characters; at most 200 are allowed."),
    ("a name that is a path", make_job(name="../x"), "name: '../x' is not allowed; "),
    ("a number as version", make_job(version=1.0), "version: this must be text, not the number 1.0; put it in quotes."),
    ("a short version", make_job(version="1.0"), "version: '1.0' is not allowed; three numbers with dots"),
    ("a version with a tail", make_job(version="1.0.0-rc1"), "version: '1.0.0-rc1' is not allowed; "),
    ("a version in other digits", make_job(version="١.٢.٣"), "version: '١.٢.٣' is not allowed; "),
    ("an empty summary", make_job(summary=""), "summary: this is empty; one line that says what it is for"),
    ("a summary of 201", make_job(summary="x" * 201), "summary: this has 201 characters; at most 200 are allowed."),
    ("no summary after the key", make_job(summary=None), "summary: this must be text, not nothing; "),
    ("an empty common info", make_job(**{INFO: ""}), f"{INFO}: this is empty; "),
    ("a description that is a list", make_job(description=["x"]), "description: this must be text, not a list; "),
    ("no steps", make_job(steps=[], workflows=[]), "steps: this list is empty; add at least one entry."),
    ("steps as a mapping", make_job(steps={"a": 1}, workflows=[]), "steps: this must be a list, not a mapping; "),
    ("a step that is text", make_job(steps=["write"], workflows=[]), "steps -> 0: this must be a mapping, not text; "),
    ("a step id with capitals", make_job(make_step("Write"), workflows=[]), "steps -> 0 -> id: 'Write' is not allowed; "),
    ("an empty step name", make_job(make_step(name="")), "steps -> 0 -> name: this is empty; "),
    ("an empty step description", make_job(make_step(description="")), "steps -> 0 -> description: this is empty; "),
    ("an empty instructions file", make_job(make_step(instructions_file="")), "steps -> 0 -> instructions_file: this is empty; "),
    ("outputs as a list", make_job(make_step(outputs=["a.md"])), "steps -> 0 -> outputs: this must be a mapping, not a list; "),
    ("outputs that are nothing", make_job(make_step(outputs=None)), "outputs: this must be a mapping, not nothing; "),
    ("an output without a name", make_job(make_step(outputs={"": make_output()})), "outputs -> '': the name is empty; give it a name."),
    ("an unknown output type", make_job(make_step(outputs={"a": make_output("fil")})), "type: 'fil' is not known; did you mean 'file'?"),
    ("an output type in capitals", make_job(make_step(outputs={"a": make_output("FILE")})), "type: 'FILE' is not known; allowed: 'file', 'files'."),
    ("an output required by word", make_job(make_step(outputs={"a": make_output() | {"required": "yes"}})), "required: this must be true or false, not text; "),
    ("an output with no description", make_job(make_step(outputs={"a": make_output() | {"description": ""}})), "outputs -> a -> description: this is empty; "),
    ("reviews as a mapping", make_job(make_step(reviews={})), "reviews: this must be a list, not a mapping; "),
    ("a review for nothing", make_job(make_step(reviews=[make_review("")])), "run_each: this is empty; "),
    ("no criteria", make_job(make_step(reviews=[make_review(quality_criteria={})])), "quality_criteria: this mapping is empty; add at least one entry."),
    ("criteria as a list", make_job(make_step(reviews=[make_review(quality_criteria=["Good?"])])), "quality_criteria: this must be a mapping, not a list; "),
    ("an empty criterion", make_job(make_step(reviews=[make_review(quality_criteria={"Good": ""})])), "quality_criteria -> Good: this is empty; "),
    ("guidance that is a number", make_job(make_step(reviews=[make_review(additional_review_guidance=1)])), "additional_review_guidance: this must be text, not the number 1; put it in quotes."),
    ("an input of both kinds", make_job(make_step(inputs=[{"name": "a", "from_step": "b"}])), "inputs -> 0: a mapping like this is not allowed here; either name and description"),
    ("an input that is text", make_job(make_step(inputs=["topic"])), "inputs -> 0: text like this is not allowed here; either"),
    ("an empty input", make_job(make_step(inputs=[{}])), "inputs -> 0: a mapping like this is not allowed here; either"),
    ("a user input without description", make_job(make_step(inputs=[{"name": "a"}])), "inputs -> 0: the key 'description' is missing; "),
    ("a file input without file", make_job(make_step(inputs=[{"from_step": "write"}])), "inputs -> 0: the key 'file' is missing; "),
    ("an input with more", make_job(make_step(inputs=[{"name": "a", "description": "b", "default": "c"}])), "inputs -> 0: a mapping like this is not allowed here; "),
    ("an input with an empty name", make_job(make_step(inputs=[{"name": "", "description": "b"}])), "inputs -> 0 -> name: this is empty; "),
    ("dependencies as text", make_job(make_step(dependencies="a")), "dependencies: this must be a list, not text; "),
    ("a dependency that is a number", make_job(make_step(dependencies=[1])), "dependencies -> 0: this must be text, not the number 1; "),
    ("an empty agent", make_job(make_step(agent="")), "agent: this is empty; "),
    ("exposed as a word", make_job(make_step(exposed="yes")), "exposed: this must be true or false, not text; "),
    ("hidden as a number", make_job(make_step(hidden=1)), "hidden: this must be true or false, not the number 1; "),
    ("a hook that is no list", make_job(make_step(hooks={"after_agent": {"prompt": "x"}})), "after_agent: this must be a list, not a mapping; "),
    ("a hook of two kinds", make_job(make_step(hooks={"after_agent": [{"prompt": "x", "script": "y"}]})), "after_agent -> 0: a mapping like this is not allowed here; exactly one of prompt"),
    ("an empty hook", make_job(make_step(stop_hooks=[{"script": ""}])), "stop_hooks -> 0 -> script: this is empty; "),
    ("a workflow name with capitals", make_job(workflows=[make_workflow("write", name="Main")]), "workflows -> 0 -> name: 'Main' is not allowed; "),
    ("an empty workflow", make_job(workflows=[make_workflow()]), "workflows -> 0 -> steps: this list is empty; "),
    ("an empty group", make_job(workflows=[make_workflow("write", [])]), "workflows -> 0 -> steps -> 1: this list is empty; "),
    ("an entry that is a number", make_job(workflows=[make_workflow("write", 1)]), "workflows -> 0 -> steps -> 1: the number 1 like this is not allowed here; either a step id"),
    ("a group in a group", make_job(workflows=[make_workflow([["write"]])]), "steps -> 0 -> 0: this must be text, not a list; "),
    ("workflows that are nothing", make_job(workflows=None), "workflows: this must be a list, not nothing; "),
]  # fmt: skip

BAD = [*MISSING, *[(f"an unknown key in {what}", data, expected) for what, data, expected in UNKNOWN], *WRONG]


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_a_job_that_matches_the_schema_loads(data: dict[str, Any], tmp_path: Path):
    assert load_job(write_job(tmp_path, data)).name == data["name"]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_violation_of_the_schema_is_reported_once_with_a_fix(
    data: dict[str, Any], expected: str, tmp_path: Path
):
    found = find_problems(write_job(tmp_path, data))

    assert len([line for line in found if expected in line]) == 1, found
    assert all(line.startswith(f"{tmp_path}/job.yml:") for line in found)


@pytest.mark.parametrize("data", [*GOOD.values(), *(case[1] for case in BAD)])
def test_the_loader_accepts_exactly_what_the_schema_accepts(data: dict[str, Any]):
    # A person's editor reads regular expressions as JavaScript does, where `$` is the very end.
    text = SCHEMA_FILE.read_text().replace("^[a-z][a-z0-9_]*$", r"^[a-z][a-z0-9_]*\\Z")
    assert r"\\Z" in text

    editor = jsonschema.Draft7Validator(json.loads(text))

    assert editor.is_valid(data) == (not validate_data(JobDefinition, data)[1])


def test_the_schema_is_valid():
    jsonschema.Draft7Validator.check_schema(json.loads(SCHEMA_FILE.read_text()))


def test_all_problems_are_reported_together_from_top_to_bottom(tmp_path: Path):
    text = """\
name: Report
version: 1.0
summary: x
common_job_info_provided_to_all_steps_at_runtime: x
steps:
  - id: write
    name: Write
    description: x
    instructions_file: steps/none.md
    outputs:
      report:
        type: folder
        description: x
        required: true
    reviews: []
  - id: check
    name: Check
    description: x
    instructions_file: steps/none.md
    dependencies: [wriet]
    outputs: {}
    reviews:
      - run_each: report
        quality_criteria: {Good: Is it?}
colour: red
"""
    found = find_problems(write_job(tmp_path, text))

    assert [line.removeprefix(f"{tmp_path}/job.yml:").partition(";")[0] for line in found] == [
        "1: name: 'Report' is not allowed",
        "2: version: this must be text, not the number 1.0",
        "9: steps -> 0 -> instructions_file: the path 'steps/none.md' does not exist",
        "12: steps -> 0 -> outputs -> report -> type: 'folder' is not known",
        "20: steps -> 1 -> dependencies -> 0: there is no step 'wriet'",
        "23: steps -> 1 -> reviews -> 0 -> run_each: 'report' is not an output of this step",
        "25: colour: the key 'colour' is unknown",
    ]


def test_problems_caused_by_a_malformed_part_are_not_reported_as_well(tmp_path: Path):
    data = make_job(
        make_step("write", outputs=["report"]),
        make_step("check", dependencies=["write"], inputs=[{"file": "report", "from_step": "write"}]),
    )

    [line] = find_problems(write_job(tmp_path, data))

    assert "outputs: this must be a mapping, not a list" in line


def test_the_error_has_a_heading_and_one_line_per_problem(tmp_path: Path):
    with pytest.raises(DefinitionError) as refused:
        load_job(write_job(tmp_path, make_job(name="Report", version="1")))

    heading, *lines = refused.value.message.splitlines()
    assert heading == "Job validation failed:"
    assert lines == find_problems(tmp_path)
    assert len(lines) == 2


def test_at_most_a_hundred_problems_are_reported(tmp_path: Path):
    found = find_problems(write_job(tmp_path, make_job() | {f"key_{number}": 1 for number in range(5_000)}))

    assert len(found) == 101
    assert "There may be more problems; fix these first." in found[-1]


def test_a_strange_value_is_shortened_and_escaped(tmp_path: Path):
    found = "\n".join(
        find_problems(write_job(tmp_path, make_job(name="\x1b[2J" + "x" * 150, **{"\x07" * 90: 1})))
    )

    assert found.isprintable() or "\n" in found
    assert "\x1b" not in found
    assert "\x07" not in found
    assert len(found) < 2_000


def test_every_key_of_a_job_file_is_loaded(tmp_path: Path):
    first = make_step(
        "gather", inputs=[{"name": "topic", "description": "What about."}], agent="searcher", exposed=True
    )
    second = make_step(
        "write",
        dependencies=["gather"],
        inputs=[{"file": "gather.md", "from_step": "gather"}],
        outputs={"pages": make_output("files", required=False)},
        reviews=[make_review("pages", additional_review_guidance="Be kind.")],
        hooks={"after_agent": [{"prompt": "one"}], "before_tool": [{"script": "two.sh"}]},
        stop_hooks=[{"prompt_file": "three.md"}],
        hidden=True,
    )

    loaded = load_job(
        write_job(tmp_path, make_job(first, second, workflows=[make_workflow("gather", ["write"])]))
    )

    gather, write = loaded.steps
    assert (loaded.version, loaded.description, loaded.folder) == ("1.0.0", None, tmp_path)
    assert gather.user_inputs == (UserInput("topic", "What about."),)
    assert (gather.agent, gather.exposed, gather.hidden) == ("searcher", True, False)
    assert write.file_inputs == (FileInput("gather.md", "gather"),)
    assert write.user_inputs == ()
    assert write.find_output("pages") == write.outputs[0]
    assert (write.outputs[0].type, write.outputs[0].required) == (OutputType.FILES, False)
    assert write.find_output("other") is None
    assert write.reviews[0].quality_criteria == {"Good": "Is it good?"}
    assert write.reviews[0].additional_review_guidance == "Be kind."
    assert (write.hidden, write.exposed) == (True, False), "hidden has nothing to do with exposed"
    assert write.hooks == {
        "after_agent": (HookAction("prompt", "one"), HookAction("prompt_file", "three.md")),
        "before_tool": (HookAction("script", "two.sh"),),
    }
    assert loaded.workflows[0].entries == (
        WorkflowEntry(("gather",), is_concurrent=False),
        WorkflowEntry(("write",), is_concurrent=True),
    )
    assert loaded.find_workflow("main") == loaded.workflows[0]
    assert loaded.find_workflow("other") is None
    assert (loaded.find_step("write"), loaded.find_step("other")) == (write, None)
