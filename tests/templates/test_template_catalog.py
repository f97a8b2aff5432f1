"""Templates in files: of the project, of the user, and those that are shipped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from application import call_tool, make_app, skip_or_fail
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.files.paths import read_confined
from deepwork.work.templates import catalog as catalog_module
from deepwork.work.templates.catalog import TemplateCatalog
from templates.make import list_templates, write_template

RELEASE = """\
name: release
description: How we release.
version: 3
variables:
  - name: version
    description: What to release
    default: next
  - who
tasks:
  - name: Build {{version}}
    description: For {{who}}.
    parallel_group: g
    estimated_complexity: low
    files_likely_affected: ["src/**"]
    required_capabilities: [python]
  - name: Ship
    sequence: 2
    depends_on: ["Build {{ version }}"]
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Application]:
    made = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    yield made
    made.close()


@pytest.fixture
def catalog(tmp_path: Path, home: Path) -> TemplateCatalog:
    return TemplateCatalog(tmp_path, home)


def list_own_ids(catalog: TemplateCatalog) -> list[str]:
    """The ids of what is not shipped."""
    return [each.id for each in catalog.scan().templates if each.source != "shipped"]


def list_problems(catalog: TemplateCatalog) -> list[str]:
    return list(map(str, catalog.scan().problems))


def test_a_template_file_supports_every_field(here: Application, tmp_path: Path):
    write_template(tmp_path, "r.yml", RELEASE)

    assert list_templates(here)["release"] == {
        "id": "file:project:r",
        "name": "release",
        "description": "How we release.",
        "template": {
            "tasks": [
                {"name": "Build {{version}}", "description": "For {{who}}.", "sequence": 1, "parallel_group": "g",
                 "estimated_complexity": "low", "files_likely_affected": ["src/**"],
                 "required_capabilities": ["python"]},
                {"name": "Ship", "description": "", "sequence": 2, "depends_on": ["Build {{ version }}"]},
            ],
            "variables": [
                {"name": "version", "description": "What to release", "required": True, "default": "next"},
                {"name": "who", "description": "", "required": True},
            ],
        },
        "version": 3,
        "source": "project",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["release.yml", "release.yaml", "release.json"])
def test_yaml_and_json_are_accepted_and_the_file_name_is_the_default_name(
    catalog: TemplateCatalog, tmp_path: Path, name: str
):
    write_template(tmp_path, name, json.dumps({"tasks": [{"name": "a"}]}, indent="\t"))

    assert list_own_ids(catalog) == ["file:project:release"]
    assert list_problems(catalog) == []


def test_user_templates_are_available_in_every_project(catalog: TemplateCatalog, home: Path):
    write_template(home, "mine.yml", "tasks: [{name: a}]")

    assert list_own_ids(catalog) == ["file:user:mine"]


