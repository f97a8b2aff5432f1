"""Files of rules are found wherever they are, at once when they are new, and never through a link."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.gates.reviews.discovery import RuleFinder, list_project_files, walk_files
from deepwork.kernel.git.empty_repository import list_untracked_folders
from reviews.make import ReviewProject, make_project, make_rule_data

Make = Callable[[Path], ReviewProject]


def make_plain_project(root: Path) -> ReviewProject:
    root.mkdir()
    return ReviewProject(root)


@pytest.fixture(params=["git", "no repository"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> ReviewProject:
    make: Make = make_project if request.param == "git" else make_plain_project
    return make(tmp_path / "project")


def wait_until_stamps_are_reliable() -> None:
    """Wait until the clock of the file system can tell a change from none."""
    time.sleep(0.03)


def scan_once(project: ReviewProject) -> RuleFinder:
    """A finder that has looked, and kept what it saw."""
    wait_until_stamps_are_reliable()
    finder = RuleFinder(project.safe_git)
    finder.find_files()
    assert finder._last is not None
    return finder


def test_only_files_with_the_exact_name_are_found(project: ReviewProject):
    project.write(
        ".deepreview", "src/.deepreview", "src/x.deepreview", "src/.deepreview.yml", "a/b/.deepreview"
    )

    assert set(RuleFinder(project.safe_git).find_files()) == {
        ".deepreview",
        "src/.deepreview",
        "a/b/.deepreview",
    }


@pytest.mark.parametrize("links", [1, 2])
def test_w20_links_are_not_followed_when_searching(project: ReviewProject, links: int):
    project.write(".deepreview", "src/.deepreview")
    for number in range(links):
        (project.root / f"loop{number}").symlink_to(".")
        (project.root / f"src/up{number}").symlink_to("..")

    assert set(RuleFinder(project.safe_git).find_files()) == {".deepreview", "src/.deepreview"}


def test_ignored_folders_are_neither_searched_nor_watched(tmp_path: Path):
    project = make_project(tmp_path / "project")
    project.write(".gitignore", content="vendor/\n")
    project.write(".deepreview", "vendor/.deepreview", *(f"vendor/{n}/{n}/x" for n in range(50)))

    look = RuleFinder(project.safe_git)._scan()

    assert look.files == (".deepreview",)
    assert not [folder for folder in look.folders if "vendor" in folder]


@pytest.mark.parametrize(
    "folder", ["node_modules", ".venv", "__pycache__", ".tox", "x.egg-info", ".git", ".deepwork"]
)
def test_without_git_tool_folders_are_skipped(tmp_path: Path, folder: str):
    project = make_plain_project(tmp_path / "project")
    project.write(".deepreview", f"src/{folder}/.deepreview", f"{folder}/deep/.deepreview")

    assert list(walk_files(project.root)) == [".deepreview"]


def test_an_unchanged_project_is_not_scanned_again(project: ReviewProject, monkeypatch: pytest.MonkeyPatch):
    project.write(".deepreview", "src/a.py")
    finder = scan_once(project)
    now = finder._last.began  # type: ignore[union-attr]
    monkeypatch.setattr(time, "time_ns", lambda: now)  # a look is relied on for some seconds only
    monkeypatch.setattr(finder, "_scan", lambda: pytest.fail("it looked again"))

    assert finder.find_files() == (".deepreview",)


def test_a_scan_expires(project: ReviewProject, monkeypatch: pytest.MonkeyPatch):
    finder = scan_once(project)
    (project.root / ".git/info").mkdir(parents=True, exist_ok=True)
    later = time.time_ns() + 11_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)

    assert not finder._last.is_current()  # type: ignore[union-attr]


def test_a_new_rule_file_is_noticed_immediately(project: ReviewProject):
    project.write("src/a.py", "src/deep/b.py")
    (project.root / "empty/inner").mkdir(parents=True)
    (project.root / "src/also-empty").mkdir()

    for folder in ("", "src/", "src/deep/", "empty/", "empty/inner/", "src/also-empty/"):
        finder = scan_once(project)
        project.write(f"{folder}.deepreview")
        assert f"{folder}.deepreview" in finder.find_files(), folder


def test_a_rule_file_in_a_new_folder_is_noticed_immediately(project: ReviewProject):
    finder = scan_once(project)
    (project.root / "new").mkdir()
    assert finder.find_files() == ()
    wait_until_stamps_are_reliable()
    finder.find_files()
    project.write("new/.deepreview")

    assert finder.find_files() == ("new/.deepreview",)


def test_a_removed_rule_file_is_noticed_immediately(project: ReviewProject):
    project.write(".deepreview", "src/.deepreview")
    finder = scan_once(project)
    project.remove("src/.deepreview")

    assert finder.find_files() == (".deepreview",)


def test_a_newly_ignored_folder_is_noticed_immediately(tmp_path: Path):
    project = make_project(tmp_path / "project")
    project.write("src/.gitignore", content="nothing\n")
    project.write("src/gen/.deepreview")
    finder = scan_once(project)
    assert finder.find_files() == ("src/gen/.deepreview",)
    project.write("src/.gitignore", content="gen\n")

    assert finder.find_files() == ()
    wait_until_stamps_are_reliable()
    finder.find_files()
    project.write("src/.gitignore", content="nothing\n")
    assert finder.find_files() == ("src/gen/.deepreview",)


def test_changes_right_after_a_scan_are_noticed(project: ReviewProject):
    finder = RuleFinder(project.safe_git)

    for _ in range(5):
        assert finder.find_files() == ()
        project.write(".deepreview")
        assert finder.find_files() == (".deepreview",)
        project.remove(".deepreview")


def test_project_files_are_tracked_and_unignored_files(tmp_path: Path):
    project = make_project(tmp_path / "project", rule=make_rule_data())
    project.write(".gitignore", content="*.log\n")
    project.write("new.py", "x.log")

    assert list(list_project_files(project.safe_git)) == [".deepreview", ".gitignore", "new.py"]


def test_a_folder_that_contains_only_folders_is_watched(tmp_path: Path):
    project = make_project(tmp_path / "project")
    (project.root / "a/b/c").mkdir(parents=True)

    assert set(list_untracked_folders(project.safe_git)) == {"a", "a/b", "a/b/c"}
