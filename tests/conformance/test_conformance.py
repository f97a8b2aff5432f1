"""The official conformance suite against our protocol core, in every revision that the suite knows."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import skip_or_fail
from conformance.fixture_server import COMMAND
from conformance.not_offered import NOT_OFFERED
from http_tests.http_server import HttpServer

HERE = Path(__file__).parent
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
PATIENCE_SECONDS = 300
SCENARIOS = {"2025-03-26": 1, "2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 50}
"""By revision, how many scenarios the suite has: one that does not run must not go unnoticed."""
NOTHING_CHECKED = "(nothing)"

pytestmark = pytest.mark.needs("node")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the fixtures."""
    if not SUITE.exists():
        skip_or_fail("the conformance suite is not installed (make tests/conformance/node_modules/.ready)")
    with HttpServer(tmp_path_factory.mktemp("project"), command=COMMAND) as server:
        yield f"{server.url}/mcp"


def run_suite(url: str, revision: str, results: Path) -> str:
    """Run every scenario of a revision, extensions included; return what the suite printed."""
    # Only these two revisions have a list of requirements; the others have no extensions.
    has_list = revision >= "2025-11-25"
    chosen = ("--requirements", revision) if has_list else ("--suite", "all", "--spec-version", revision)
    start = ("node", "--import", str(HERE / "node20.mjs"), str(SUITE), "server")
    done = subprocess.run(
        [*start, "--url", url, *chosen, "--output-dir", str(results)],
        check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return done.stdout + done.stderr


def find_gaps(results: Path) -> tuple[int, dict[str, str]]:
    """Count the scenarios, and find each check that did not pass: its message, by `scenario:check`."""
    gaps: dict[str, str] = {}
    found = sorted(results.glob("server-*/checks.json"))
    for file in found:
        match = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        assert match is not None
        checks = json.loads(file.read_text())
        if not any(check["status"] == "SUCCESS" for check in checks):
            gaps[f"{match[1]}:{NOTHING_CHECKED}"] = "no check of this scenario passed"
        for check in checks:
            if check["status"] not in {"SUCCESS", "INFO"}:
                gaps[f"{match[1]}:{check['id']}"] = f"{check['status']}: {check.get('errorMessage')}"
    return len(found), gaps


@pytest.mark.parametrize(
    "revision",
    [pytest.param(each, marks=() if each == max(SCENARIOS) else pytest.mark.thorough) for each in SCENARIOS],
)
def test_the_suite_passes_except_for_what_we_do_not_offer(url: str, revision: str, tmp_path: Path):
    printed = run_suite(url, revision, tmp_path)
    scenarios, gaps = find_gaps(tmp_path)
    pinned = {gap for each in NOT_OFFERED if revision in each.revisions for gap in each.checks}

    assert scenarios == SCENARIOS[revision], printed
    new = {gap: message for gap, message in gaps.items() if gap not in pinned}
    assert not new, json.dumps(new, indent=1)
    stale = sorted(pinned - gaps.keys())
    assert not stale, f"these pass now, so remove them from the list of what we do not offer: {stale}"