def test_other_files_are_ignored(catalog: TemplateCatalog, tmp_path: Path):
    for name in ("notes.md", ".hidden.yml", "a.yml~", "b.yml.bak"):
        write_template(tmp_path, name, "{")
    write_template(tmp_path, "sub/deep.yml", "{")

    assert (list_own_ids(catalog), list_problems(catalog)) == ([], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [", ":1: did not find expected node content while parsing a flow node."),
        ("", ":1: root: this must be a mapping, not nothing; write a mapping with tasks, and with variables if the texts have placeholders."),
        ("name: x\n", ":1: root: the key 'tasks' is missing; add it: write a list of tasks."),
        ("tasks: []\n", ":1: tasks: this list is empty; add at least one entry."),
        ("tasks:\n- name: a\n- nmae: b\n  name: b\n", ":3: tasks -> 1 -> nmae: the key 'nmae' is unknown; did you mean 'name'?"),
        ("tasks:\n- name: a\n  sequence: two\n", ":3: tasks -> 0 -> sequence: this must be a whole number, not text; write a whole number; tasks with the same one may run at the same time."),
        ("tasks:\n- name: a\n  sequence: true\n", ":3: tasks -> 0 -> sequence: this must be a whole number, not true or false; write a whole number; tasks with the same one may run at the same time."),
        ("tasks:\n- name: a\n  sequence: -1\n", ":3: tasks -> 0 -> sequence: -1 is out of range; write a whole number; tasks with the same one may run at the same time."),
        ("tasks:\n- name: 5\n", ":2: tasks -> 0 -> name: this must be text, not the number 5; put it in quotes."),
        ("tasks:\n- name: a\n  estimated_complexity: hard\n", ":3: tasks -> 0 -> estimated_complexity: 'hard' is not known; allowed: 'low', 'medium', 'high'."),
        ("tasks:\n- name: a\nvariables:\n- name: x\n  defualt: y\n", ":4: variables -> 0: a mapping like this is not allowed here; write a name, or a mapping with name, description, required and default."),
        ("tasks:\n- name: a\nvariables:\n- x y\n", ":4: variables -> 0: 'x y' is not allowed; a variable's name has letters, digits and underscores."),
        ("tasks:\n- name: a\nvariables:\n- x\n- name: x\n", ":5: The variable 'x' is declared twice."),
        ("tasks:\n- name: a\n- name: b\n- name: a\n", ":4: 2 tasks are named 'a'."),
        ("tasks:\n- name: a\n- name: bee\n  depends_on: [bea]\n", ":3: Task 'bee' depends on 'bea', which is not in the plan. Did you mean 'bee'?"),
        ("tasks:\n- name: a\n  depends_on: [a]\n", ":2: Task 'a' depends on itself."),
        ("tasks:\n- name: c\n- name: a\n  depends_on: [b]\n- name: b\n  depends_on: [a]\n", ":3: 2 tasks wait for each other in a cycle: a -> b -> a."),
    ],
)  # fmt: skip
def test_problems_are_reported_with_file_and_line(
    catalog: TemplateCatalog, tmp_path: Path, text: str, said: str
):
    write_template(tmp_path, "x.yml", text)

    assert list_problems(catalog) == [f".deepwork/templates/x.yml{said}"]


def test_a_broken_file_is_reported_and_does_not_hide_others(here: Application, tmp_path: Path, home: Path):
    write_template(tmp_path, "a.yml", "tasks: 5\n")
    write_template(tmp_path, "b.yml", "tasks: [{name: a}]")
    write_template(home, "c.json", '{"tasks": [\n{"name": "a"},\n{"name": 1}]}')

    answer = call_tool(here, "template_list")

    assert [each["name"] for each in answer["templates"]] == ["b", "bugfix", "feature", "refactor"]
    assert answer["total"] == 4
    assert answer["errors"] == [
        {"file": ".deepwork/templates/a.yml", "line": 1,
         "error": "tasks: this must be a list, not the number 5; write a list of tasks."},
        {"file": "~/.deepwork/templates/c.json", "line": 3,
         "error": "tasks -> 1 -> name: this must be text, not the number 1; put it in quotes."},
    ]  # fmt: skip


def test_applying_a_broken_template_file_explains_the_problem(here: Application, tmp_path: Path):
    write_template(tmp_path, "a.yml", "tasks: 5\n")

    with pytest.raises(DeepworkError) as by_id:
        call_tool(here, "template_apply", template_id="file:project:a", workflow_name="W")
    with pytest.raises(DeepworkError) as by_name:
        call_tool(here, "template_apply", template_id="a", workflow_name="W")

    assert by_id.value.message.startswith(".deepwork/templates/a.yml:1: tasks: this must be a list")
    assert by_name.value.code is Code.TEMPLATE_NOT_FOUND
    assert ".deepwork/templates/a.yml:1:" in by_name.value.suggestion


