"""Matching changed files against the declared areas of a task."""

from __future__ import annotations

import pytest

from deepwork.work.tracking.attribution import Areas, evaluate_scope

COVERED = [
    ("src/auth", "src/auth/login.py"),
    ("src/auth", "src/auth"),
    ("./src/auth/", "src/auth/deep/down.py"),
    ("/src", "src/a.py"),
    ("auth", "src/auth/login.py"),
    ("auth", "src/auth.py"),
    ("Auth", "src/auth.test/x"),
    ("README", "docs/readme.md"),
    ("auth/", "auth/login.py"),
    ("login.py", "src/auth/login.py"),
    ("*.py", "src/auth/login.py"),
    ("src/*.py", "src/a.py"),
    ("src/**/*.py", "src/a.py"),
    ("src/**/*.py", "src/b/c/a.py"),
    ("src/au*", "src/auth/login.py"),
    ("test_?.py", "tests/test_a.py"),
    ("[ab].py", "x/a.py"),
    ("app/[id]", "app/[id]/page.tsx"),
    ("app/[id", "app/[id/page.tsx"),
    (".", "anything/at/all"),
    ("./", "anything"),
    ("**", "anything/at/all"),
    ("é/日本", "é/日本/x"),
]
NOT_COVERED = [
    ("auth", "docs/author.md"),
    ("auth", "src/oauth/login.py"),
    ("a", "src/auth/login.py"),
    ("src/auth", "src/authority/x.py"),
    ("src/auth", "lib/src/auth/x.py"),
    ("src/auth", "src/auth.py"),
    ("src/*.py", "src/b/a.py"),
    ("src/*.py", "lib/src/a.py"),
    ("/a.py", "b/a.py"),
    ("*.py", "src/a.pyc"),
    ("", "anything"),
    ("gitignore", ".gitignore.d"),
    ("src/Auth", "src/auth/login.py"),
]


@pytest.mark.parametrize(("area", "path"), COVERED)
def test_an_area_covers_matching_paths(area: str, path: str) -> None:
    assert Areas([area]).find_covering(path) == area


@pytest.mark.parametrize(("area", "path"), NOT_COVERED)
def test_an_area_does_not_cover_other_paths(area: str, path: str) -> None:
    assert Areas([area]).find_covering(path) is None


def test_without_areas_everything_is_in_scope() -> None:
    scope = evaluate_scope(["a.py"], [])

    assert (scope.matches, scope.unexpected, scope.warnings) == (True, (), ())


def test_files_outside_every_area_are_unexpected_in_the_given_order() -> None:
    scope = evaluate_scope(["z.md", "src/a.py", "b.md"], ["src", "tests"])

    assert not scope.matches
    assert scope.unexpected == ("z.md", "b.md")
    assert scope.warnings == ("2 file(s) modified outside declared scope (src, tests)",)
    assert scope.covered_by == {"src/a.py": "src"}


def test_the_first_of_several_covering_areas_is_returned() -> None:
    assert evaluate_scope(["src/a.py"], ["*.py", "src"]).covered_by == {"src/a.py": "*.py"}


def test_files_within_the_areas_cause_no_warning() -> None:
    scope = evaluate_scope(["src/a.py"], ["src"])

    assert (scope.matches, scope.warnings) == (True, ())
