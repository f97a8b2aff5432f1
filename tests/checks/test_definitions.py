"""The format of checks.yml, and the report formats that checks write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.junit import TestCounts, UnreadableReport, count_tests
from deepwork.gates.checks.models import Check
from deepwork.kernel.files.problems import InvalidDefinition


def test_all_keys_and_the_defaults():
    found = parse_checks(
        b"checks:\n"
        b"  tests: {run: [make, test], timeout: 15m, needs: ['src/**'], junit: ./build/junit.xml,"
        b" not_fewer: true, retries: 1, clean: true}\n"
        b"  lint: {run: [ruff, check, .]}\n"
        b"guarded: [Makefile]\n"
    )

    assert found.checks["tests"] == Check(
        "tests",
        ("make", "test"),
        900,
        ("src/**",),
        "build/junit.xml",
        not_fewer=True,
        retries=1,
        clean=True,
        guarded=found.guarded,
    )
    assert found.checks["lint"] == Check("lint", ("ruff", "check", "."), 600, guarded=found.guarded)
    assert found.guarded == (".deepwork/checks.yml", ".deepwork/config.yml", "Makefile")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("checks:\n  a:\n    run: make", "3: checks -> a -> run: this must be a list, not text"),
        ("checks:\n  a:\n    run: [x]\n    tiemout: 1m", "4: checks -> a -> tiemout: the key 'tiemout' is unknown; did you mean 'timeout'?"),
        ("checks:\n  a: {run: [x], needs: [../x]}", "2: checks -> a -> needs -> 0: the pattern '../x' has . or .. as a name"),
        ("checks:\n  a: {run: [x], junit: /x}", "2: checks -> a -> junit: '/x' is not the path of a file inside the project"),
        ("checks:\n  a: {run: [x], timeout: 25h}", "2: checks -> a -> timeout: this is longer than a day"),
        ("checks:\n  a: {run: [x], not_fewer: true}", "2: checks -> a -> not_fewer: without a report"),
        ("checks:\n  'a b': {run: [x]}", "the name 'a b' is not allowed"),
        ("guarded: []", "the key 'checks' is missing"),
        ("checks: {}\nguarded: [~/x]", "2: guarded -> 0"),
    ],
)  # fmt: skip
def test_problems_have_a_path_and_a_line(text: str, problem: str):
    with pytest.raises(InvalidDefinition) as caught:
        parse_checks(text.encode())

    assert problem in caught.value.message


def test_tests_are_counted_in_a_report_of_pytest(tmp_path: Path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 0\n"
        "@pytest.mark.skip\n"
        "def test_c(): pass\n"
        "@pytest.mark.xfail\n"
        "def test_d(): assert 0\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_e(n): pass\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=r.xml", "test_a.py"]
    subprocess.run(words, check=False, cwd=tmp_path, capture_output=True, timeout=60)

    assert count_tests((tmp_path / "r.xml").read_bytes()) == TestCounts(run=5, skipped=2)


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"<testsuite>",
        b"not xml",
        b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>',
        b"<a>" * 200 + b"</a>" * 200,
        b'<?xml version="1.0" encoding="no-such"?><x/>',
    ],
)
def test_a_report_with_anything_else_is_refused(report: bytes):
    with pytest.raises(UnreadableReport):
        count_tests(report)


def test_the_schema_for_editors_is_current():
    from deepwork.gates.checks.check_file import CheckFileDefinition
    from deepwork.kernel.files.definition_models import build_schema

    path = Path(__file__).parents[2] / "src/deepwork/gates/checks/checks.schema.json"

    assert json.loads(path.read_text()) == build_schema(CheckFileDefinition)
