"""`deepwork init` sets up a project and leaves existing files alone."""

from __future__ import annotations

import re

import yaml

from deepwork.kernel.config import load_settings
from deepwork.kernel.config_options import OPTIONS
from setup.sandbox import Sandbox


def test_init_writes_the_project_files_and_lists_them(sandbox: Sandbox):
    ran = sandbox.run("init", "--example-job", "--example-review", "--json")

    assert ran.code == 0, ran.err
    assert set(ran.json["written"]) == set(sandbox.read_files())
    assert ".deepwork/config.yml" in ran.json["written"]
    assert any("deepwork setup" in step for step in ran.json["next"])
    assert sandbox.run("jobs", "validate").code == 0
    assert "0 problems" in sandbox.run("jobs", "validate", "release_notes").out
    assert sandbox.run("review", "rules").code == 0


def test_repeating_init_changes_nothing(sandbox: Sandbox):
    sandbox.run("init", "--example-job", "--example-review")
    before = sandbox.read_files()

    again = sandbox.run("init", "--example-job", "--example-review", "--json").json

    assert again["written"] == []
    assert ".deepwork/config.yml" in again["kept"]
    assert sandbox.read_files() == before


def test_init_keeps_existing_files(sandbox: Sandbox):
    mine = {
        ".deepreview": "mine: {}\n",
        ".deepwork/.gitignore": "tmp/\n",
        ".deepwork/config.yml": "lease_seconds: 30\n",
        ".deepwork/jobs/release_notes/job.yml": "name: mine\n",
    }
    for name, text in mine.items():
        sandbox.write(name, text)

    sandbox.run("init", "--example-job", "--example-review")

    assert sandbox.read_files() == mine


def test_the_settings_file_changes_nothing_until_a_line_is_uncommented(sandbox: Sandbox):
    sandbox.run("init")
    file = sandbox.project / ".deepwork" / "config.yml"
    as_written = load_settings(sandbox.project, environment={})
    uncommented = re.sub(r"^# ( *[a-z_]+:)", r"\1", file.read_text(), flags=re.MULTILINE)
    file.write_text(uncommented)

    by_the_file = load_settings(sandbox.project, environment={})

    known = {option.file_key[0] if option.file_key else option.name for option in OPTIONS if option.in_file}
    assert set(yaml.safe_load(uncommented)) == known | {"version"}
    assert by_the_file == as_written
    assert uncommented.endswith("\n")


def test_a_missing_folder_is_named_in_the_error(sandbox: Sandbox):
    ran = sandbox.run("init", "--path", "nowhere")

    assert ran.code == 2
    assert "nowhere does not exist" in ran.err
