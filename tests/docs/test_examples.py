"""Validates the files and tool calls on the pages with the program's own code."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from scripts import commands_page, not_run_page, performance_page, reliability_page, settings_page, tools_page
from scripts.pages import ROOT, Block, list_pages, parse_blocks, parse_steps

from deepwork.delivery.runner.profiles import load_catalog
from deepwork.edge.cli.main import COMMANDS
from deepwork.edge.cli.plan_file import split_file
from deepwork.edge.cli.servers import serve
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.reviews.discovery import RuleCatalog
from deepwork.kernel.config import find_unknown_keys, load_settings
from deepwork.kernel.user_settings import load_user_settings
from deepwork.work.jobs.definitions.catalog import find_problems
from deepwork.work.templates.catalog import TemplateCatalog

BLOCKS = [block for page in list_pages() for block in parse_blocks(page)]
SHOWN = [block for block in BLOCKS if block.language in {"yaml", "yml", "json", "jsonc", "toml"}]
WORKFLOW = {"name": "Given by the command", "source_type": "prompt", "source_content": "The request"}
CALL = re.compile(r"^(?P<tool>[a-z_]+) +(?=\{)", re.MULTILINE)
REGISTRY = tools_page.load_registry()


def select_blocks(*languages: str) -> list[Any]:
    return [pytest.param(block, id=block.place) for block in SHOWN if block.language in languages] or [None]


@pytest.mark.parametrize("block", select_blocks("yaml", "yml"))
def test_yaml_blocks_are_valid(block: Block, tmp_path: Path):
    document = yaml.safe_load(block.text)
    if document is None:
        return  # a comment for an editor

    assert block.title, f"{block.place}: name the file in the fence"
    file = tmp_path / block.title
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")

    assert list(find_document_problems(file, tmp_path, document)) == []


def find_document_problems(file: Path, root: Path, document: Any) -> Iterator[object]:
    """Return the problems that the program finds in such a file."""
    if file.name in ("config.yml", "agents.yml"):
        return find_setting_problems(file, root)
    return find_definition_problems(file, root, document)


def find_setting_problems(file: Path, root: Path) -> Iterator[object]:
    if file.name == "agents.yml":
        load_catalog({"XDG_CONFIG_HOME": str(file.parent.parent)})
    elif file.parts[-2:] == ("deepwork", "config.yml"):
        load_user_settings({"XDG_CONFIG_HOME": str(file.parent.parent)})
    else:
        load_settings(root, environment={})
        yield from find_unknown_keys(root)


def find_definition_problems(file: Path, root: Path, document: Any) -> Iterator[object]:
    if file.name == "job.yml":
        for step in document["steps"]:
            instructions = file.parent / step["instructions_file"]
            instructions.parent.mkdir(parents=True, exist_ok=True)
            instructions.write_text("Do it.\n")
        yield from find_problems(file.parent)
    elif file.name == ".deepreview":
        for rule in document.values():
            told = rule["review"]["instructions"]
            if isinstance(told, dict):
                (root / told["file"]).parent.mkdir(parents=True, exist_ok=True)
                (root / told["file"]).write_text("Look.\n")
        yield from RuleCatalog(root).load_rules([".deepreview"]).problems
    elif file.name == "checks.yml":
        parse_checks(file.read_bytes())
    elif file.parent.name == "templates":
        found = TemplateCatalog(root, root / "home").scan()
        yield from found.problems
        if not found.templates:
            yield "no template was found"
    elif file.name.endswith(("plan.yml", "workflow.yml")):
        workflow, plan = split_file(document)
        yield from find_call_problems("workflow_set_plan", {"id": "wf_1", "plan": plan})
        yield from find_call_problems("workflow_create", WORKFLOW | workflow)
    else:
        yield f"no check is known for {file.name}; add one"


@pytest.mark.parametrize("block", select_blocks("json", "jsonc"))
def test_json_blocks_and_tool_calls_are_valid(block: Block):
    if not CALL.search(block.text):
        document = json.loads(block.text)
        for server in document.get("mcpServers", {}).values() if isinstance(document, dict) else ():
            check_start(server, block)
        return

    for call in CALL.finditer(block.text):
        arguments, end = json.JSONDecoder().raw_decode(block.text, call.end())
        assert list(find_call_problems(call["tool"], arguments)) == []
        answer = re.match(r"\s*→ (?=\{)", block.text[end:])
        if answer:
            check_answer(call["tool"], block.text[end + answer.end() :])


def check_start(server: dict[str, Any], block: Block) -> None:
    """Check that the client would start deepwork with valid arguments."""
    if server.get("command") == "deepwork":
        command, *arguments = server["args"]
        assert command in COMMANDS, block.place
        if command == "serve":
            serve.make_context("serve", [each for each in arguments if each != "${workspaceFolder}"])


def find_call_problems(tool: str, arguments: dict[str, Any]) -> Iterator[str]:
    """Return the problems of a call by the tool's schema."""
    if tool not in REGISTRY:
        yield f"there is no tool {tool}"
        return
    validator = jsonschema.Draft202012Validator(REGISTRY[tool].input_schema)
    yield from (f"{tool}: {error.message}" for error in validator.iter_errors(arguments))


