"""`make test-all` runs every test that exists; `make test` leaves out those marked `thorough`, and only those."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from selection import COLLECTED, read_listed_twins

ROOT = Path(__file__).parent.parent
NOT_BY_DEFAULT = {"clients"}
"""Folders with tests that ask for programs from npm: `make clients`."""

SMALL_PLUGIN = """
import pytest
from selection import mark_twins


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_twins(items)
"""
SMALL_TESTS = """
import pytest

both = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


def test_one(): ...


@both
def test_twins(kind): ...


@pytest.mark.parametrize("number", [1, 2])
@both
def test_more(kind, number): ...


@pytest.mark.differs
@both
def test_differs(kind): ...


@pytest.mark.parametrize("kind", ["postgres"])
def test_only_here(kind): ...


@pytest.mark.thorough
def test_by_hand(): ...
"""


def read_makefile(target: str) -> str:
    """Return the command of a target, with variables replaced."""
    text = (ROOT / "Makefile").read_text()
    variables = dict(re.findall(r"^(\w+) := (.*)$", text, re.MULTILINE))
    [found] = re.findall(rf"^{target}:.*\n\t@(.*)$", text, re.MULTILINE)
    return re.sub(r"\$\((\w+)\)", lambda name: variables.get(name[1], ""), found)


def list_written_tests(file: Path) -> set[str]:
    """List the functions of a file that pytest takes for tests."""
    tree = ast.parse(file.read_text())
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return {
        node.name
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_the_quick_run_differs_from_the_complete_one_in_one_mark():
    quick, complete = read_makefile("test"), read_makefile("test-all")

    assert quick.replace(' -m "not thorough"', "") == complete
    assert not {"-k", "--ignore", "--deselect"} & set(complete.split())
    assert complete.count(" -m ") == 1  # of Python
    assert re.findall(r"^make test.*$", (ROOT / ".ci/run").read_text(), re.MULTILINE) == ["make test-all"]


def test_every_written_test_is_collected(request: pytest.FixtureRequest):
    collected = request.config.stash[COLLECTED]
    files = {path for path, _ in collected}
    if request.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        assert files == {
            file
            for file in (ROOT / "tests").rglob("test_*.py")
            if file.relative_to(ROOT / "tests").parts[0] not in NOT_BY_DEFAULT
            and "node_modules" not in file.parts
        }

    lost = {
        str(file): missing
        for file in files
        if (missing := list_written_tests(file) - {name for path, name in collected if path == file})
    }

    if not any("::" in word for word in request.config.args):
        assert lost == {}


def test_every_listed_twin_exists():
    """Correct a name that changed in `tests/twins.txt`, or write that file with `scripts/choose_twins.py`."""
    listed = read_listed_twins()
    functions = {
        file: list_written_tests(ROOT / file) for file in {name.partition("::")[0] for name in listed}
    }

    assert [
        name for name in listed if name.rpartition("::")[2] not in functions[name.partition("::")[0]]
    ] == []


def test_a_twin_is_thorough_unless_it_differs(tmp_path: Path):
    (tmp_path / "test_small.py").write_text(SMALL_TESTS)
    words = [
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not thorough",
        "--rootdir",
        str(tmp_path),
    ]
    plain = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "small_plugin"]
    (tmp_path / "small_plugin.py").write_text(SMALL_PLUGIN)

    listed = subprocess.run(
        [*plain, *words, str(tmp_path / "test_small.py")],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert re.findall(r"::(\S+)", listed) == [
        "test_one", "test_twins[sqlite]", "test_more[sqlite-1]", "test_more[sqlite-2]",
        "test_differs[sqlite]", "test_differs[postgres]", "test_only_here[postgres]",
    ]  # fmt: skip
