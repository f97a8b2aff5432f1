"""The tests that a project seems to have, by the files of its tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.project_tests import find_project_tests, render_checks

MAKE, PYTEST, NPM = ("make", "test"), ("pytest", "-q"), ("npm", "test")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({}, []),
        ({"README.md": "make test"}, []),
        ({"Makefile": "build:\n\ttrue\ntest: build\n\tpytest\n"}, [MAKE]),
        ({"Makefile": "check:\n\ttrue\n"}, [("make", "check")]),
        ({"Makefile": "TEST := 1\ntest := 2\n"}, []),
        ({"Makefile": "test:\n", "package.json": '{"scripts": {"test": "jest"}}'}, [MAKE]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [PYTEST]),
        ({"pyproject.toml": "[project]\n"}, []),
        ({"tests/test_shop.py": ""}, [PYTEST]),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, [NPM]),
        ({"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""}, [("pnpm", "test")]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"package.json": "{"}, []),
        ({"package.json": "[]"}, []),
        ({"Cargo.toml": ""}, [("cargo", "test", "--quiet")]),
        ({"go.mod": ""}, [("go", "test", "./...")]),
        ({"build.gradle": ""}, [("gradle", "test", "--quiet")]),
        ({"build.gradle.kts": "", "gradlew": ""}, [("./gradlew", "test", "--quiet")]),
        ({"tests/test_a.py": "", "package.json": '{"scripts": {"test": "jest"}}'}, [PYTEST, NPM]),
    ],
)
def test_tests_are_found_by_the_files_of_their_tool(
    tmp_path: Path, files: dict[str, str], commands: list[tuple[str, ...]]
):
    write(tmp_path, files)

    found = find_project_tests(tmp_path)

    assert [each.run for each in found] == commands
    if found:
        parsed = parse_checks(render_checks(found).encode(), "checks.yml")
        assert [check.run for check in parsed.checks.values()] == commands


def test_a_link_out_of_the_project_is_not_read(tmp_path: Path):
    write(tmp_path, {"elsewhere": "test:\n", "project/README": ""})
    (tmp_path / "project" / "Makefile").symlink_to(tmp_path / "elsewhere")

    assert find_project_tests(tmp_path / "project") == []
