from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.edge.server.launch import parse_flags, plan_launch


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ([], {}),
        (["--path", "x"], {"path": "x"}),
        (["--toolsets", "jobs,plans", "--read-only"], {"toolsets": "jobs,plans", "read_only": True}),
        (["--transport", "stdio"], {"transport": "stdio"}),
        (["--exclude-tools", "agent_get"], {"exclude_tools": "agent_get"}),
        (["--no-quality-gate", "--global"], {"quality_gate": "false", "global_store": True}),
    ],
)
def test_plain_flags_are_read_without_click(words: list[str], flags: dict[str, Any]):
    assert parse_flags(words) == flags


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--path"],
        ["--path", "--read-only"],
        ["--path=x"],
        ["--path", "a", "--path", "b"],
        ["--db", "x.db"],
        ["--transport", "http"],
        ["--unknown", "x"],
        ["more"],
    ],
)
def test_everything_else_is_left_to_click(words: list[str]):
    assert parse_flags(words) is None


def test_a_project_that_cannot_be_served_is_left_to_click(tmp_path: Path):
    assert plan_launch(["--path", str(tmp_path / "missing")]) is None
    assert plan_launch(["--path", str(tmp_path), "--log-level", "loud"]) is None


def test_only_a_server_over_stdio_is_launched_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert plan_launch(["--path", str(tmp_path)]) is not None

    monkeypatch.setenv("DEEPWORK_TRANSPORT", "http")

    assert plan_launch(["--path", str(tmp_path)]) is None
    assert plan_launch(["--path", str(tmp_path), "--transport", "stdio"]) is not None
