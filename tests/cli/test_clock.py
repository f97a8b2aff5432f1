"""Times and headings in the output for people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.run import run_deepwork, run_in_terminal
from deepwork.edge.cli.framework.terminal import format_age, parse_moment, to_heading

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LOCAL = re.compile(r"\d\d \d\d:\d\d")
LISTS = (("plans", "list"), ("track", "list"))
NOW = 1_800_000_000_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    run_deepwork(folder, "plans", "create", "Login", "--prompt", "Log in.")
    run_deepwork(folder, "track", "start", "Login", "Log in.")
    return folder


@pytest.mark.parametrize("words", LISTS)
def test_in_a_pipe_all_times_are_in_utc(project: Path, words: tuple[str, str]):
    told = run_deepwork(project, *words, environment={"TZ": "Asia/Tokyo"}).out

    assert len(ISO.findall(told)) == 2
    assert not LOCAL.search(told)


@pytest.mark.parametrize("words", LISTS)
def test_in_a_terminal_all_times_are_relative(project: Path, words: tuple[str, str]):
    told = run_in_terminal(project, *words, columns=200).out

    assert len(re.findall(r"just now|\d+ \w+ ago", told)) == 2
    assert not ISO.search(told)
    assert not LOCAL.search(told)


def test_json_keeps_the_times_of_the_tools(project: Path):
    plan = run_deepwork(project, "plans", "list", "--json").json["workflows"][0]
    track = run_deepwork(project, "track", "list", "--json").json["workflows"][0]

    assert isinstance(plan["created_at"], int)
    assert ISO.fullmatch(track["created_at"])


def test_headings_are_words_and_not_names_of_fields(project: Path):
    for told in (run_deepwork(project, "plans", "list").out, run_in_terminal(project, "track", "list").out):
        assert "created" in told
        assert not re.search(
            r"[a-z]_[a-z]", told.replace("wf_", "").replace("tw_", "").replace("in_progress", "")
        )
    assert [to_heading(key) for key in ("created_at", "files_changed", "agent_name", "id")] == [
        "created", "files changed", "agent", "id",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (30, "30 seconds ago"),
        (60, "1 minute ago"),
        (179, "2 minutes ago"),
        (7_200, "2 hours ago"),
        (86_400 * 3, "3 days ago"),
        (86_400 * 40, "2026-12-06"),
        (-180, "in 3 minutes"),
    ],
)
def test_ages_are_in_the_largest_unit_that_fits(seconds: int, words: str):
    assert format_age(NOW - seconds * 1000, NOW) == words


def test_only_fields_that_hold_a_time_are_formatted_as_one():
    assert parse_moment("created_at", NOW) == NOW
    assert parse_moment("since", "1970-01-01T00:00:01Z") == 1000
    for key, value in (
        ("completed", 3),
        ("name", "2026-01-01T00:00:00Z"),
        ("created_at", "soon"),
        ("at", True),
    ):
        assert parse_moment(key, value) is None