def check_answer(tool: str, text: str) -> None:
    """Check that the keys on the page are keys of the tool's answer."""
    shown = re.match(r"\{.*?\}(?=\s*(?:$|\n\n|\n[a-z_]+ +\{))", text, re.DOTALL)
    keys = set(re.findall(r'(?<=[{,\s])"(\w+)": ', shown[0])) if shown else set()
    schema = REGISTRY[tool].output_schema  # a tool that does two things has none
    text_of_schema = json.dumps(schema)

    assert schema is None or {key for key in keys if f'"{key}"' not in text_of_schema} == set()


@pytest.mark.parametrize("block", select_blocks("toml"))
def test_toml_blocks_are_valid(block: Block | None):
    assert block is None or tomllib.loads(block.text)


@pytest.mark.parametrize(
    "generator",
    [commands_page, settings_page, performance_page, reliability_page, not_run_page],
    ids=lambda one: one.__name__,
)
def test_generated_pages_are_up_to_date(generator: Any):
    assert generator.PAGE.read_text() == generator.render_page(), "run `make docs`"


def test_few_commands_are_not_run_and_each_has_a_reason():
    left_out = not_run_page.list_unrun_blocks()
    commands = sum(len(parse_steps(block)) for block in BLOCKS if block.is_commands)
    not_run = sum(len(parse_steps(block)) for block in left_out)
    for block in left_out:
        print(f"{block.place}: {len(parse_steps(block))} not run: {block.why_not_run}")
    print(f"{not_run} of {commands} commands are not run")

    assert all(len(block.why_not_run) > 10 for block in left_out)
    assert not_run <= commands // 8


def test_the_architecture_names_every_package():
    drawn = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "src" / "deepwork"
    floors = [init.parent for init in package.glob("*/__init__.py")]
    packages = [init.parent for init in package.glob("*/*/__init__.py")]
    modules = [path for path in package.glob("*/*.py") if not path.name.startswith("_")]

    missing = [part.name for part in (*floors, *packages, *modules) if f" {part.name}" not in drawn]
    assert sorted(missing) == []


def test_each_floor_has_a_page_and_says_what_belongs_there():
    floors = {init.parent.name: init for init in (ROOT / "src" / "deepwork").glob("*/__init__.py")}

    assert {page.stem for page in (ROOT / "docs" / "architecture").glob("*.md")} == floors.keys()
    silent = [name for name, init in floors.items() if not ast.get_docstring(ast.parse(init.read_text()))]
    assert silent == []


def test_every_fence_has_a_language():
    assert [block.place for block in BLOCKS if not block.language] == []
