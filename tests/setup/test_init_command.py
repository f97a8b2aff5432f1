"""`deepwork init`: a project begins, and nothing that is there is touched."""

from __future__ import annotations

import re

import yaml

from deepwork.config import OPTIONS, load_settings
from setup.commanding import Desk


def test_it_writes_what_a_project_needs_and_says_so(desk: Desk):
    ran = desk.run("init", "--example-job", "--example-review", "--json")

    assert ran.code == 0, ran.err
    assert set(ran.json["written"]) == set(desk.files())
    assert ".deepwork/config.yml" in ran.json["written"]
    assert any("deepwork setup" in step for step in ran.json["next"])
    assert desk.run("jobs", "validate").code == 0
    assert "0 problems" in desk.run("jobs", "validate", "release_notes").out
    assert desk.run("review", "rules").code == 0


def test_repeating_it_is_harmless(desk: Desk):
    desk.run("init", "--example-job", "--example-review")
    before = desk.files()

    again = desk.run("init", "--example-job", "--example-review", "--json").json

    assert again["written"] == []
    assert ".deepwork/config.yml" in again["kept"]
    assert desk.files() == before


def test_what_is_there_stays(desk: Desk):
    mine = {
        ".deepreview": "mine: {}\n",
        ".deepwork/.gitignore": "tmp/\n",
        ".deepwork/config.yml": "lease_seconds: 30\n",
        ".deepwork/jobs/release_notes/job.yml": "name: mine\n",
    }
    for name, text in mine.items():
        desk.write(name, text)

    desk.run("init", "--example-job", "--example-review")

    assert desk.files() == mine


def test_the_settings_file_changes_nothing_until_a_line_is_uncommented(desk: Desk):
    desk.run("init")
    file = desk.project / ".deepwork" / "config.yml"
    as_written = load_settings(desk.project, environment={})
    uncommented = re.sub(r"^# ( *[a-z_]+:)", r"\1", file.read_text(), flags=re.MULTILINE)
    file.write_text(uncommented)

    by_the_file = load_settings(desk.project, environment={})

    known = {option.file_key[0] if option.file_key else option.name for option in OPTIONS if option.in_file}
    assert set(yaml.safe_load(uncommented)) == known | {"version"}
    assert by_the_file == as_written
    assert uncommented.endswith("\n")


def test_a_folder_that_is_not_there_is_named(desk: Desk):
    ran = desk.run("init", "--path", "nowhere")

    assert ran.code == 2
    assert "nowhere does not exist" in ran.err