def test_two_files_cannot_share_a_name(catalog: TemplateCatalog, tmp_path: Path):
    write_template(tmp_path, "a.json", '{"tasks": [{"name": "first"}]}')
    write_template(tmp_path, "a.yml", "tasks: [{name: second}]")
    write_template(tmp_path, "b.yml", "name: a\ntasks: [{name: third}]")

    [a] = [each for each in catalog.scan().templates if each.source == "project"]

    assert a.tasks[0].name == "first"
    assert list_problems(catalog) == [
        ".deepwork/templates/a.yml:1: a.json in the same folder has the same name; rename one of them.",
        ".deepwork/templates/b.yml:1: file:project:a also has the name 'a'; rename one of them.",
    ]


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(
    catalog: TemplateCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = write_template(tmp_path, "a.yml", "tasks: [{name: one}]")
    time.sleep(0.03)  # until then the clock cannot tell a change from none
    catalog.scan()
    reads: list[str] = []

    def noted(root: Path, path: str, *, max_bytes: int) -> bytes:
        reads.append(Path(path).name)
        return read_confined(root, path, max_bytes=max_bytes)

    monkeypatch.setattr("deepwork.kernel.files.definitions.read_confined", noted)
    catalog.scan()
    assert reads == []

    file.write_text("tasks: [{name: another}]")
    [found] = [each for each in catalog.scan().templates if each.id == "file:project:a"]
    assert (found.tasks[0].name, reads) == ("another", ["a.yml"])

    file.unlink()
    assert list_own_ids(catalog) == []


def test_a_changed_rule_file_is_detected_immediately(catalog: TemplateCatalog, tmp_path: Path):
    for number in range(20):  # of the same length, and faster than the clock of the file system ticks
        write_template(tmp_path, "a.yml", f"tasks: [{{name: n{number:02}}}]")
        [found] = [each for each in catalog.scan().templates if each.id == "file:project:a"]
        assert found.tasks[0].name == f"n{number:02}"


def test_a_link_that_leads_outside_the_project_is_not_followed(
    catalog: TemplateCatalog, tmp_path: Path, tmp_path_factory: Any
):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.yml"
    secret.write_text("tasks: [{name: secret}]")
    write_template(tmp_path, "b.yml", "tasks: [{name: a}]")
    (tmp_path / ".deepwork/templates/a.yml").symlink_to(secret)

    assert list_own_ids(catalog) == ["file:project:b"]
    [problem] = list_problems(catalog)
    assert "leads outside the project" in problem


def test_a_file_that_is_not_utf8_or_too_large_is_reported(catalog: TemplateCatalog, tmp_path: Path):
    write_template(tmp_path, "a.yml", "").write_bytes(b"tasks:\n- name: \xff\n")
    write_template(tmp_path, "b.yml", "#" * (2**20 + 1))
    (tmp_path / ".deepwork/templates/c.yml").mkdir()

    a, b, c = list_problems(catalog)

    assert a == ".deepwork/templates/a.yml:2: The text is not UTF-8; save the file as UTF-8."
    assert "larger than 1,048,576 bytes" in b
    assert "not a regular file" in c


def test_a_file_whose_name_is_not_utf8_is_reported(catalog: TemplateCatalog, tmp_path: Path):
    folder = write_template(tmp_path, "a.yml", "tasks: [{name: a}]").parent
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.yml")).write_text("tasks: [{name: b}]")
    except OSError:
        skip_or_fail("this file system takes only text")

    assert list_own_ids(catalog) == ["file:project:a"]
    assert list_problems(catalog) == [
        r".deepwork/templates/\xff.yml:1: The file name is not UTF-8; rename it."
    ]


def test_in_the_home_folder_user_templates_are_not_loaded_twice(home: Path):
    write_template(home, "a.yml", "tasks: 5")
    catalog = TemplateCatalog(home, home)

    assert len(list_problems(catalog)) == 1


def test_templates_match_the_schema_for_editors():
    import yaml

    package = Path(catalog_module.__file__).parent
    schema = json.loads((package / "template.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    shipped = sorted((package / "shipped").glob("*.yml"))

    assert [file.stem for file in shipped] == ["bugfix", "feature", "refactor"]
    for text in (RELEASE, *(file.read_text() for file in shipped)):
        validator.validate(yaml.safe_load(text))
