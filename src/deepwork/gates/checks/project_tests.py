"""Finds the tests that a project has, for a person who has not said what its checks are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from deepwork.kernel.records import dataclass

_MAX_BYTES = 2**20
_MAKE_TARGET_PATTERN = re.compile(r"^(?:test|check)\s*:(?!=)", re.MULTILINE)
_NO_TEST = "no test specified"
_TEST_FOLDERS = ("tests", "test")


@dataclass(frozen=True)
class FoundTest:
    """A command that runs tests of a project, and how we know."""

    name: str
    run: tuple[str, ...]
    because: str


def find_project_tests(project: Path) -> list[FoundTest]:
    """List the commands that test a project; what its makefile says is the whole of it."""
    if target := _find_make_target(project):
        return [FoundTest("tests", ("make", target), f"its makefile has the target {target}")]
    found = [each for find in _FINDERS for each in find(project)]
    return [*found] if len({each.name for each in found}) == len(found) else found[:1]


def render_checks(tests: Sequence[FoundTest]) -> str:
    """Write these commands as a `.deepwork/checks.yml`."""
    lines = ["# What must succeed before work counts as done: docs/howto/checks.md", "checks:"]
    for test in tests:
        lines += [f"  {test.name}:", f"    run: {json.dumps(list(test.run))}"]
    return "\n".join(lines) + "\n"


def _find_make_target(project: Path) -> str | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if found := _MAKE_TARGET_PATTERN.findall(_read(project / name)):
            return "test" if any(each.startswith("test") for each in found) else "check"
    return None


def _find_pytest(project: Path) -> Iterator[FoundTest]:
    settings = {
        "pytest.ini": "",
        "pyproject.toml": "[tool.pytest",
        "setup.cfg": "[tool:pytest]",
        "tox.ini": "[pytest]",
    }
    for name, section in settings.items():
        path = project / name
        if path.is_file() and section in _read(path):
            yield FoundTest("pytest", ("pytest", "-q"), f"{name} configures pytest")
            return
    for folder in _TEST_FOLDERS:
        if any((project / folder).glob("test_*.py")):
            yield FoundTest("pytest", ("pytest", "-q"), f"{folder}/ has tests for it")
            return


def _find_node(project: Path) -> Iterator[FoundTest]:
    try:
        package = json.loads(_read(project / "package.json") or "{}")
        script = package.get("scripts", {}).get("test")
    except (ValueError, AttributeError, RecursionError):
        return
    if isinstance(script, str) and script and _NO_TEST not in script:
        program = "pnpm" if (project / "pnpm-lock.yaml").is_file() else "npm"
        yield FoundTest(program, (program, "test"), "package.json has a script `test`")


def _find_cargo(project: Path) -> Iterator[FoundTest]:
    if (project / "Cargo.toml").is_file():
        yield FoundTest("cargo", ("cargo", "test", "--quiet"), "there is a Cargo.toml")


def _find_go(project: Path) -> Iterator[FoundTest]:
    if (project / "go.mod").is_file():
        yield FoundTest("go", ("go", "test", "./..."), "there is a go.mod")


def _find_gradle(project: Path) -> Iterator[FoundTest]:
    if any((project / name).is_file() for name in ("build.gradle", "build.gradle.kts")):
        has_wrapper = (project / "gradlew").is_file()
        program = "./gradlew" if has_wrapper else "gradle"
        yield FoundTest("gradle", (program, "test", "--quiet"), "there is a gradle build")


_FINDERS = (_find_pytest, _find_node, _find_cargo, _find_go, _find_gradle)


def _read(path: Path) -> str:
    """Return the beginning of a regular file of the project; empty if there is none."""
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
